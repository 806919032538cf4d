"""Connection to a PostgreSQL server that is re-established when it is lost, together with its advisory locks."""

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

import sqlalchemy
from sqlalchemy import BigInteger, Connection, bindparam, func, select
from sqlalchemy.engine.interfaces import IsolationLevel
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from autotune.contrib.postgres.address import libpq_options, read_address
from autotune.contrib.postgres.outage import is_away, with_server
from autotune.core.errors import StoreError
from autotune.core.host.extras import install_command
from autotune.store.address import shown
from autotune.store.locks import offset_of
from autotune.store.room import Pause

T = TypeVar("T")
LEAST_VERSION = (13,)  # oldest version tested; older ones are no longer maintained
NUMBER = bindparam("number", type_=BigInteger)
TAKE, RELEASE = (select(of(NUMBER)) for of in (func.pg_try_advisory_lock, func.pg_advisory_unlock))


class Server:
    """Connection of one tuner or reader to a PostgreSQL server; threads may share it.

    Attributes:
        where: URL of the server without the password.
        pause: Function called with a message while the server is away; `None` makes that an error.
        url: URL for the driver, with the password.
    """

    def __init__(self, location: str, *, writable: bool = True) -> None:
        self.where = shown(location)
        self.pause: Pause | None = None
        self.url = read_address(location)
        try:
            self._engine = sqlalchemy.create_engine(
                self.url,
                poolclass=NullPool,
                connect_args=libpq_options(self.url),
            )
        except ImportError as error:
            raise StoreError(
                f"a store in PostgreSQL needs psycopg, it is not installed; {install_command('postgres')}"
            ) from error
        self._options = {} if writable else {"postgresql_readonly": True}
        self._connection: Connection | None = None
        self._claims: set[int] = set()
        self._turn = threading.RLock()

    def patiently(self, action: Callable[[], T]) -> T:
        """Run an action on the server; while the server is away, call `pause` and retry."""
        return with_server(action, self.where, self.pause)

    def run(self, action: Callable[[Connection], T]) -> T:
        """Run an action in one transaction (READ COMMITTED); retry while the server is away.

        Args:
            action: Function of the connection. It may be repeated after a commit whose answer was lost. What it reads
                after taking a lock includes all earlier commits.
        """
        return self.patiently(partial(self._run, "READ COMMITTED", action))

    def ask(self, action: Callable[[Connection], T]) -> T:
        """Run an action of one statement in autocommit mode, which takes a third of the time of a transaction."""
        return self.patiently(partial(self._run, "AUTOCOMMIT", action))

    def _run(self, level: IsolationLevel, action: Callable[[Connection], T]) -> T:
        with self._turn:
            try:
                connection = self._connect().execution_options(isolation_level=level)
                with connection.begin():
                    return action(connection)
            except DBAPIError as error:
                if is_away(error):
                    self._drop()
                raise

    def _connect(self) -> Connection:
        """Return the connection; a new one takes the advisory locks again, except those that others took meanwhile."""
        if self._connection is None:
            connection = self._engine.connect().execution_options(**self._options)
            self._connection = connection
            version = connection.dialect.server_version_info or ()
            if version < LEAST_VERSION:
                raise StoreError(
                    f"PostgreSQL must be {LEAST_VERSION[0]} or newer, {self.where} is {'.'.join(map(str, version))}; "
                    "name another server"
                )
            with connection.begin():
                for number in self._claims:
                    connection.execute(TAKE, {"number": number})
        return self._connection

    def _drop(self) -> None:
        """Invalidate and close a broken connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(SQLAlchemyError):
                connection.invalidate()
                connection.close()

    def take(self, key: str) -> bool:
        """Take the advisory lock of a trial; return false if another connection holds it."""
        number = offset_of(key)
        if number in self._claims:
            return True
        if not self.ask(lambda connection: bool(connection.execute(TAKE, {"number": number}).scalar_one())):
            return False
        self._claims.add(number)
        return True

    def release(self, key: str) -> None:
        """Release the advisory lock of a trial."""
        number = offset_of(key)
        self._claims.discard(number)
        self.ask(lambda connection: connection.execute(RELEASE, {"number": number}).scalar_one())

    def close(self) -> None:
        """Close the connection, which releases all locks."""
        self._claims.clear()
        self._drop()
