"""Conversion of errors of the system, a database or Optuna to one-line messages."""

from collections.abc import Iterator
from contextlib import contextmanager

from optuna.exceptions import OptunaError
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from autotune.core.errors import StoreError
from autotune.core.host.files import why_refused
from autotune.store.address import is_postgres
from autotune.store.header import WAY_OUT

OF_REPLAY = (AssertionError, AttributeError, LookupError, TypeError)  # Optuna replays the records of others unchecked
LONGEST = 300  # characters of a server's message


@contextmanager
def plain_errors(where: str) -> Iterator[None]:
    """Convert exceptions of the system, Optuna or the database driver to `StoreError` with a one-line message."""
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"store must be readable and writable; {where}: {why_refused(error)}; fix that or pass --store PATH"
        ) from error
    except OF_REPLAY as error:
        raise StoreError(f"records of a store must make sense; {where} has one that does not; {WAY_OUT}") from error
    except (OptunaError, SQLAlchemyError, ImportError, RuntimeError, ValueError) as error:
        driver_error = database_error(error)
        lines = (
            [driver_message(driver_error)]
            if driver_error is not None
            else str(error).splitlines() or [type(error).__name__]
        )
        remedy = "start or mend it, or pass --store PATH" if is_postgres(where) else WAY_OUT
        raise StoreError(f"store must be a database that answers; {where}: {lines[0]}; {remedy}") from error


def database_error(error: BaseException | None) -> DBAPIError | None:
    """Return the database driver's error in a chain of causes; `None` if there is none."""
    while error is not None and not isinstance(error, DBAPIError):
        error = error.__cause__
    return error


def driver_message(error: DBAPIError) -> str:
    """Return the message of the driver or the server in one line."""
    lines = [line.strip() for line in str(error.orig).splitlines()]
    return "; ".join(filter(None, lines))[:LONGEST] or type(error.orig).__name__
