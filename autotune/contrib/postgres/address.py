"""Addresses of PostgreSQL servers, read by constraints."""

import sqlalchemy
from sqlalchemy import URL
from sqlalchemy.exc import SQLAlchemyError

from autotune.core.errors import StoreError
from autotune.store.address import POSTGRES

DRIVER = "postgresql+psycopg"
FORM = "postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
# How long an end of a connection that is gone is waited for, in seconds; libpq's own names. A URL may say otherwise.
PATIENCE = {
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,  # milliseconds
    "application_name": "autotune",
}


def read_address(location: str) -> URL:
    """The URL of a database on a PostgreSQL server, for the driver that we use.

    Raises:
        StoreError: The text is none; the message does not show it, for what is amiss may be its password.
    """
    if location.count("@") > 1:
        raise StoreError(f"a store's URL must be {FORM} with one @, it has {location.count('@')}; write others as %40")
    try:
        url = sqlalchemy.make_url(POSTGRES.sub(f"{DRIVER}://", location, count=1))
    except (SQLAlchemyError, ValueError):  # not as a cause: what it says may quote the password
        url = None
    if url is None or not url.database:
        raise StoreError(f"a store's URL must be {FORM}, it is not; write signs in names and passwords as %40 for @")
    return url


def libpq_options(url: URL) -> dict[str, object]:
    """Arguments of the driver besides a URL."""
    return {name: value for name, value in PATIENCE.items() if name not in url.query}
