"""Plug-in that opens stores on PostgreSQL servers."""

from typing import TYPE_CHECKING

from autotune.contrib.postgres.database import open_postgres
from autotune.store.server import Servers

if TYPE_CHECKING:
    from autotune.reports.overview import Overview


def overview_of(location: str, payload: str | None, top: int) -> "Overview":
    """Return the overview of a store; the modules that reports need are imported on the first call."""
    from autotune.contrib.postgres.overview import overview

    return overview(location, payload, top)


SERVERS = Servers(open_postgres, overview_of)
