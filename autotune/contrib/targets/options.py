"""`autotune tune --for MACHINE`: choose by models alone, compile, and verify under an emulator where there is one."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli.tune import FOR, check_folder, check_modelled
from autotune.core.errors import MachineError
from autotune.core.host.whole_file import write_file
from autotune.plugins import Arguments, Listing, VerbOption, option
from autotune.store.folders import OUTPUT, slug

if TYPE_CHECKING:
    from autotune.contrib.targets.program import TargetCheck
    from autotune.contrib.targets.tune import ModelTuning, TaskPrediction
    from autotune.core.target import Target
    from autotune.tuning.options import TuneOptions

SCHEDULE, MACHINE, CHOSEN = "schedule.mlir", "machine.toml", "chosen.json"


def tune_by_model(
    payloads: Sequence[str], spec: str, options: "TuneOptions", *, folder: Path | None, as_json: bool
) -> None:
    """Choose schedules for another machine by models, and write the result; exit 1 if it is wrong.

    Args:
        payloads: Specs of the payloads.
        spec: Machine, as given to `--for`.
        options: Options of `tune`.
        folder: Folder to write to; by default one below ``tuned/``.
        as_json: Whether to print JSON.
    """
    from autotune.cli.reading import read_payloads
    from autotune.contrib.targets.program import compile_as, verify_emulated, write_program
    from autotune.contrib.targets.target_file import find_target, write_target
    from autotune.contrib.targets.tune import tune_for
    from autotune.core.progress import ProgressLine
    from autotune.worker.worker import Worker

    target = find_target(spec, "--for without --cluster")
    with ProgressLine() as line:
        loaded = read_payloads(payloads, line)
    wrong = False
    for payload in loaded:
        directory = folder or OUTPUT / f"for-{target.name}" / slug(payload.name)
        with Worker(options.timeout) as worker:
            with ProgressLine(payload.name) as line:
                tuning = tune_for(payload, target, options, line, worker=worker)
                program = compile_as(payload, tuning.candidate, target, worker)
            try:
                check, why_not = verify_emulated(program, worker), ""
            except MachineError as error:
                check, why_not = None, str(error)
        written = write_program(program, "object", directory)
        write_file(directory / SCHEDULE, str(tuning.candidate.script))
        write_file(directory / MACHINE, write_target(target))
        recorded = tuning.to_json() | {"check": check.to_json() if check is not None else None, "files": str(directory)}
        write_file(directory / CHOSEN, json.dumps(recorded, indent=1) + "\n")
        if as_json:
            typer.echo(json.dumps(recorded))
        else:
            show_chosen(tuning, check, why_not, [path.name for path in written], directory)
        wrong = wrong or (check is not None and not check.is_right)
    if wrong:
        raise typer.Exit(1)


def show_chosen(
    tuning: "ModelTuning", check: "TargetCheck | None", why_not: str, written: Sequence[str], path: Path
) -> None:
    """Print the configs that the models chose, and that nothing was measured."""
    from autotune.cli.layout import show_sentence
    from autotune.contrib.targets.tune import notes_of
    from autotune.reports.format import error_beside, out

    console = out()
    show_sentence(console, f"{tuning.payload.name} for {tuning.target.name}: chosen by models, nothing was measured")
    for task in tuning.tasks:
        show_sentence(console, sentence_of(task), 2)
    if check is None:
        show_sentence(console, f"not verified: {why_not}", 2)
    elif check.is_right:
        beside = error_beside(check.max_error, check.oracle, unproved=check.unproved)
        show_sentence(console, f"right, {beside}, under {check.emulator}", 2)
    else:
        show_sentence(console, f"{check.outcome}: {check.diagnostic}, under {check.emulator}", 2)
    for note in notes_of(tuning.tasks):
        show_sentence(console, f"note: {note}", 2)
    console.print(f"  files: {path}: {', '.join((*written, SCHEDULE, MACHINE, CHOSEN))}", soft_wrap=True, markup=False)


def sentence_of(task: "TaskPrediction") -> str:
    """Return a sentence with the prediction for one task."""
    if task.best is None or task.default is None:
        return f"{task.task}: default of {task.family}"
    same = "the default" if task.best.config == task.default.config else f"{task.gain:.3f} x the default's rate"
    return (
        f"{task.task}: {task.best.cycles:.3g} cycles predicted, {same}; {task.best.in_l1:.2f} cycles a multiply-add in "
        f"L1; {task.tried} configs of {task.family} compiled"
    )


def choose_for(arguments: Arguments) -> None:
    """Run `tune --for MACHINE` without a cluster; nothing is measured."""
    from autotune.tuning.options import options_given

    check_folder(arguments["payloads"], arguments["bundle"])
    options = options_given(arguments)
    check_modelled(options, arguments, "--for MACHINE", ("store",))
    output = {"folder": arguments["bundle"], "as_json": arguments["as_json"]}
    tune_by_model(arguments["payloads"], arguments["kind"], options, **output)


def replay_elsewhere(arguments: Arguments) -> None:
    """Run `replay --target`: compile a bundle's payload for another machine; write or verify it."""
    from autotune.bundles.emit import check_kind
    from autotune.contrib.targets.program import compile_default, write_program
    from autotune.contrib.targets.target_file import find_target
    from autotune.store.bundle import read_bundle
    from autotune.worker.isolation.limits import MODEL_SECONDS
    from autotune.worker.worker import Worker

    target, kind = find_target(arguments["target"]), arguments["emit"]
    if kind is None:
        replay_for(arguments["bundle"], target, as_json=arguments["as_json"])
        return
    check_kind(kind)
    payload = read_bundle(arguments["bundle"]).payload
    with Worker(MODEL_SECONDS) as worker:
        program = compile_default(payload, target, worker, kind)
    for path in write_program(program, kind, arguments["output"] or Path()):
        typer.echo(path)


def replay_for(folder: Path, target: "Target", *, as_json: bool) -> None:
    """Compile a bundle's payload for another machine, and verify it under an emulator; exit 1 if it is wrong."""
    from autotune.cli.layout import show_sentence
    from autotune.contrib.targets.report import judge_bundle
    from autotune.reports.format import out

    judged = judge_bundle(folder, target)
    if as_json:
        typer.echo(json.dumps(judged.to_json()))
    else:
        console = out()
        for line in judged.lines:
            show_sentence(console, line.strip(), 2 * line.startswith(" "))
    if not judged.check.is_right:
        raise typer.Exit(1)


def write_machine(arguments: Arguments) -> None:
    """Run `doctor --write`: write a file that describes this machine."""
    from autotune.compiler.codegen.this_target import this_target
    from autotune.contrib.targets.target_file import write_target

    write_file(arguments["write"], write_target(this_target()))
    typer.echo(arguments["write"])


def summaries() -> dict[str, str]:
    """Return a summary line of each shipped machine, by name."""
    from autotune.contrib.targets.target_file import shipped_targets

    return {name: target.summary for name, target in shipped_targets().items()}


TARGETS = Listing(summaries)
TUNE = VerbOption("tune", (FOR,), lambda given: bool(given["kind"]) and not given.get("cluster"), choose_for)
REPLAY = VerbOption(
    "replay",
    (
        option(
            "target",
            Annotated[
                str,
                typer.Option(
                    metavar="NAME|TRIPLE[,cpu=CPU]|FILE.toml",
                    help="Compile for that machine instead, by its default configs; verified under an emulator, or "
                    "written by --emit. Nothing is measured.",
                ),
            ],
            "",
        ),
    ),
    lambda given: bool(given["target"]),
    replay_elsewhere,
    ignores=("retune", "trials", "store", "timeout", "payload", "family", "emulate"),
)
DOCTOR = VerbOption(
    "doctor",
    (
        option(
            "write",
            Annotated[
                Path | None,
                typer.Option(
                    metavar="FILE", help="Write what this machine is to a file that --target takes, and stop."
                ),
            ],
            None,
        ),
    ),
    lambda given: given["write"] is not None,
    write_machine,
    ignores=("noise", "threads", "as_json"),
)
