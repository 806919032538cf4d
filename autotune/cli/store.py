"""`autotune lab copy`: copy a store of trials."""

from typing import Annotated

import typer

from autotune.cli.say import complain


def copy(
    source: Annotated[str, typer.Argument(metavar="FROM", help="A file of trials, or a database URL.")],
    target: Annotated[str, typer.Argument(metavar="TO", help="Another one, empty or not there yet.")],
) -> None:
    """Copy every sweep, trial and summary of a store into another, and read it back.

    Interrupted, the same command goes on. Until it is done nothing else opens what it copies into.

    Example: autotune lab copy store.journal postgresql://me@host/trials
    """
    from autotune.cli.tune import wait_for_room
    from autotune.core.progress import ProgressLine
    from autotune.store.address import shown
    from autotune.store.copying import copy_store

    with ProgressLine("copying") as line:
        summary = copy_store(source, target, line, wait_for_room)
    already = summary.trials - summary.copied
    more = f"; {already} of them were there" if already else ""
    complain(f"{summary.trials} trials of {shown(source)} are in {shown(target)}, read back and the same{more}")
