"""A store on a PostgreSQL server: opened, made where there is none, and its studies as logs."""

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
BATCH = 500  # trials of one transaction of a copy
OPENING = offset_of("autotune opens a store")  # lock for creating tables


class Database:
    """A store on a server.

    Attributes:
        server: The server.
        storage: Optuna's storage of the same database, for studies and their attributes; it connects for each call.
    """

    def __init__(self, server: Server, storage: BaseStorage) -> None:
        self.server = server
        self.storage = storage
        self._ids: dict[str, int] = {}

    @property
    def locks(self) -> Locks:
        """Locks that live as long as the connection."""
        return self.server

    def wait_with(self, pause: Pause | None) -> None:
        """Call a function with a sentence while the server is away; without, that is an error."""
        self.server.pause = pause

    def patiently(self, action: Callable[[], T]) -> T:
        """Do what needs the server; while it is away, wait and do it again."""
        return self.server.patiently(action)

    def close(self) -> None:
        """End the connection, and with it all locks."""
        self.server.close()

    def ids(self, names: Iterable[str]) -> dict[str, int]:
        """Ids of studies by their names; those that there are."""
        wanted = list(names)
        if not self._ids.keys() >= set(wanted):
            self._ids = self.server.ask(study_ids)
        return {name: self._ids[name] for name in wanted if name in self._ids}

    def count(self, names: Iterable[str]) -> int:
        """How many trials some studies have."""
        ids = list(self.ids(names).values())
        return self.server.ask(lambda connection: count_trials(connection, ids))

    def log(self, name: str, key: str) -> "TableLog":
        """The records of a study, which is made where there is none."""
        if not self.ids([name]):
            self._create(name)
        return TableLog(self, name, self.ids([name])[name], key)

    def _create(self, name: str) -> None:
        with suppress(DuplicatedStudyError):  # another process was faster
            self.server.patiently(lambda: self.storage.create_new_study([StudyDirection.MINIMIZE], name))


class TableLog:
    """A study in Optuna's tables on a server."""

    def __init__(self, database: Database, name: str, study: int, key: str) -> None:
        self.name = name
        self.study = study
        self._server = database.server
        self._storage = database.storage
        self._key = key
        self._read = 0
        self._last = 0  # id of the trial read last

    def about(self) -> dict[str, Any]:
        """User attributes of the study."""
        return self._server.patiently(lambda: self._storage.get_study_user_attrs(self.study))

    def tell(self, key: str, value: object) -> None:
        """Set a user attribute of the study."""
        self._server.patiently(lambda: self._storage.set_study_user_attr(self.study, key, value))

    def news(self) -> list[LogEntry]:
        """What was recorded since the last call."""
        fresh = self._server.ask(self._fresh)
        self._read += len(fresh)
        self._last = fresh[-1][0] if fresh else self._last
        return [entry for _, entry in fresh]

    def _fresh(self, connection: Connection) -> list[tuple[int, LogEntry]]:
        return read_entries(connection, self.study, self._key, self._last)

    def add(self, record: FrozenTrial, is_known: Callable[[Sequence[LogEntry]], bool]) -> None:
        """Record a finished trial, unless it is there: after a lost connection that is unknown."""

        def write(connection: Connection) -> None:
            lock_study(connection, self.study)
            fresh = [entry for _, entry in self._fresh(connection)]
            if not is_known(fresh):
                append(connection, self.study, self._read + len(fresh), [with_brief(record)])

        self._server.run(write)

    def extend(self, records: Sequence[FrozenTrial]) -> None:
        """Record trials, some hundreds a transaction; the log must be read to its end."""
        for start in range(0, len(records), BATCH):
            some = [with_brief(record) for record in records[start : start + BATCH]]

            def write(connection: Connection, some: Sequence[FrozenTrial] = some) -> None:
                lock_study(connection, self.study)
                if not self._fresh(connection):  # else the last attempt was taken, and only its answer lost
                    append(connection, self.study, self._read, some)

            self._server.run(write)
            self.news()


def open_postgres(location: str, *, create: bool, writable: bool) -> Database:
    """Connect to a store on a server; an empty database gets its tables and its header if `create`.

    Args:
        location: URL of the database.
        create: Make the store where the database is empty.
        writable: Whether it is opened for writing.

    Raises:
        StoreError: The URL is none, the database is missing, of something else or of another version, or the driver is
            not installed.
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
    """A store that is there in any case, made by one at a time: the lock ends with the transaction."""
    connection.execute(select(func.pg_advisory_xact_lock(literal(OPENING, BigInteger))))
    check_tables(connection, server.where, create=True)
    storage = storage_of(server, create=True)
    if not study_ids(connection):
        storage.create_new_study([StudyDirection.MINIMIZE], HEADER)
    return checked(server, storage, study_ids(connection))


def checked(server: Server, storage: BaseStorage, studies: dict[str, int] | None = None) -> Database:
    """A database whose first study is the header."""
    found = server.run(study_ids) if studies is None else studies
    check_header(server.where, next(iter(found), None))
    return Database(server, storage)


def check_tables(connection: Connection, where: str, *, create: bool) -> None:
    """Raise unless a database has Optuna's tables, or none at all and may get them."""
    found = set(sqlalchemy.inspect(connection).get_table_names())
    if not found and not create:
        raise StoreError(f"store must exist to be read; {where} is empty; run `autotune tune` or pass --store PATH")
    if found and not found >= OPTUNA:
        raise StoreError(
            f"a store's database must be its own, {where} holds {min(found - OPTUNA, default='half a store')}; "
            "name an empty one"
        )


def storage_of(server: Server, *, create: bool) -> RDBStorage:
    """Optuna's storage of a database; braces in a URL would be taken for its templates."""
    url = server.url.render_as_string(hide_password=False).replace("{", "{{").replace("}", "}}")
    options = {"poolclass": NullPool, "connect_args": libpq_options(server.url)}
    return RDBStorage(url, options, skip_table_creation=not create)
