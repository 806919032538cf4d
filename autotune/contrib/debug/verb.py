"""`autotune debug`: what a schedule does, step by step."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli.options import whole
from autotune.plugins import Verb

if TYPE_CHECKING:
    from collections.abc import Iterable

    from autotune.contrib.debug.recording import DebugRecording


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
    step: Annotated[int, typer.Option(parser=whole, metavar="N", help="Step N alone.")] = 0,
    until: Annotated[str, typer.Option(metavar="OP", help="The first step of a transform op.")] = "",
    grep: Annotated[str, typer.Option(metavar="TEXT", help="Only steps with that text.")] = "",
    diff: Annotated[bool, typer.Option("--diff", help="What the step did to the payload, as a diff.")] = False,
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
    from autotune.contrib.debug.terminal import details, overview
    from autotune.contrib.debug.whatif import compare
    from autotune.core.options import MOST_COUNT, check_whole
    from autotune.core.progress import ProgressLine

    schedules, skipped = schedule or [], skip or []
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
        found = record(source, first, task=task, knobs=knobs, skip=skipped, lowering=lowering)
        if other or len(schedules) == 2:
            second = record(other or source, schedules[-1] if schedules else None, task=task, lowering=lowering)
    if other or len(schedules) == 2:
        print_lines(compare(found, second))
    elif page is not None:
        page.write_text(write_page(found))
    elif number := chosen_step(found, step, until):
        print_lines(details(found, number, diff=diff))
    elif grep or not (sys.stdin.isatty() and sys.stdout.isatty()):
        print_lines(overview(found, grep))
    else:
        talk(found)


def chosen_step(recording: "DebugRecording", step: int, until: str) -> int:
    """Number of the step that is asked for; 0 where none is.

    Raises:
        typer.BadParameter: There is no such step.
    """
    from autotune.contrib.debug.terminal import find_step

    if step and not 1 <= step <= len(recording.steps):
        raise typer.BadParameter(f"a step must be from 1 to {len(recording.steps)}, got {step}", param_hint="--step")
    found = find_step(recording, until) if until else step
    if until and not found:
        ops = ", ".join(dict.fromkeys(each.op.removeprefix("transform.") for each in recording.steps))
        raise typer.BadParameter(f"it must be an op that the script applies: {ops}; got {until}", param_hint="--until")
    return found


def print_lines(lines: "Iterable[str]") -> None:
    """Print lines."""
    for line in lines:
        typer.echo(line)


def talk(recording: "DebugRecording") -> None:
    """Show steps as they are asked for."""
    from autotune.contrib.debug.session import HELP, DebugSession

    session = DebugSession(recording)
    print_lines([*HELP.splitlines(), ""])
    answer = session.answer("go 1")
    while answer is not None:
        print_lines(answer)
        try:
            answer = session.answer(input("debug> "))
        except EOFError:
            return


VERB = Verb(debug, "Understand them", "Show what a schedule does to a payload, step by step.", after="show")
