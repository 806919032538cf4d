"""Overview of a store that is read sweep by sweep, with the trials of only one sweep in memory."""

from contextlib import nullcontext
from pathlib import Path
from typing import cast

import pandas as pd

from autotune.core.host.whole_file import whole_file
from autotune.reports.holdings import holdings_of, names_in, read_parts, roofs_of, select
from autotune.reports.overview import Overview, SweepFigures, figures_of, overview_of
from autotune.store.address import is_postgres
from autotune.store.frames import to_frame
from autotune.store.recording import is_recording, read_recording
from autotune.store.server import servers
from autotune.store.store import Store


def glance(location: str | Path, payload: str | None, top: int) -> Overview:
    """Return an overview of a store; a database server aggregates its own.

    Args:
        location: Path or database URL.
        payload: Name of the payload to restrict sweeps to.
        top: Maximum number of configs shown per task.

    Raises:
        StoreError: The store is missing or damaged, or has no such payload.
    """
    if is_postgres(location):
        return cast(Overview, servers().overview(str(location), payload, top))
    return read_overview(location, top, payload=payload)


def read_overview(
    location: str | Path, top: int, *, payload: str | None = None, where: str | None = None, csv: Path | None = None
) -> Overview:
    """Read an overview of a store, which may be in use by a running tuner.

    Args:
        location: Path or database URL.
        top: Maximum number of configs shown per task.
        payload: Name of the payload to restrict sweeps to.
        where: pandas query to restrict trials by; knobs have their own names: ``tile_m >= 8``.
        csv: Path of a file that all matching trials are written to.

    Raises:
        StoreError: The store is missing or damaged, or no trial matches.
    """
    if is_recording(location):
        return overview_of_recording(location, top, payload, where, csv)
    figures = list[SweepFigures]()
    with Store.read(location) as store, nullcontext() if csv is None else whole_file(csv) as fresh:
        writer = CsvWriter(fresh)
        roofs = roofs_of([summary for summary in store.summaries() if payload in (None, summary.get("payload"))])
        names = names_in(store.abouts())
        for part in read_parts(store, payload, where):
            writer.write(part.frame)
            name, doubted = part.about["sweep"], part.about.get("unproved")
            defaults = {name: part.default} if part.default is not None else {}
            figures += figures_of(part.frame, top, roofs, defaults, (name,) if doubted else ())
        writer.finish()
    return Overview(tuple(figures), top, roofs, names)


def overview_of_recording(
    location: str | Path, top: int, payload: str | None, where: str | None, csv: Path | None
) -> Overview:
    """Read an overview of a recording, which is a single sweep; see `read_overview`."""
    holdings = select(holdings_of(read_recording(location)), payload, where)
    if csv is not None:
        with whole_file(csv) as fresh:
            holdings.frame.to_csv(fresh, index=False)
    return overview_of(holdings, top)


class CsvWriter:
    """Writer of frames with the same columns to a CSV file, which is created with the first one."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._begun = False

    def write(self, rows: pd.DataFrame) -> None:
        """Append rows; the first ones are preceded by the header."""
        if self.path is not None and len(rows):
            rows.to_csv(self.path, mode="a" if self._begun else "w", header=not self._begun, index=False)
            self._begun = True

    def finish(self) -> None:
        """Write the header if there were no rows."""
        if self.path is not None and not self._begun:
            to_frame([]).to_csv(self.path, index=False)
