"""A store read sweep by sweep: what is not shown is not kept, so that memory holds the trials of one sweep."""

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
    """An overview of a store; one on a server adds up what is shown, other stores are read.

    Args:
        location: A path, or a database URL.
        payload: Only sweeps of this payload.
        top: Most trials of a task whose configs are shown.

    Raises:
        StoreError: The store is missing or damaged, or holds no such payload.
    """
    if is_postgres(location):
        return cast(Overview, servers().overview(str(location), payload, top))
    return read_overview(location, top, payload=payload)


def read_overview(
    location: str | Path, top: int, *, payload: str | None = None, where: str | None = None, csv: Path | None = None
) -> Overview:
    """An overview of a store, also beside a running tuner.

    Args:
        location: A path, or a database URL.
        top: Most trials of a task whose configs are shown.
        payload: Only sweeps of this payload.
        where: Only trials of which this pandas query is true; knobs go by their names: ``tile_m >= 8``.
        csv: File that all these trials are written to as they are read.

    Raises:
        StoreError: The store is missing or damaged, or nothing in it is asked for.
    """
    if is_recording(location):
        return overview_of_recording(location, top, payload, where, csv)
    figures = list[SweepFigures]()
    with Store.read(location) as store, nullcontext() if csv is None else whole_file(csv) as fresh:
        writer = CsvWriter(fresh)
        roofs = roofs_of([one for one in store.summaries() if payload in (None, one.get("payload"))])
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
    """The same of a recorded space, which is one sweep."""
    holdings = select(holdings_of(read_recording(location)), payload, where)
    if csv is not None:
        with whole_file(csv) as fresh:
            holdings.frame.to_csv(fresh, index=False)
    return overview_of(holdings, top)


class CsvWriter:
    """A CSV file that frames of the same columns are written to; it is made when the first one comes."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._begun = False

    def write(self, rows: pd.DataFrame) -> None:
        """Add rows, below their heads if they are the first."""
        if self.path is not None and len(rows):
            rows.to_csv(self.path, mode="a" if self._begun else "w", header=not self._begun, index=False)
            self._begun = True

    def finish(self) -> None:
        """Write the heads alone where there was no row."""
        if self.path is not None and not self._begun:
            to_frame([]).to_csv(self.path, index=False)
