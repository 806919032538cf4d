"""Stage `parametric` of `show`, and the option `show --open`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.plugins import Arguments, ShownStage, VerbOption, option

if TYPE_CHECKING:
    from autotune.core.candidate import Candidate
    from autotune.core.host.machine import Machine
    from autotune.core.payload import Payload
    from autotune.reports.scheduled import Scheduled

STAGE = "parametric"


def describe(
    payload: "Payload", text: str, candidate: "Candidate", tasks: "Sequence[Scheduled]", machine: "Machine"
) -> str:
    """Return the parametric script of one task.

    Raises:
        PayloadError: There are several tasks.
        ScheduleError: No family schedules the task, or its schedule is a user script.
    """
    from autotune.contrib.parametric.script import open_text
    from autotune.core.errors import ScheduleError
    from autotune.reports.scheduled import only

    task = only([each.task for each in tasks], None, "one task is opened")
    (alone,) = (each for each in tasks if each.task is task)
    if alone.family is None or alone.config is None:
        raise ScheduleError(f"--open must be of a task with a family, {task.tag} has none; write one yourself")
    if alone.family.script is not None:
        raise ScheduleError(f"--open must be of a family, {alone.family.script.source} is a script; copy that file")
    return open_text(alone.family, task, machine, alone.config)


def show_open(arguments: Arguments) -> None:
    """Run `show --open`, which shows the stage `parametric`."""
    from autotune.cli.show import show

    if arguments["stage"] not in ("schedule", STAGE):
        raise typer.BadParameter(f"--open must go with stage schedule, got {arguments['stage']}; drop one")
    show(**{name: value for name, value in arguments.items() if name != "opened"} | {"stage": STAGE})


SHOWN = ShownStage(describe, after="schedule")
OPEN = VerbOption(
    "show",
    (
        option(
            "opened",
            Annotated[
                bool, typer.Option("--open", help="The schedule of one task with its knobs open, to edit and tune.")
            ],
            False,
        ),
    ),
    lambda given: bool(given["opened"]),
    show_open,
)
