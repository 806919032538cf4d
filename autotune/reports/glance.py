"""What a store holds, read for a glance: of a store on a server only what is shown, however many trials there are."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sqlalchemy import Connection

from autotune.core.errors import StoreError
from autotune.core.space import Config
from autotune.core.trial import Trial
from autotune.reports.holdings import DefaultConfig, Holdings, read_holdings, roofs_of
from autotune.reports.overview import SWEEP
from autotune.store.database.address import is_postgres
from autotune.store.database.brief import CHUNK, read_briefs, read_trials
from autotune.store.database.postgres import Database
from autotune.store.frames import PHASES
from autotune.store.plain_errors import plain_errors
from autotune.store.store import Store

FIRST = 1000  # trials of a sweep among which its default config is looked for; a search begins with it
Abouts = Mapping[str, dict[str, Any]]


def glance(location: str | Path, payload: str | None, top: int) -> Holdings:
    """What `describe_sweeps` needs of a store.

    On a server that is a line of numbers a trial, and the whole of the best ones and of the default configs; its frame
    has knobs in one column, ``config``, of the best alone. Other stores are read as by `read_holdings`.

    Args:
        location: A path, or a database URL.
        payload: Only sweeps of this payload.
        top: Most trials of a task whose configs are shown.

    Raises:
        StoreError: The store is missing or damaged, or holds no such payload.
    """
    if not is_postgres(location):
        return read_holdings(location, payload=payload)
    with Store.open(location, create=False, exclusive=False) as store, plain_errors(store.where):
        summaries = [one for one in store.summaries() if payload in (None, one.get("payload"))]
        abouts = {name: about for name, about in store.abouts().items() if payload in (None, about["payload"])}
        if store.database is None:
            return Holdings(pd.DataFrame())
        frame, defaults = read_numbers(store.database, abouts, top)
        if payload is not None and frame.empty:
            held = ", ".join(sorted({about["payload"] for about in store.abouts().values()})) or "none at all"
            raise StoreError(f"the store must hold trials of {payload!r}, it holds {held}; leave out --payload")
    names = {(about["payload"], about["task"]): about["name"] for about in abouts.values() if "name" in about}
    return Holdings(frame, roofs_of(summaries), tuple(summaries), defaults, names)


def read_numbers(database: Database, abouts: Abouts, top: int) -> tuple[pd.DataFrame, dict[str, DefaultConfig]]:
    """The frame of all trials, and the default configs of sweeps."""
    ids = database.ids(abouts)

    def read(connection: Connection) -> tuple[pd.DataFrame, dict[str, DefaultConfig]]:
        briefs = read_briefs(connection, list(ids.values()))
        frame = with_sweeps(briefs, abouts, ids)
        chosen = best_rows(frame, top)
        trials = read_trials(connection, frame["trial"].loc[chosen].tolist())
        configs, families = np.full((2, len(frame)), None, dtype=object)
        for row in chosen:
            trial = trials[int(frame["trial"].iloc[row])]
            configs[row], families[row] = dict(sorted(trial.config.items())), trial.family
        frame = frame.assign(config=configs, family=pd.Series(families, dtype="string"))
        rows = dict(tuple(briefs.groupby("study", sort=False)["trial"]))
        wanted = {name: about["default"] for name, about in abouts.items() if "default" in about and ids[name] in rows}
        found = {name: read_default(connection, rows[ids[name]].tolist(), wanted[name]) for name in wanted}
        missing = {name: DefaultConfig(a["default"], None) for name, a in abouts.items() if "default" in a}
        return frame, missing | found

    return database.server.run(read)


def with_sweeps(briefs: pd.DataFrame, abouts: Abouts, ids: Mapping[str, int]) -> pd.DataFrame:
    """Trials in short with what their sweeps are of, sweep by sweep and by number: columns as of `to_frame`."""
    order = {study: place for place, study in enumerate(ids.values())}
    place = briefs["study"].map(order).to_numpy(dtype=np.int64)
    sorted_rows = np.lexsort((briefs["trial"], briefs["number"], place))
    rows, place = briefs.iloc[sorted_rows].reset_index(drop=True), place[sorted_rows]
    facts = [facts_of(name, abouts[name]) for name in ids]
    texts = {
        name: pd.Series(np.array([fact[name] for fact in facts], dtype=object)[place], dtype="string")
        for name in ("payload", "machine", "compiler", "sweep", "task")
    }
    flops = np.array([float(fact["flops"]) or np.nan for fact in facts])[place]
    measured = {name: rows[name] for name in ("outcome", "seconds_median", "seconds_normalised")}
    return pd.DataFrame(
        {**texts, "number": rows["number"], **measured}
        | {"gflops": flops / rows["seconds_median"] / 1e9, "trial": rows["trial"]}
        | {f"{phase}_seconds": rows[phase] for phase in PHASES}
    )


def facts_of(name: str, about: Mapping[str, Any]) -> dict[str, Any]:
    """What every trial of a sweep has in common."""
    identity = about.get("identity", {})
    return {
        "payload": about["payload"],
        "machine": str(identity.get("machine", "")),
        "compiler": str(identity.get("compiler", "")),
        "sweep": name,
        "task": about["task"],
        "flops": about.get("flops", 0.0),
    }


def best_rows(frame: pd.DataFrame, top: int) -> list[int]:
    """Rows of the trials that `describe_sweeps` shows."""
    right = frame.loc[frame["outcome"] == "ok", [*SWEEP, "seconds_normalised"]]
    groups = right.groupby(list(SWEEP), sort=False)["seconds_normalised"]
    return [int(row) for _, seconds in groups for row in seconds.nsmallest(top).index]


def read_default(connection: Connection, rows: list[int], config: Config) -> DefaultConfig:
    """The default config of a sweep, and the time of its trial, or of the one that this is a duplicate of."""
    trial = next((found for found in in_turn(connection, rows) if found.config == config), None)
    if trial is not None and trial.twin:
        twin = trial.twin
        trial = next((found for found in in_turn(connection, rows) if found.key == twin), trial)
    return DefaultConfig(config, trial.seconds if trial is not None and trial.outcome == "ok" else None)


def in_turn(connection: Connection, rows: list[int]) -> Iterator[Trial]:
    """The first trials of a sweep, read whole: one, then more at a time."""
    start, size = 0, 1
    while start < min(len(rows), FIRST):
        found = read_trials(connection, rows[start : start + size])
        yield from (found[row] for row in rows[start : start + size] if row in found)
        start, size = start + size, min(8 * size, CHUNK)
