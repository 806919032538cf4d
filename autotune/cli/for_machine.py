"""`autotune tune --for MACHINE`: choose by models alone, compile, and verify under an emulator where there is one."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from autotune.core.errors import MachineError
from autotune.store.places import OUTPUT, slug

if TYPE_CHECKING:
    from autotune.bundles.for_target import TargetCheck
    from autotune.tuning.for_machine import ModelTuning, TaskPrediction
    from autotune.tuning.options import TuneOptions

SCHEDULE, MACHINE, CHOSEN = "schedule.mlir", "machine.toml", "chosen.json"


def tune_by_model(
    payloads: Sequence[str], spec: str, options: "TuneOptions", *, searched: bool, folder: Path | None, as_json: bool
) -> None:
    """Search schedules for a machine that is not here, and write what was chosen; exit 1 if it is wrong.

    Args:
        payloads: Specs of the payloads.
        spec: The machine, as `--for` names it.
        options: Options of `tune`.
        searched: Whether there are other options besides, of searches that measure.
        folder: Folder to write to; by default one below ``tuned/``.
        as_json: Print JSON.
    """
    from autotune.bundles.emit import write_program
    from autotune.bundles.for_target import compile_as, verify_emulated
    from autotune.cli.progress import ProgressLine, read_payloads
    from autotune.core.target_file import find_target, write_target
    from autotune.tuning.for_machine import tune_for
    from autotune.worker.worker import Worker

    target = find_target(spec, "--for without --cluster")
    if searched or options.threads > 1 or options.jobs > 1 or options.backends:
        raise typer.BadParameter("--for MACHINE measures nothing: of a search it takes --trials, --sampler and --seed")
    with ProgressLine() as line:
        loaded = read_payloads(payloads, line)
    wrong = False
    for payload in loaded:
        place = folder or OUTPUT / f"for-{target.name}" / slug(payload.name)
        with Worker(options.timeout) as worker:
            with ProgressLine(payload.name) as line:
                found = tune_for(payload, target, options, line, worker=worker)
                program = compile_as(payload, found.candidate, target, worker)
            try:
                check, why_not = verify_emulated(program, worker), ""
            except MachineError as error:
                check, why_not = None, str(error)
        written = write_program(program, "object", place)
        (place / SCHEDULE).write_text(str(found.candidate.script))
        (place / MACHINE).write_text(write_target(target))
        told = found.to_json() | {"check": check.to_json() if check is not None else None, "files": str(place)}
        (place / CHOSEN).write_text(json.dumps(told, indent=1) + "\n")
        if as_json:
            typer.echo(json.dumps(told))
        else:
            show_chosen(found, check, why_not, [path.name for path in written], place)
        wrong = wrong or (check is not None and not check.is_right)
    if wrong:
        raise typer.Exit(1)


def show_chosen(
    found: "ModelTuning", check: "TargetCheck | None", why_not: str, written: Sequence[str], place: Path
) -> None:
    """Print what models chose, and that nothing was measured."""
    from autotune.cli.layout import show_sentence
    from autotune.reports.format import error_beside, out
    from autotune.tuning.for_machine import notes_of

    console = out()
    show_sentence(console, f"{found.payload.name} for {found.target.name}: chosen by models, nothing was measured")
    for task in found.tasks:
        show_sentence(console, sentence_of(task), 2)
    if check is None:
        show_sentence(console, f"not verified: {why_not}", 2)
    elif check.is_right:
        beside = error_beside(check.max_error, check.oracle, unproved=check.unproved)
        show_sentence(console, f"right, {beside}, under {check.emulator}", 2)
    else:
        show_sentence(console, f"{check.outcome}: {check.diagnostic}, under {check.emulator}", 2)
    for note in notes_of(found.tasks):
        show_sentence(console, f"note: {note}", 2)
    console.print(f"  files: {place}: {', '.join((*written, SCHEDULE, MACHINE, CHOSEN))}", soft_wrap=True, markup=False)


def sentence_of(task: "TaskPrediction") -> str:
    """What models say of one task."""
    if task.best is None or task.default is None:
        return f"{task.task}: default of {task.family}"
    same = "the default" if task.best.config == task.default.config else f"{task.gain:.3f} x the default's rate"
    return (
        f"{task.task}: {task.best.cycles:.3g} cycles predicted, {same}; {task.best.in_l1:.2f} cycles a multiply-add in "
        f"L1; {task.tried} configs of {task.family} compiled"
    )
