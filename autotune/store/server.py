"""Stores on a database server, as the engine knows them; a plug-in opens them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, cast

from optuna.storages import BaseStorage

from autotune.core.errors import StoreError
from autotune.registry import POSTGRES, SERVERS, load_point, registered
from autotune.store.locks import Locks
from autotune.store.log import Log
from autotune.store.room import Pause

T = TypeVar("T")


class ServerStore(Protocol):
    """A store on a server."""

    @property
    def storage(self) -> BaseStorage:
        """Optuna's storage of the database, for studies and their attributes."""

    @property
    def locks(self) -> Locks:
        """Locks on trials, of all who use the store."""

    def wait_with(self, pause: Pause | None) -> None:
        """Call a function with a sentence while the server is away; without, that is an error."""

    def patiently(self, action: Callable[[], T]) -> T:
        """Do what needs the server; while it is away, wait and do it again."""

    def count(self, names: Iterable[str]) -> int:
        """How many trials some studies have."""

    def log(self, name: str, key: str) -> Log:
        """The records of a study, which is made where there is none; `key` is the attribute they are kept for."""

    def close(self) -> None:
        """End the connection, and with it all locks."""


@dataclass(frozen=True)
class Servers:
    """Stores on servers of a kind: an entry point of ``autotune.servers``, called ``postgres``.

    Attributes:
        open: Opens a store, given its URL, `create` and `writable`; gives a `ServerStore`, or raises `StoreError`.
        overview: Gives the `Overview` of a store, given its URL, a payload or `None`, and the most trials of a task
            whose configs are shown; the server adds up.
    """

    open: Callable[..., ServerStore]
    overview: Callable[..., Any]


def servers() -> Servers:
    """What opens stores on PostgreSQL servers.

    Raises:
        StoreError: What opens them is not installed.
    """
    points = registered(SERVERS)
    if POSTGRES not in points:
        raise StoreError(f"a store on PostgreSQL needs an entry point of {SERVERS}, there is none; name a file")
    return cast(Servers, load_point(points[POSTGRES]))
