"""Space on the disk: writes that fail for want of space (ENOSPC) are retried, as long as a pause is given."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from autotune.core.errors import AutotuneError
from autotune.core.host.files import FULL

T = TypeVar("T")
Pause = Callable[[str], None]  # waits a while, after a message


def with_room(action: Callable[[], T], path: Path, pause: Pause | None) -> T:
    """Do what writes; while the disk is full, wait and do it again.

    Args:
        action: What writes; where it fails it leaves things as they were.
        path: What it writes to, for the message.
        pause: Called, again and again, while the disk is full; `None` makes that an error as any other.
    """
    while True:
        try:
            return action()
        except (OSError, AutotuneError) as error:
            if pause is None or not is_full(error):
                raise
        pause(f"store must have room; the disk of {path} is full; make room, the sweep waits")


def is_full(error: BaseException | None) -> bool:
    """Return whether an error, or the one behind it, is that the disk is full."""
    return error is not None and ((isinstance(error, OSError) and error.errno in FULL) or is_full(error.__cause__))
