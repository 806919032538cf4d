"""A server that is away or full: calls are retried, as long as a pause is given."""

from collections.abc import Callable
from typing import TypeVar

from sqlalchemy.exc import DBAPIError, OperationalError

from autotune.store.plain_errors import database_error, said
from autotune.store.room import Pause

T = TypeVar("T")
FULL = "53100"  # SQLSTATE of a full disk
# Classes of SQLSTATE: no connection; too few resources.
AWAY_CLASSES = ("08", "53")
# Ended by an administrator, by a crash, not up yet, idle for too long; the disk failed.
AWAY = ("57P01", "57P02", "57P03", "57P05", "58030")


def with_server(action: Callable[[], T], where: str, pause: Pause | None) -> T:
    """Do what needs a server; while it is away or full, wait and do it again.

    Args:
        action: What asks the server; where it fails, the server took nothing, or doing it again changes nothing.
        where: Address of the server, for the message.
        pause: Called with a sentence, again and again, while the server is away; `None` makes that an error.
    """
    while True:
        try:
            return action()
        except Exception as error:
            found = database_error(error)
            if pause is None or found is None or not is_away(found):
                raise
            reason, is_full = said(found), state_of(found) == FULL
        if is_full:
            pause(f"store must have room; the disk of the server of {where} is full; make room, the sweep waits")
        else:
            pause(f"store must be a database that answers; {where}: {reason}; start it, the sweep waits")


def state_of(error: DBAPIError) -> str | None:
    """The server's code of an error; `None` where no server answered."""
    return getattr(error.orig, "sqlstate", None)


def is_away(error: DBAPIError) -> bool:
    """Return whether an error goes away when the server comes back or has room again."""
    state = state_of(error)
    if state is None:
        return error.connection_invalidated or isinstance(error, OperationalError)
    return state in AWAY or state[:2] in AWAY_CLASSES
