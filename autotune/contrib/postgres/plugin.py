"""The feature as stores know it."""

from typing import TYPE_CHECKING

from autotune.contrib.postgres.database import open_postgres
from autotune.store.server import Servers

if TYPE_CHECKING:
    from autotune.reports.overview import Overview


def overview_of(location: str, payload: str | None, top: int) -> "Overview":
    """The overview of a store; imports what reports need."""
    from autotune.contrib.postgres.overview import overview

    return overview(location, payload, top)


SERVERS = Servers(open_postgres, overview_of)
