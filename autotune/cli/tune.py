"""`autotune tune`: search schedules, prove the best, write a bundle."""

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli.options import AsJson, Payloads, StorePath, real, whole
from autotune.cli.say import complain
from autotune.core.machine import this_machine
from autotune.store.places import bundle_folder, home, recorded_folders

if TYPE_CHECKING:
    from autotune.tuning.result import TuneResult

PAUSE_SECONDS = 10.0  # between looks at a full disk


def tune(
    payloads: Payloads,
    trials: Annotated[int, typer.Option(parser=whole, help="Candidates to run over all tasks of a payload.")] = 100,
    seconds: Annotated[
        float | None, typer.Option(parser=real, help="Stop searching a payload after this long.")
    ] = None,
    sampler: Annotated[str, typer.Option(help="tpe, random, cmaes or grid.")] = "tpe",
    seed: Annotated[int, typer.Option(parser=whole, help="Of the sampler and the input data.")] = 0,
    baseline: Annotated[str, typer.Option(help="Pipeline that speed-ups are quoted against; see `list`.")] = "passes",
    timeout: Annotated[float, typer.Option(parser=real, help="Seconds one candidate may take.")] = 60.0,
    store: StorePath = None,
    bundle: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder for the winner's bundle.")] = None,
    schedule: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A transform script of your own, whose open knobs are searched."),
    ] = None,
    task: Annotated[
        str, typer.Option(metavar="TAG|GLOB", help="Tasks that a script of one op is for; see `show --stage tasks`.")
    ] = "*",
    family: Annotated[
        str, typer.Option(metavar="NAME|FILE.py:NAME", help="Family of schedules to search; see `show --stage tasks`.")
    ] = "",
    cold: Annotated[bool, typer.Option("--cold", help="Ignore what recorded bundles know.")] = False,
    as_json: AsJson = False,
) -> None:
    """Search schedules for payloads, prove the best right and faster, and write a bundle.

    Run again, it resumes: trials in the store are not run twice. Each task starts from the configs that bundles below
    results/ record for the most similar tasks.

    With --schedule, or where the payload's file holds `@__transform_main`, that script is tuned: its transform.tune
    knobs and alternatives, under its transform.smt laws.

    Example: autotune tune matmul,m=512,n=512,k=512 --trials 100
    """
    from autotune.cli.progress import ProgressLine
    from autotune.registry import load_baseline, load_family
    from autotune.store.store import Store
    from autotune.tuning.own import own_script
    from autotune.tuning.tune import TuneOptions, tune
    from autotune.tuning.warm_start import read_known
    from autotune.worker.noise import read_floor
    from autotune.worker.reading import ScriptFile, open_payload

    if bundle is not None and len(payloads) > 1:
        raise typer.BadParameter("--bundle names one folder: give one payload, or leave it out")
    options = TuneOptions(
        trials=trials,
        seconds=seconds,
        sampler=sampler,
        seed=seed,
        baseline=baseline,
        timeout=timeout,
        least_floor=read_floor(home(), this_machine()),
    )
    if family and schedule is not None:
        raise typer.BadParameter("--family and --schedule are two ways to schedule: give one")
    if family:
        load_family(family)
    load_baseline(baseline)
    script = ScriptFile.read(schedule) if schedule is not None else None
    loaded = [open_payload(spec) for spec in payloads]
    with Store.open(store or home() / "store.journal", pause=wait_for_room) as opened:
        for message in opened.messages:
            complain(message)
        for payload in loaded:
            for note in payload.notes:
                complain(note)
            own = own_script(payload, script) if not family else None
            folder = bundle or bundle_folder(payload.name, own.source if own is not None else "")
            known = () if cold else tuple(read_known(recorded_folders(), payload.name))
            if known and own is None:
                complain(f"{len(known)} recorded configs are known; --cold ignores them")
            with ProgressLine(payload.name, trials) as line:
                result = tune(
                    payload, opened, folder, replace(options, known=known, script=own, tasks=task, family=family), line
                )
            if as_json:
                typer.echo(json.dumps(result.to_json()))
            else:
                show_result(result)


def wait_for_room(sentence: str) -> None:
    """Say that the disk is full, and wait a little."""
    complain(sentence)
    time.sleep(PAUSE_SECONDS)


def show_result(result: "TuneResult") -> None:
    """Print the summary of a tuning run."""
    from autotune.cli.layout import show_sentence
    from autotune.reports.format import duration, factor, out

    console = out()
    share = f", {result.roof_fraction:.1%} of the FMA roof" if result.roof_fraction else ""
    show_sentence(console, f"{result.payload}: {duration(result.best_seconds)}{share}")
    over = f"{factor(result.speedup)} over {result.baseline_name} ({duration(result.baseline_seconds)})"
    show_sentence(console, f"{over}, max error {result.max_error:.2g}", 2)
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in sorted(result.trials.items()))
    rate = 60 * result.evaluated / result.search_seconds if result.search_seconds else 0.0
    show_sentence(
        console,
        f"trials: {outcomes}; {result.evaluated} run now, {rate:.0f} a minute; {result.seconds:.0f} s in all",
        2,
    )
    for note in result.notes:
        show_sentence(console, f"note: {note}", 2)
    for line in (f"bundle: {result.bundle}", f"replay: autotune replay {result.bundle}"):
        console.print(f"  {line}", soft_wrap=True, markup=False)
