"""`autotune tune`: search schedules, prove the best, write a bundle."""

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli.options import AsJson, Exact, Payloads, RuleFile, StorePath, Threads, jobs_of, real, whole
from autotune.cli.say import complain
from autotune.core.machine import this_machine
from autotune.core.objective import Objective
from autotune.store.places import bundle_folder, home, recorded_folders, recorded_spaces

if TYPE_CHECKING:
    from autotune.tuning.result import TuneResult
    from autotune.tuning.tune import TuneOptions

SEARCH, ROUNDING, ELSEWHERE = "What is searched, and how", "What may be rounded, what is minimised", "Other machines"
PAUSE_SECONDS = 10.0  # between looks at a full disk


def tune(
    payloads: Payloads,
    trials: Annotated[int, typer.Option(parser=whole, help="Candidates to run over all tasks of a payload.")] = 100,
    seconds: Annotated[
        float | None, typer.Option(parser=real, help="Stop searching a payload after this long.")
    ] = None,
    sampler: Annotated[
        str,
        typer.Option(
            rich_help_panel=SEARCH,
            help="auto (a cost model), tpe, model, random, cmaes, grid, or by name: GPSampler, optunahub:samplers/..",
        ),
    ] = "auto",
    seed: Annotated[int, typer.Option(parser=whole, help="Of the sampler and the input data.")] = 0,
    baseline: Annotated[
        str, typer.Option(rich_help_panel=SEARCH, help="Pipeline that speed-ups are quoted against; see `list`.")
    ] = "passes",
    timeout: Annotated[
        float, typer.Option(rich_help_panel=SEARCH, parser=real, help="Seconds one candidate may take.")
    ] = 60.0,
    store: StorePath = None,
    bundle: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder for the winner's bundle.")] = None,
    schedule: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A transform script of your own, whose open knobs are searched."),
    ] = None,
    task: Annotated[
        str,
        typer.Option(
            rich_help_panel=SEARCH,
            metavar="TAG|GLOB",
            help="Tasks that a script of one op is for; see `show --stage tasks`.",
        ),
    ] = "*",
    family: Annotated[
        str,
        typer.Option(
            rich_help_panel=SEARCH,
            metavar="NAME|FILE.py:NAME",
            help="Family of schedules to search; see `show --stage tasks`.",
        ),
    ] = "",
    beside: Annotated[
        list[str] | None,
        typer.Option(
            rich_help_panel=SEARCH,
            metavar="NAME|FILE.py:NAME",
            help="Another family, which competes for the tasks that it covers.",
        ),
    ] = None,
    backend: Annotated[
        list[str] | None,
        typer.Option(
            rich_help_panel=SEARCH,
            metavar="NAME[:ARGUMENT]",
            help="Another compiler that competes for tasks; see `list`.",
        ),
    ] = None,
    cost: Annotated[
        str,
        typer.Option(
            rich_help_panel=ELSEWHERE,
            metavar="NAME[:ARGUMENT]",
            help="What a choice costs: cpu measures, mesh:GRID models.",
        ),
    ] = "cpu",
    error: Annotated[
        float,
        typer.Option(
            rich_help_panel=ROUNDING,
            parser=real,
            help="What outputs may be off, of the largest of each; tasks then round.",
        ),
    ] = 0.0,
    agreement: Annotated[
        float,
        typer.Option(
            rich_help_panel=ROUNDING,
            parser=real,
            help="Share of output rows whose largest must keep its place; tasks round.",
        ),
    ] = 0.0,
    objective: Annotated[
        str,
        typer.Option(
            rich_help_panel=ROUNDING,
            metavar="seconds|seconds,joules",
            help="What is minimised; joules where RAPL is readable.",
        ),
    ] = "seconds",
    weight: Annotated[
        float, typer.Option(rich_help_panel=ROUNDING, parser=real, help="Share of joules in the choice, from 0 to 1.")
    ] = 0.5,
    rules: RuleFile = "",
    exact: Exact = False,
    threads: Threads = 1,
    jobs: Annotated[
        int, typer.Option(parser=jobs_of, metavar="N", help="Candidates worked on at once; one at a time measures.")
    ] = 1,
    cluster: Annotated[
        str,
        typer.Option(
            rich_help_panel=ELSEWHERE,
            metavar="ADDRESS",
            help="Machines that measure: tcp://HOST:8786, a scheduler file, local:N.",
        ),
    ] = "",
    kind: Annotated[
        str,
        typer.Option(
            "--for",
            rich_help_panel=ELSEWHERE,
            metavar="FINGERPRINT|all|MACHINE",
            help="Machines of a cluster to tune for; without --cluster a machine to choose for by models alone.",
        ),
    ] = "",
    cold: Annotated[
        bool, typer.Option("--cold", rich_help_panel=SEARCH, help="Ignore what recorded bundles and spaces know.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Search schedules for payloads, prove the best right and faster, and write a bundle.

    Run again, it resumes: trials in the store are not run twice. Each task starts from the configs that bundles below
    tuned/ record for the most similar tasks.

    With --schedule, or where the payload's file holds `@__transform_main`, that script is tuned: its transform.tune
    knobs and alternatives, under its transform.smt laws.

    With --jobs, idle cores compile while one measures; the order of trials is then no longer the seed's alone.

    With --beside, once or more, another family competes with the one that is searched, task by task.

    With --backend, once or more, code that others make of a task competes with schedules, verified and timed alike.

    With --error or --agreement, tasks may compute in int16, bf16 or int8 as far as outputs keep it, on fresh inputs.

    With --for MACHINE, a shipped machine or a file of `doctor --write`, models alone choose: nothing is measured.

    With --objective seconds,joules, configs are kept that none beats in both; --weight chooses among them.

    With --cost mesh:GRID, a simulated mesh of cores says what a placement takes: nothing is measured.

    With --cluster, machines of one kind measure as many candidates at once as there are slots; finalists race on one.

    Example: autotune tune matmul,m=512,n=512,k=512 --trials 100
    """
    from autotune.cli.by_cost import find_model, tune_with_cost
    from autotune.cli.for_machine import tune_by_model
    from autotune.cli.machines import open_machines
    from autotune.cli.progress import ProgressLine, read_payloads
    from autotune.store.store import Store
    from autotune.tuning.lessons import recordings_for
    from autotune.tuning.own import own_script
    from autotune.tuning.tune import TuneOptions, tune
    from autotune.tuning.warm_start import read_known
    from autotune.worker.noise import read_floor
    from autotune.worker.reading import ScriptFile
    from autotune.worker.rule_files import read_rules

    if bundle is not None and len(payloads) > 1:
        raise typer.BadParameter("--bundle names one folder: give one payload, or leave it out")
    rounds = max(error, agreement)
    check_machine(jobs, rounds, objective, cluster, other=bool(cluster or kind or schedule or cost != "cpu"))
    options = TuneOptions(
        trials=trials,
        seconds=seconds,
        sampler=sampler,
        seed=seed,
        baseline=baseline,
        timeout=timeout,
        threads=threads,
        jobs=jobs,
        beside=tuple(beside or ()),
        backends=tuple(backend or ()),
        error=error,
        agreement=agreement,
        objective=Objective(objective, weight),
    )
    searched = bool(family or beside or schedule is not None or store is not None or rules or exact)
    if (model := find_model(cost)) is not None:
        measured = searched or bool(kind or cluster)
        tune_with_cost(payloads, model, options, searched=measured, folder=bundle, as_json=as_json)
        return
    if kind and not cluster:
        tune_by_model(payloads, kind, options, searched=searched, folder=bundle, as_json=as_json)
        return
    check_names(family, schedule, options, cluster)
    script = ScriptFile.read(schedule) if schedule is not None else None
    wanted = read_rules(rules or None, exact=exact)
    with ProgressLine() as line:
        loaded = [replace(payload, rules=wanted) for payload in read_payloads(payloads, line)]
    with (
        open_machines(cluster, kind, threads, timeout) as team,
        Store.open(store or home() / "store.journal", pause=wait_for_room) as opened,
    ):
        machine = team.machine if team is not None else this_machine(threads)
        floor = read_floor(home(), machine) if team is None else max(m.slot.noise_floor for m in team.members if m.slot)
        recordings = () if cold else recordings_for(sampler, recorded_spaces())
        options = replace(options, least_floor=floor, recordings=recordings)
        for message in opened.messages:
            complain(message)
        for payload in loaded:
            for note in payload.notes:
                complain(note)
            own = own_script(payload, script) if not family else None
            by = own.source if own is not None else ""
            folder = bundle or bundle_folder(payload.name, by, threads, payload.rules.options, machine)
            known = () if cold else tuple(read_known(recorded_folders(), payload.name))
            if known and own is None:
                complain(f"{len(known)} recorded configs are known; --cold ignores them")
            with ProgressLine(payload.name, trials) as line:
                chosen = replace(options, known=known, script=own, tasks=task, family=family)
                result = tune(payload, opened, folder, chosen, line, team=team)
            if as_json:
                typer.echo(json.dumps(result.to_json()))
            else:
                show_result(result)


def check_machine(jobs: int, error: float, objective: str, cluster: str, *, other: bool) -> None:
    """Refuse options of this machine, and of its families, beside another machine or one's own script.

    Raises:
        BadParameter: There are both.
    """
    if cluster and jobs > 1:
        raise typer.BadParameter("--jobs is of this machine, a cluster has a job a slot: give --cluster or --jobs")
    if cluster and objective != "seconds":
        raise typer.BadParameter("--objective with joules is of this machine, --cluster measures on others: give one")
    if error and other:
        rest = "drop it, or --cluster, --cost, --for and --schedule"
        raise typer.BadParameter(f"--error or --agreement chooses families here: {rest}")


def check_names(family: str, schedule: Path | None, options: "TuneOptions", cluster: str) -> None:
    """Refuse names of what is not there, and options that exclude each other, before anything is measured.

    Raises:
        ScheduleError: There is no family, back end or baseline of a name.
        OptionError: Two ways to schedule are given.
        BadParameter: Code would be for another machine.
    """
    from autotune.core.errors import ScheduleError
    from autotune.registry import BACKENDS, find_point, load_baseline, load_family
    from autotune.tuning.own import check_ways

    check_ways(family, has_script=schedule is not None)
    for name in (*([family] if family else []), *options.beside):
        load_family(name)
    for spec in options.backends:
        find_point(BACKENDS, "back end", spec.partition(":")[0], ScheduleError)
    if options.backends and cluster:
        raise typer.BadParameter("--backend makes code for this machine, --cluster measures on others: give one")
    load_baseline(options.baseline)


def wait_for_room(sentence: str) -> None:
    """Say that the disk is full, and wait a little."""
    complain(sentence)
    time.sleep(PAUSE_SECONDS)


def show_result(result: "TuneResult") -> None:
    """Print the summary of a tuning run."""
    from autotune.cli.layout import show_sentence
    from autotune.reports.format import agreement, duration, factor, out

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
    if (budget := result.spent) is not None:
        many = f"{len(budget.tasks)} task{'s' if len(budget.tasks) > 1 else ''}"
        show_sentence(console, f"error {budget.spent:.2g} of {budget.error:.2g} allowed, {many} in lower precision", 2)
        if budget.rows:
            show_sentence(console, agreement(budget.agrees, budget.agreement, budget.rows), 2)
    for note in result.notes:
        show_sentence(console, f"note: {note}", 2)
    for line in (f"bundle: {result.bundle}", f"replay: autotune replay {result.bundle}"):
        console.print(f"  {line}", soft_wrap=True, markup=False)
