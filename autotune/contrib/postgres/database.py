"""Store on a PostgreSQL server: opening and creating it, and access to its studies as logs."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import sqlalchemy
from optuna.exceptions import DuplicatedStudyError
from optuna.storages import BaseStorage, RDBStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial
from sqlalchemy import BigInteger, Connection, func, literal, select
from sqlalchemy.pool import NullPool

from autotune.contrib.postgres.address import libpq_options
from autotune.contrib.postgres.brief import with_brief
from autotune.contrib.postgres.server import Server
from autotune.contrib.postgres.tables import OPTUNA, append, count_trials, lock_study, read_entries, study_ids
from autotune.core.errors import StoreError
from autotune.store.header import HEADER, check_header
from autotune.store.locks import Locks, offset_of
from autotune.store.log import LogEntry
from autotune.store.room import Pause

T = TypeVar("T")
BATCH = 500  # trials per transaction when a store is copied
OPENING = offset_of("autotune opens a store")  # advisory lock for creating tables


class Database:
    """Store on a PostgreSQL server.

    Attributes:
        server: Connection to the server.
        storage: Optuna's storage of the same database, for studies and their attributes; it reconnects for each call.
    """

    def __init__(self, server: Server, storage: BaseStorage) -> None:
        self.server = server
        self.storage = storage
        self._ids: dict[str, int] = {}

    @property
    def locks(self) -> Locks:
        """Advisory locks, which the server releases with the connection."""
        return self.server

    def wait_with(self, pause: Pause | None) -> None:
        """Set the function that is called with a message while the server is away; `None` makes that an error."""
        self.server.pause = pause

    def patiently(self, action: Callable[[], T]) -> T:
        """Run an action on the server; retry while the server is away."""
        return self.server.patiently(action)

    def close(self) -> None:
        """Close the connection, which releases all locks."""
        self.server.close()

    def ids(self, names: Iterable[str]) -> dict[str, int]:
        """Return the ids of the studies that exist, by name."""
        wanted = list(names)
        if not self._ids.keys() >= set(wanted):
            self._ids = self.server.ask(study_ids)
        return {name: self._ids[name] for name in wanted if name in self._ids}

    def count(self, names: Iterable[str]) -> int:
        """Return the number of trials in some studies."""
        ids = list(self.ids(names).values())
        return self.server.ask(lambda connection: count_trials(connection, ids))

    def log(self, name: str, key: str) -> "TableLog":
        """Return the log of a study, which is created if it does not exist."""
        if not self.ids([name]):
            self._create(name)
        return TableLog(self, name, self.ids([name])[name], key)

    def _create(self, name: str) -> None:
        with suppress(DuplicatedStudyError):  # another process created it first
            self.server.patiently(lambda: self.storage.create_new_study([StudyDirection.MINIMIZE], name))


class TableLog:
    """Log of one study, stored in Optuna's tables on a server."""

    def __init__(self, database: Database, name: str, study: int, key: str) -> None:
        self.name = name
        self.study = study
        self._server = database.server
        self._storage = database.storage
        self._key = key
        self._read = 0
        self._last = 0  # id of the trial read last

    def about(self) -> dict[str, Any]:
        """Return the user attributes of the study."""
        return self._server.patiently(lambda: self._storage.get_study_user_attrs(self.study))

    def tell(self, key: str, value: object) -> None:
        """Set a user attribute of the study."""
        self._server.patiently(lambda: self._storage.set_study_user_attr(self.study, key, value))

    def news(self) -> list[LogEntry]:
        """Return the entries recorded since the last call."""
        fresh = self._server.ask(self._fresh)
        self._read += len(fresh)
        self._last = fresh[-1][0] if fresh else self._last
        return [entry for _, entry in fresh]

    def _fresh(self, connection: Connection) -> list[tuple[int, LogEntry]]:
        return read_entries(connection, self.study, self._key, self._last)

    def add(self, record: FrozenTrial, is_known: Callable[[Sequence[LogEntry]], bool]) -> None:
        """Record a finished trial unless it is recorded already.

        After a lost connection it is unknown whether the transaction was committed, so a retry asks `is_known`.
        """

        def write(connection: Connection) -> None:
            lock_study(connection, self.study)
            fresh = [entry for _, entry in self._fresh(connection)]
            if not is_known(fresh):
                append(connection, self.study, self._read + len(fresh), [with_brief(record)])

        self._server.run(write)

    def extend(self, records: Sequence[FrozenTrial]) -> None:
        """Record trials, `BATCH` per transaction; the log must have been read to its end."""
        for start in range(0, len(records), BATCH):
            some = [with_brief(record) for record in records[start : start + BATCH]]

            def write(connection: Connection, some: Sequence[FrozenTrial] = some) -> None:
                lock_study(connection, self.study)
                if not self._fresh(connection):  # else the previous attempt was committed and only the answer lost
                    append(connection, self.study, self._read, some)

            self._server.run(write)
            self.news()


def open_postgres(location: str, *, create: bool, writable: bool) -> Database:
    """Connect to a store on a server; create its tables and header in an empty database if `create` is true.

    Args:
        location: URL of the database.
        create: Whether to create the store if the database is empty.
        writable: Whether the store is opened for writing.

    Raises:
        StoreError: The URL is invalid, the database is missing, holds something else or another version, or the driver
            is not installed.
    """
    server = Server(location, writable=writable)
    try:
        if not create:
            server.run(lambda connection: check_tables(connection, server.where, create=False))
            return checked(server, storage_of(server, create=False))
        return server.run(lambda connection: made(connection, server))
    except BaseException:
        server.close()
        raise


def made(connection: Connection, server: Server) -> Database:
    """Open a store and create what is missing; a lock until the end of the transaction excludes other creators."""
    connection.execute(select(func.pg_advisory_xact_lock(literal(OPENING, BigInteger))))
    check_tables(connection, server.where, create=True)
    storage = storage_of(server, create=True)
    if not study_ids(connection):
        storage.create_new_study([StudyDirection.MINIMIZE], HEADER)
    return checked(server, storage, study_ids(connection))


def checked(server: Server, storage: BaseStorage, studies: dict[str, int] | None = None) -> Database:
    """Check that the first study of a database is the header, and return the database."""
    ids = server.run(study_ids) if studies is None else studies
    check_header(server.where, next(iter(ids), None))
    return Database(server, storage)


def check_tables(connection: Connection, where: str, *, create: bool) -> None:
    """Check that a database has Optuna's tables, or no table at all if they may be created.

    Raises:
        StoreError: The database is empty and must not be, or it holds other tables.
    """
    tables = set(sqlalchemy.inspect(connection).get_table_names())
    if not tables and not create:
        raise StoreError(f"store must exist to be read; {where} is empty; run `autotune tune` or pass --store PATH")
    if tables and not tables >= OPTUNA:
        raise StoreError(
            f"a store's database must be its own, {where} holds {min(tables - OPTUNA, default='half a store')}; "
            "name an empty one"
        )


def storage_of(server: Server, *, create: bool) -> RDBStorage:
    """Return Optuna's storage of a database; braces are doubled because Optuna formats the URL as a template."""
    url = server.url.render_as_string(hide_password=False).replace("{", "{{").replace("}", "}}")
    options = {"poolclass": NullPool, "connect_args": libpq_options(server.url)}
    return RDBStorage(url, options, skip_table_creation=not create)
