"""Interface of stores on a database server, which a plug-in implements."""

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
    """A store on a database server."""

    @property
    def storage(self) -> BaseStorage:
        """Optuna's storage of the database, for studies and their attributes."""

    @property
    def locks(self) -> Locks:
        """Locks on trials, shared by all clients of the store."""

    def wait_with(self, pause: Pause | None) -> None:
        """Set the function that is called with a message while the server is unreachable; `None` makes it an error."""

    def patiently(self, action: Callable[[], T]) -> T:
        """Call a function that uses the server; while the server is unreachable, wait and call it again."""

    def count(self, names: Iterable[str]) -> int:
        """Return the number of trials in the named studies."""

    def log(self, name: str, key: str) -> Log:
        """Return the log of a study, created if it is missing; `key` is the user attribute with the records' data."""

    def close(self) -> None:
        """Close the connection, which releases all locks."""


@dataclass(frozen=True)
class Servers:
    """Plug-in for one kind of database server: an entry point of ``autotune.servers``, called ``postgres``.

    Attributes:
        open: Function of a URL, `create` and `writable` that returns a `ServerStore` or raises `StoreError`.
        overview: Function of a URL, a payload or `None`, and the maximum number of configs shown per task, that returns
            the store's `Overview`, aggregated by the server.
    """

    open: Callable[..., ServerStore]
    overview: Callable[..., Any]


def servers() -> Servers:
    """Load the plug-in that opens stores on PostgreSQL servers.

    Raises:
        StoreError: The plug-in is not installed.
    """
    points = registered(SERVERS)
    if POSTGRES not in points:
        raise StoreError(f"a store on PostgreSQL needs an entry point of {SERVERS}, there is none; name a file")
    return cast(Servers, load_point(points[POSTGRES]))
