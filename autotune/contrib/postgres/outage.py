"""Retry of database calls while the server is unreachable or its disk is full."""

from collections.abc import Callable
from typing import TypeVar

from sqlalchemy.exc import DBAPIError, OperationalError

from autotune.store.plain_errors import database_error, driver_message
from autotune.store.room import Pause

T = TypeVar("T")
FULL = "53100"  # SQLSTATE of a full disk
# SQLSTATE classes: connection exception, insufficient resources.
AWAY_CLASSES = ("08", "53")
# SQLSTATE: admin shutdown, crash shutdown, cannot connect now, idle session timeout, I/O error.
AWAY = ("57P01", "57P02", "57P03", "57P05", "58030")


def with_server(action: Callable[[], T], where: str, pause: Pause | None) -> T:
    """Run an action on a server; retry while the server is away or its disk is full.

    Args:
        action: Function that calls the server; it must be safe to repeat after a failure.
        where: Address of the server, for the message.
        pause: Function called with a message before each retry; `None` lets the error pass.
    """
    while True:
        try:
            return action()
        except Exception as error:
            cause = database_error(error)
            if pause is None or cause is None or not is_away(cause):
                raise
            reason, is_full = driver_message(cause), state_of(cause) == FULL
        if is_full:
            pause(f"store must have room; the disk of the server of {where} is full; make room, the sweep waits")
        else:
            pause(f"store must be a database that answers; {where}: {reason}; start it, the sweep waits")


def state_of(error: DBAPIError) -> str | None:
    """Return the SQLSTATE of an error; `None` if no server answered."""
    return getattr(error.orig, "sqlstate", None)


def is_away(error: DBAPIError) -> bool:
    """Return whether an error is temporary: the server is unreachable or lacks resources."""
    state = state_of(error)
    if state is None:
        return error.connection_invalidated or isinstance(error, OperationalError)
    return state in AWAY or state[:2] in AWAY_CLASSES
