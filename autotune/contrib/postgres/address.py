"""Parsing of PostgreSQL URLs, and the connection parameters that are used with them."""

import sqlalchemy
from sqlalchemy import URL
from sqlalchemy.exc import SQLAlchemyError

from autotune.core.errors import StoreError
from autotune.store.address import POSTGRES

DRIVER = "postgresql+psycopg"
FORM = "postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
# Timeouts of a lost connection in seconds, under libpq's names. A URL may override them.
PATIENCE = {
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,  # milliseconds
    "application_name": "autotune",
}


def read_address(location: str) -> URL:
    """Parse the URL of a PostgreSQL database and select the driver psycopg.

    Raises:
        StoreError: The text is not such a URL; the message does not quote it, since it may contain a password.
    """
    if location.count("@") > 1:
        raise StoreError(f"a store's URL must be {FORM} with one @, it has {location.count('@')}; write others as %40")
    try:
        url = sqlalchemy.make_url(POSTGRES.sub(f"{DRIVER}://", location, count=1))
    except (SQLAlchemyError, ValueError):  # not chained: its message may quote the password
        url = None
    if url is None or not url.database:
        raise StoreError(f"a store's URL must be {FORM}, it is not; write signs in names and passwords as %40 for @")
    return url


def libpq_options(url: URL) -> dict[str, object]:
    """Return the default connection parameters that a URL does not set itself."""
    return {name: value for name, value in PATIENCE.items() if name not in url.query}
