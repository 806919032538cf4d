"""One connection to a PostgreSQL server: made again when it was lost, with the claims that live in it."""

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
LEAST_VERSION = (13,)  # the oldest that is tried; older ones are no longer maintained
NUMBER = bindparam("number", type_=BigInteger)
TAKE, RELEASE = (select(of(NUMBER)) for of in (func.pg_try_advisory_lock, func.pg_advisory_unlock))


class Server:
    """A PostgreSQL server, as one tuner or reader uses it; threads may share it.

    Attributes:
        where: Address of the server, without the password.
        pause: Called with a sentence while the server is away; without, that is an error.
        url: Address as the driver takes it, with the password.
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
        """Do what needs the server; while it is away, wait as `pause` says and do it again."""
        return with_server(action, self.where, self.pause)

    def run(self, action: Callable[[Connection], T]) -> T:
        """Do something in one transaction; while the server is away, wait and do it again.

        Args:
            action: What is done; it may be called again although the server took it, if the answer was lost. What it
                reads after a lock was written before.
        """
        return self.patiently(partial(self._run, "READ COMMITTED", action))

    def ask(self, action: Callable[[Connection], T]) -> T:
        """Do something of one statement, without a transaction's begin and end: a third of the time."""
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
        """The connection; a new one takes the claims again, those that were not taken meanwhile."""
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
        """Forget a connection that is of no use."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(SQLAlchemyError):
                connection.invalidate()
                connection.close()

    def take(self, key: str) -> bool:
        """Lock a trial; false if another connection has it."""
        number = offset_of(key)
        if number in self._claims:
            return True
        if not self.ask(lambda connection: bool(connection.execute(TAKE, {"number": number}).scalar_one())):
            return False
        self._claims.add(number)
        return True

    def release(self, key: str) -> None:
        """Give a lock back."""
        number = offset_of(key)
        self._claims.discard(number)
        self.ask(lambda connection: connection.execute(RELEASE, {"number": number}).scalar_one())

    def close(self) -> None:
        """End the connection, and with it all locks."""
        self._claims.clear()
        self._drop()
