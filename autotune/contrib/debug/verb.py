"""`autotune debug`: what a schedule does, step by step."""

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli.options import whole
from autotune.core.host.files import why_refused
from autotune.core.host.whole_file import write_file
from autotune.plugins import Verb

if TYPE_CHECKING:
    from collections.abc import Iterable

    from autotune.contrib.debug.recording import DebugRecording
    from autotune.contrib.debug.session import Changes, Replay


def debug(
    source: Annotated[str, typer.Argument(metavar="PAYLOAD|BUNDLE", help="A payload as for `tune`, or a folder.")],
    other: Annotated[str, typer.Argument(metavar="OTHER", help="A second one: show the first step that differs.")] = "",
    schedule: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="A transform script of your own; twice for the first step that differs."),
    ] = None,
    task: Annotated[str | None, typer.Option(metavar="TAG", help="One task alone.")] = None,
    knobs: Annotated[str, typer.Option("--set", metavar="K=V,...", help="Knobs of that task.")] = "",
    skip: Annotated[
        list[int] | None, typer.Option(parser=whole, metavar="N", help="Leave out step N; may be repeated.")
    ] = None,
    edit: Annotated[
        list[str] | None, typer.Option(metavar="LINE:OLD>NEW", help="Replace a text in a line of the script.")
    ] = None,
    step: Annotated[int, typer.Option(parser=whole, metavar="N", help="Step N alone.")] = 0,
    until: Annotated[str, typer.Option(metavar="OP", help="The first step of a transform op.")] = "",
    grep: Annotated[str, typer.Option(metavar="TEXT", help="Only steps with that text.")] = "",
    diff: Annotated[bool, typer.Option("--diff", help="What the step did to the payload, as a diff.")] = False,
    cost: Annotated[bool, typer.Option("--cost", help="Loop nests and caches after the step, or after all.")] = False,
    page: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page that opens in a browser without a network.")
    ] = None,
    lowering: Annotated[
        bool, typer.Option("--lowering", help="Go on with the lowering that all schedules share.")
    ] = False,
) -> None:
    """Show what a schedule does to a payload, step by step; in a terminal, go to and fro.

    Example: autotune debug matmul,m=64,n=64,k=64 --step 8 --diff
    """
    from autotune.contrib.debug.debugged import debug as record
    from autotune.contrib.debug.page import write_page
    from autotune.contrib.debug.session import Changes
    from autotune.contrib.debug.terminal import cost_lines, details, overview
    from autotune.contrib.debug.whatif import compare
    from autotune.core.options import MOST_COUNT, check_whole
    from autotune.core.progress import ProgressLine

    schedules, skipped, edits = schedule or [], skip or [], [read_edit(text) for text in edit or []]
    check_whole("step", step, 0, MOST_COUNT)
    for number in skipped:
        check_whole("skip", number, 1, MOST_COUNT)
    if len(schedules) > 2:
        raise typer.BadParameter(
            f"at most two schedules can be compared, got {len(schedules)}", param_hint="--schedule"
        )
    first = schedules[0] if schedules else None
    with ProgressLine() as line:
        line.stage(f"applying the schedule of {source}")
        alone = not (step or until or cost or other or len(schedules) == 2)
        apply = partial(record, source, first, task=task, lowering=lowering)
        recording = apply(knobs=knobs, skip=skipped, edits=edits, variants=alone)
        if other or len(schedules) == 2:
            second = record(other or source, schedules[-1] if schedules else None, task=task, lowering=lowering)
            if recording.source == second.source:  # as of all bundles
                recording, second = replace(recording, source=source), replace(second, source=other or source)
    if max(skipped, default=0) > len(recording.steps):
        raise typer.BadParameter(
            f"a step must be from 1 to {len(recording.steps)}, got {max(skipped)}", param_hint="--skip"
        )
    if other or len(schedules) == 2:
        if page is not None:
            keep_page(page, write_page(recording, second))
        print_lines(compare(recording, second))
    elif page is not None:
        keep_page(page, write_page(recording))
    elif number := chosen_step(recording, step, until):
        print_lines(details(recording, number, diff=diff))
        print_lines(cost_lines(recording.nests_after(number)) if cost else ())
    elif cost:
        print_lines(cost_lines(recording.nests_after(len(recording.steps))))
    elif grep or not (sys.stdin.isatty() and sys.stdout.isatty()):
        print_lines(overview(recording, grep))
    else:
        initial = Changes(knobs, tuple(skipped), tuple(edits))
        talk(recording, initial, lambda changes: apply(knobs=changes.knobs, skip=changes.skip, edits=changes.edits))


def chosen_step(recording: "DebugRecording", step: int, until: str) -> int:
    """Return the number of the requested step; 0 if none is requested.

    Raises:
        typer.BadParameter: There is no such step.
    """
    from autotune.contrib.debug.terminal import find_step

    if step and not 1 <= step <= len(recording.steps):
        raise typer.BadParameter(f"a step must be from 1 to {len(recording.steps)}, got {step}", param_hint="--step")
    number = find_step(recording, until) if until else step
    if until and not number:
        ops = ", ".join(dict.fromkeys(each.short for each in recording.steps))
        raise typer.BadParameter(f"it must be an op that the script applies: {ops}; got {until}", param_hint="--until")
    return number


def print_lines(lines: "Iterable[str]") -> None:
    """Print lines."""
    for line in lines:
        typer.echo(line)


def read_edit(text: str) -> tuple[int, str, str]:
    """Parse a text replacement, ``LINE:OLD>NEW``.

    Raises:
        typer.BadParameter: The text has another form.
    """
    line, colon, change = text.partition(":")
    old, arrow, new = (part.strip() for part in change.partition(">"))
    if not (colon and arrow and old and line.strip().isdecimal()):
        raise typer.BadParameter(f"an edit must read LINE:OLD>NEW, got {text}", param_hint="--edit")
    return int(line), old, new


def keep_page(path: Path, text: str) -> None:
    """Write an HTML page.

    Raises:
        typer.BadParameter: The file cannot be written.
    """
    try:
        write_file(path, text)
    except OSError as error:
        raise typer.BadParameter(
            f"a page must be a file that can be written, {path} is not: {why_refused(error)}"
        ) from error


def talk(recording: "DebugRecording", changes: "Changes", replay: "Replay") -> None:
    """Run the interactive loop, with output paged to the height of the terminal."""
    from autotune.contrib.debug.session import HELP, DebugSession
    from autotune.contrib.debug.terminal import cut

    session = DebugSession(recording, replay, changes)
    lines: list[str] | None = [*HELP.splitlines(), "", *(session.answer("1") or [])]
    while lines is not None:
        columns, rows = get_terminal_size()
        most = max(rows - 2, 1)  # without the command and the next one
        print_lines(cut(line, columns) for line in lines[:most])
        rest = lines[most:]
        try:
            command = input(f"{len(rest)} more lines, Enter shows them> " if rest else "debug> ")
        except EOFError:
            return
        lines = rest if rest and not command else session.answer(command)


VERB = Verb(debug, "Understand them", "Show what a schedule does to a payload, step by step.", after="show")
