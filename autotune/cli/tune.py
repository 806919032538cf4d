"""`autotune tune`: search schedules, verify the best and write a bundle."""

import json
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autotune.cli.options import AsJson, Payloads, StorePath, with_options
from autotune.cli.say import complain
from autotune.core.host.machine import this_machine
from autotune.core.plugs.verb import Arguments, option
from autotune.store.folders import home
from autotune.tuning.options import command_options, options_given

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from autotune.tuning.options import TuneOptions
    from autotune.tuning.result import TuneResult
    from autotune.tuning.stages.workplace import Workplace

ELSEWHERE = "Other machines"
# Option of the plug-ins that tune for other machines.
FOR = option(
    "kind",
    Annotated[
        str,
        typer.Option(
            "--for",
            rich_help_panel=ELSEWHERE,
            metavar="FINGERPRINT|all|MACHINE",
            help="Machines of a cluster to tune for; without --cluster a machine to choose for by models alone.",
        ),
    ],
    "",
)
PAUSE_SECONDS = 10.0  # interval of retries on a full disk


@with_options(command_options())
def tune(
    payloads: Payloads,
    store: StorePath = None,
    bundle: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder for the winner's bundle.")] = None,
    as_json: AsJson = False,
    **words: Any,  # noqa: ANN401 - the fields of TuneOptions, by `with_options`
) -> None:
    """Search schedules for payloads, prove the best right and faster, and write a bundle.

    Run again, it resumes: trials in the store are not run twice, and with nothing left to run the recorded winner
    stands, unless --anew. A faster bundle of the same payload is not replaced either. Each task starts from the
    configs that bundles below tuned/ record for the most similar tasks.

    With --schedule, or where the payload's file holds `@__transform_main`, that script is tuned: its transform.tune
    knobs and alternatives, under its transform.smt constraints.

    With --jobs, idle cores compile while one measures; the order of trials is then no longer the seed's alone.

    With --beside, once or more, another family competes with the one that is searched, task by task.

    With --error or --agreement, tasks may compute in int16, bf16 or int8 as far as outputs keep it, on fresh inputs.

    With --objective seconds,joules, configs are kept that none beats in both; --weight chooses among them.

    Example: autotune tune matmul,m=512,n=512,k=512 --trials 100
    """
    from autotune.tuning.stages.opening import check_names

    check_folder(payloads, bundle)
    options = options_given(words)
    check_names(options)
    tune_by_measuring(payloads, options, store=store, bundle=bundle, as_json=as_json)


def check_folder(payloads: Sequence[str], bundle: Path | None) -> None:
    """Check that a bundle folder is given for one payload only.

    Raises:
        BadParameter: There are several payloads.
    """
    if bundle is not None and len(payloads) > 1:
        raise typer.BadParameter("--bundle names one folder: give one payload, or leave it out")


def check_modelled(options: "TuneOptions", arguments: Arguments, word: str, others: Sequence[str]) -> None:
    """Check that no option is given that a model-based search would ignore.

    Args:
        options: Options of `tune`.
        arguments: All arguments of the verb.
        word: Option that selects the model-based search, for the message.
        others: Names of further arguments that only apply to measurements.

    Raises:
        BadParameter: Such an option is given.
    """
    rejected = (*options.of_measuring, *(f"--{name}" for name in others if arguments[name]))
    if rejected:
        raise typer.BadParameter(
            f"{word} measures nothing: of a search it takes --trials, --sampler and --seed; drop {', '.join(rejected)}"
        )


def tune_by_measuring(
    payloads: Sequence[str],
    options: "TuneOptions",
    elsewhere: "AbstractContextManager[Workplace] | None" = None,
    *,
    store: str | None,
    bundle: Path | None,
    as_json: bool,
) -> None:
    """Search with measurements, and write a bundle for every payload.

    Args:
        payloads: Specs of the payloads.
        options: Options of the run.
        elsewhere: Other machines that measure; `None` for this machine.
        store: Store of trials; by default the one of this folder.
        bundle: Folder to write to; by default one below ``tuned/``.
        as_json: Print JSON.
    """
    from autotune.cli.reading import read_payloads
    from autotune.core.progress import ProgressLine
    from autotune.registry import rewriter
    from autotune.store.store import Store
    from autotune.tuning.front import folder_of, start_of
    from autotune.tuning.tune import tune
    from autotune.worker.loading.reading import ScriptFile

    script = ScriptFile.read(Path(options.schedule)) if options.schedule else None
    wanted = rewriter().read(options.rules or None, exact=options.exact)
    with ProgressLine() as line:
        loaded = [replace(payload, rules=wanted) for payload in read_payloads(payloads, line)]
    with (
        elsewhere or nullcontext() as workplace,
        Store.open(store or home() / "store.journal", pause=wait_for_room) as opened,
    ):
        machine = this_machine(options.threads) if workplace is None else workplace.machine
        for message in opened.messages:
            complain(message)
        for payload in loaded:
            for note in payload.notes:
                complain(note)
            start = start_of(payload, options, script, machine)
            if workplace is not None:
                start = replace(start, least_floor=workplace.noise_floor)
            if start.known and start.script is None:
                complain(f"{len(start.known)} recorded configs are known; --cold ignores them")
            with ProgressLine(payload.name, options.trials) as line:
                folder = bundle or folder_of(payload, options, start, machine)
                result = tune(payload, opened, folder, options, line, elsewhere=workplace, start=start)
            if as_json:
                typer.echo(json.dumps(result.to_json()))
            else:
                show_result(result)


def wait_for_room(sentence: str) -> None:
    """Print a message and wait `PAUSE_SECONDS` before a retry."""
    complain(sentence)
    time.sleep(PAUSE_SECONDS)


def show_result(result: "TuneResult") -> None:
    """Print the notes and the summary of a tuning run."""
    from autotune.cli.layout import show_sentence
    from autotune.reports.format import agreement, error_beside, out, plural, uncovered
    from autotune.reports.headline import beside_rival, headline, over_naive

    console = out()
    for note in result.notes:
        show_sentence(console, f"note: {note}")
    if (budget := result.spent) is not None:
        many = f"{len(budget.tasks)} task{'s' if len(budget.tasks) > 1 else ''}"
        show_sentence(console, f"error {budget.spent:.2g} of {budget.error:.2g} allowed, {many} in lower precision")
        if budget.rows:
            show_sentence(console, agreement(budget.agrees, budget.agreement, budget.rows))
    if sentence := uncovered([(each.op.name, each.op.why, each.share) for each in result.uncovered]):
        show_sentence(console, sentence)
    lead = headline(
        result.payload,
        result.best_seconds,
        clock=result.clock_seconds,
        share=result.roof_fraction,
        floor=result.noise_floor,
        unsteady=result.unsteady,
        rounded=result.spent is not None,
    )
    rival = beside_rival(result.bundle, result.payload, result.machine.fingerprint)
    show_sentence(console, lead if result.unsteady else f"{lead}; {rival}")
    error = error_beside(result.max_error, result.oracle, unproved=result.unproved)
    naive = over_naive(result.speedup, result.baseline_name, result.baseline_seconds)
    known = sum(result.trials.values()) - result.evaluated
    others = f" ({known} more: recorded before, or the same program as another)" if known else ""
    counts = f"{plural(result.evaluated, 'trial')} run now{others}, in {result.seconds:.0f} s"
    show_sentence(console, "; ".join(["verified", error, counts, *([] if result.unsteady else [naive])]), 2)
    console.print(f"  bundle: {result.bundle}", soft_wrap=True, markup=False)
    again = f"autotune replay {result.bundle}"
    following = again if result.unsteady else f"autotune report {result.bundle} --open"
    console.print(f"  next: {following}", soft_wrap=True, markup=False)
