"""Database URLs, displayed without passwords."""

import re

import sqlalchemy
from sqlalchemy.exc import SQLAlchemyError

POSTGRES = re.compile(r"postgres(ql)?(\+\w+)?://")
SECRETS = ("password", "sslpassword", "oauth_client_secret")  # query parameters of a URL


def is_postgres(location: object) -> bool:
    """Return whether a location is a database on a PostgreSQL server.

    Example:
        >>> is_postgres("postgresql://me@host/db"), is_postgres("sqlite:///store.db"), is_postgres("store.journal")
        (True, False, False)
    """
    return POSTGRES.match(str(location)) is not None


def shown(location: str) -> str:
    """Return a location for display in messages: a database URL without its password.

    Example:
        >>> shown("postgresql://me:secret@host/db?sslpassword=too")
        'postgresql://me:***@host/db'
    """
    if "://" not in location:
        return location
    try:
        url = sqlalchemy.make_url(location)
    except (SQLAlchemyError, ValueError):
        return "the database URL"
    if location.count("@") > 1 and url.host:  # the text after the first @ may be part of a password
        return "the database URL"
    return url.difference_update_query(SECRETS).render_as_string()
