"""What the system, a database or Optuna raise, as one line."""

from collections.abc import Iterator
from contextlib import contextmanager

from optuna.exceptions import OptunaError
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from autotune.core.errors import StoreError
from autotune.store.address import is_postgres
from autotune.store.header import WAY_OUT

LONGEST = 300  # characters of what a server said


@contextmanager
def plain_errors(where: str) -> Iterator[None]:
    """Turn what the system or the database driver raises into one line."""
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"store must be readable and writable; {where}: {error.strerror}; fix that or pass --store PATH"
        ) from error
    except (OptunaError, SQLAlchemyError, ImportError, RuntimeError, ValueError) as error:
        found = database_error(error)
        lines = [said(found)] if found is not None else str(error).splitlines() or [type(error).__name__]
        way = "start or mend it, or pass --store PATH" if is_postgres(where) else WAY_OUT
        raise StoreError(f"store must be a database that answers; {where}: {lines[0]}; {way}") from error


def database_error(error: BaseException | None) -> DBAPIError | None:
    """The driver's error in an error, or in those behind it."""
    while error is not None and not isinstance(error, DBAPIError):
        error = error.__cause__
    return error


def said(error: DBAPIError) -> str:
    """What the driver or the server said, in one line."""
    lines = [line.strip() for line in str(error.orig).splitlines()]
    return "; ".join(filter(None, lines))[:LONGEST] or type(error.orig).__name__
