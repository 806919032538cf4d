"""Retry of writes that fail because the disk is full (ENOSPC), if a pause function is given."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from autotune.core.errors import AutotuneError
from autotune.core.host.files import FULL

T = TypeVar("T")
Pause = Callable[[str], None]  # waits a while, after a message


def with_room(action: Callable[[], T], path: Path, pause: Pause | None) -> T:
    """Call a function that writes to disk; while the disk is full, wait and call it again.

    Args:
        action: Function that writes; if it fails, it must leave the file unchanged.
        path: Path that it writes to, for the message.
        pause: Function called before each retry; if `None`, the error is raised.
    """
    while True:
        try:
            return action()
        except (OSError, AutotuneError) as error:
            if pause is None or not is_full(error):
                raise
        pause(f"store must have room; the disk of {path} is full; make room, the sweep waits")


def is_full(error: BaseException | None) -> bool:
    """Return whether an error, or one of its causes, is that the disk is full."""
    return error is not None and ((isinstance(error, OSError) and error.errno in FULL) or is_full(error.__cause__))
