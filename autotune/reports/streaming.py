"""A store read sweep by sweep: what is not shown is not kept, so that memory holds the trials of one sweep."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pandas as pd

from autotune.core.errors import StoreError
from autotune.reports.holdings import (
    Holdings,
    default_of,
    evaluate,
    holdings_of,
    nothing_left,
    roofs_of,
    select,
)
from autotune.reports.overview import Overview, SweepFigures, figures_of, overview_of
from autotune.store.address import is_postgres
from autotune.store.frames import KNOB, knob_dtype, to_frame
from autotune.store.recording import is_recording, read_recording
from autotune.store.server import servers
from autotune.store.store import Store

Abouts = Mapping[str, dict[str, Any]]


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
    writer, figures, seen = CsvWriter(csv), list[SweepFigures](), 0
    with Store.open(location, create=False, exclusive=False) as store:
        roofs = roofs_of([one for one in store.summaries() if payload in (None, one.get("payload"))])
        every = store.abouts()
        abouts = {name: about for name, about in every.items() if payload in (None, about["payload"])}
        columns = knob_columns(store, abouts) if where is not None or csv is not None else {}
        for sweep in store.sweeps(abouts):
            about = sweep.about
            frame = with_columns(to_frame([(trial, about) for trial in sweep.trials()]), columns)
            seen += len(frame)
            rows = frame[evaluate(frame, where)] if where is not None and len(frame) else frame
            writer.write(rows)
            defaults = {sweep.name: default_of(sweep, about["default"])} if "default" in about else {}
            figures += figures_of(rows, top, roofs, defaults, (sweep.name,) if about.get("unproved") else ())
    check_payload(payload, every, found=seen > 0)
    if where is not None and seen and not figures:
        raise nothing_left(where, seen)
    writer.finish()
    return Overview(tuple(figures), top, roofs, names_in(abouts))


def overview_of_recording(
    location: str | Path, top: int, payload: str | None, where: str | None, csv: Path | None
) -> Overview:
    """The same of a recorded space, which is one sweep."""
    holdings: Holdings = select(holdings_of(read_recording(location)), payload, where)
    if csv is not None:
        holdings.frame.to_csv(csv, index=False)
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


def knob_columns(store: Store, abouts: Abouts) -> dict[str, str]:
    """The type of the column of every knob in some sweeps, by its name."""
    kinds: dict[str, set[type]] = {}
    for config in configs_of(store, abouts):
        for name, value in config.items():
            kinds.setdefault(f"{KNOB}{name}", set()).add(type(value))
    return {name: knob_dtype(kinds[name]) for name in sorted(kinds)}


def configs_of(store: Store, abouts: Abouts) -> Iterator[Mapping[str, Any]]:
    """A config of every sweep, for its knobs: the default one, or of stores of older releases that of a trial."""
    for name, about in abouts.items():
        if "default" in about:
            yield about["default"]
        else:
            yield from (trial.config for sweep in store.sweeps({name: about}) for trial in sweep.recorded[:1])


def with_columns(frame: pd.DataFrame, columns: Mapping[str, str]) -> pd.DataFrame:
    """Trials of one sweep with the columns of all."""
    lacking = {
        name: pd.Series([None] * len(frame), index=frame.index, dtype=dtype)
        for name, dtype in columns.items()
        if name not in frame.columns
    }
    if not columns:
        return frame
    fixed = [name for name in frame.columns if not name.startswith(KNOB)]
    every = sorted({*columns, *(name for name in frame.columns if name.startswith(KNOB))})
    return frame.assign(**lacking)[[*fixed, *every]]


def facts_of(about: Mapping[str, Any]) -> dict[str, str]:
    """What tells a sweep from others of the same task."""
    identity = about.get("identity", {})
    named = {name: str(identity.get(name, "")) for name in ("machine", "compiler")}
    return {"payload": str(about["payload"]), "task": str(about["task"]), **named}


def names_in(abouts: Abouts) -> dict[tuple[str, str], str]:
    """Names of tasks for people by payload and tag, where they are recorded."""
    return {(about["payload"], about["task"]): about["name"] for about in abouts.values() if "name" in about}


def check_payload(payload: str | None, abouts: Abouts, *, found: bool) -> None:
    """Raise unless a payload that is asked for was found."""
    if payload is not None and not found:
        held = ", ".join(sorted({about["payload"] for about in abouts.values()})) or "none at all"
        raise StoreError(f"the store must hold trials of {payload!r}, it holds {held}; leave out --payload")
