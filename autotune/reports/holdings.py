"""Contents of a store for display: trials as a filtered frame, default configs, roofs of the machine."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import pandas as pd
from pandas.api.types import is_bool_dtype

from autotune.core.errors import StoreError
from autotune.core.host.machine import Roofs
from autotune.core.space import Config
from autotune.core.task_names import readable_name, tell_apart
from autotune.store.frames import KNOB, knob_dtype, to_frame
from autotune.store.recording import Recording, is_recording, read_recording
from autotune.store.store import Store
from autotune.store.sweep import Sweep

Abouts = Mapping[str, dict[str, Any]]  # of sweeps, by the name of their study


@dataclass(frozen=True)
class DefaultConfig:
    """Default config of a task.

    Attributes:
        config: Value of every knob.
        seconds: Time in the sweep in seconds per call, drift divided out; `None` if it was not measured or failed.
    """

    config: Config
    seconds: float | None


@dataclass(frozen=True)
class Holdings:
    """Contents of a store.

    Attributes:
        frame: Trials, one row each, with the columns of `autotune.store.frames.to_frame`.
        roofs: Roofs measured by the latest finished run; `None` if there is none.
        summaries: Results of the finished runs, oldest first, as `TuneResult.to_json` writes them.
        defaults: Recorded default configs, by the name of the sweep.
        task_names: Recorded readable names of tasks, by payload and tag.
        unproved: Names of the sweeps of imported payloads whose plain lowering is the only oracle.
    """

    frame: pd.DataFrame
    roofs: Roofs | None = None
    summaries: tuple[dict[str, Any], ...] = ()
    defaults: Mapping[str, DefaultConfig] = field(default_factory=dict)
    task_names: Mapping[tuple[str, str], str] = field(default_factory=dict)
    unproved: frozenset[str] = frozenset()

    def names(self, payload: str) -> dict[str, str]:
        """Return a readable name for every task of a payload, by tag; if none is recorded, derive it from the tag."""
        tags = self.frame.loc[self.frame["payload"] == payload, "task"].unique()
        return names_of(payload, map(str, tags), self.task_names)


def names_of(payload: str, tags: Iterable[str], known: Mapping[tuple[str, str], str]) -> dict[str, str]:
    """Return a unique readable name for every task of a payload, by tag.

    Args:
        payload: Name of the payload.
        tags: Tags of its tasks.
        known: Recorded names, by payload and tag.
    """
    return tell_apart({tag: known.get((payload, tag)) or readable_name(tag) for tag in tags})


def read_holdings(location: str | Path, *, payload: str | None = None, where: str | None = None) -> Holdings:
    """Read a store or a recording; a store may be in use by a running tuner.

    Args:
        location: Path or database URL.
        payload: Name of the payload to restrict sweeps to.
        where: pandas query to restrict trials by; knobs have their own names: ``tile_m >= 8``.

    Raises:
        StoreError: The store is missing or damaged, or has no matching trials.
    """
    if is_recording(location):
        return select(holdings_of(read_recording(location)), payload, where)
    with Store.read(location) as store:
        summaries = [summary for summary in store.summaries() if payload in (None, summary.get("payload"))]
        abouts = store.abouts()
        parts = list(read_parts(store, payload, where))
    defaults = {part.about["sweep"]: part.default for part in parts if part.default is not None}
    doubts = frozenset(part.about["sweep"] for part in parts if part.about.get("unproved"))
    frame = joined([part.frame for part in parts])
    return Holdings(frame, roofs_of(summaries), tuple(summaries), defaults, names_in(abouts), doubts)


@dataclass(frozen=True)
class SweepRows:
    """Selected trials of a sweep.

    Attributes:
        about: Attributes of the sweep, as in `Sweep.about`.
        frame: Trials of the sweep, with the knob columns of all selected sweeps.
        default: Default config; `None` if it is not recorded.
    """

    about: dict[str, Any]
    frame: pd.DataFrame
    default: DefaultConfig | None


def read_parts(store: Store, payload: str | None = None, where: str | None = None) -> Iterator[SweepRows]:
    """Yield the selected trials of a store sweep by sweep, oldest first, so that only one sweep need be in memory.

    Args:
        store: The store.
        payload: Name of the payload to restrict sweeps to.
        where: pandas query to restrict trials by.

    Raises:
        StoreError: A record is damaged, or no trial matches, which is raised at the end.
    """
    all_abouts, seen, matching = store.abouts(), 0, 0
    abouts = {name: about for name, about in all_abouts.items() if payload in (None, about["payload"])}
    columns = knob_columns(store, abouts)
    for sweep in store.sweeps(abouts):
        about = sweep.about
        frame = with_columns(to_frame([(trial, about) for trial in sweep.trials()]), columns)
        rows = frame[evaluate(frame, where)] if where is not None and len(frame) else frame
        seen, matching = seen + len(frame), matching + len(rows)
        yield SweepRows(about, rows, default_of(sweep, about["default"]) if "default" in about else None)
    check_payload(payload, (about["payload"] for about in all_abouts.values()), exists=seen > 0)
    if where is not None and seen and not matching:
        raise nothing_left(where, seen)


def joined(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Concatenate the trials of several sweeps; a knob with numbers in one and strings in another becomes a string."""
    if not (filled := [frame for frame in frames if len(frame)]):
        return to_frame([])
    whole = pd.concat(filled, ignore_index=True)
    return whole.astype({name: "string" for name in whole if whole[name].dtype == object})


def knob_columns(store: Store, abouts: Abouts) -> dict[str, str]:
    """Return the dtype of every knob column of some sweeps, by name."""
    types: dict[str, set[type]] = {}
    for config in configs_of(store, abouts):
        for name, value in config.items():
            types.setdefault(f"{KNOB}{name}", set()).add(type(value))
    return {name: knob_dtype(types[name]) for name in sorted(types)}


def configs_of(store: Store, abouts: Abouts) -> Iterator[Mapping[str, Any]]:
    """Yield one config of every sweep, for its knobs: the default one, or in older stores that of the first trial."""
    for name, about in abouts.items():
        if "default" in about:
            yield about["default"]
        else:
            yield from (trial.config for sweep in store.sweeps({name: about}) for trial in sweep.recorded[:1])


def with_columns(frame: pd.DataFrame, columns: Mapping[str, str]) -> pd.DataFrame:
    """Extend the trials of one sweep by the knob columns of all sweeps."""
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


def names_in(abouts: Abouts) -> dict[tuple[str, str], str]:
    """Return the recorded readable names of tasks, by payload and tag."""
    return {(about["payload"], about["task"]): about["name"] for about in abouts.values() if "name" in about}


def check_payload(payload: str | None, known: Iterable[str], *, exists: bool) -> None:
    """Raise `StoreError` if a payload was requested but not found; the message lists the known ones."""
    if payload is not None and not exists:
        names = ", ".join(sorted(set(known))) or "none at all"
        raise StoreError(f"the store must hold trials of {payload!r}, it holds {names}; leave out --payload")


def select(holdings: Holdings, payload: str | None, where: str | None) -> Holdings:
    """Return the matching part of the contents, as in `read_holdings`."""
    frame = holdings.frame
    if payload is not None:
        matches = frame[frame["payload"] == payload]
        check_payload(payload, frame["payload"], exists=not matches.empty)
        frame = matches
    if where is not None:
        frame = keep(frame, where)
    shown = tuple(summary for summary in holdings.summaries if payload in (None, summary.get("payload")))
    return replace(holdings, frame=frame, summaries=shown)


def holdings_of(recording: Recording) -> Holdings:
    """Return the contents of a recording, a single sweep."""
    default = recording.trials_by_values.get(recording.values_of(recording.default))
    known = DefaultConfig(recording.default, recording.seconds_of(default) if default is not None else None)
    tag = recording.task.tag
    name = readable_name(tag, recording.task.ops[::-1])
    return Holdings(recording.frame, None, (), {recording.payload: known}, {(recording.payload, tag): name})


def default_of(sweep: Sweep, config: Config) -> DefaultConfig:
    """Return the default config of a sweep with the time of its trial, or of the trial that it duplicates."""
    trial = next((trial for trial in sweep.recorded if trial.config == config), None)
    if trial is not None:
        trial = sweep.records.get(trial.twin, trial)
    return DefaultConfig(config, trial.seconds if trial is not None and trial.outcome == "ok" else None)


def keep(frame: pd.DataFrame, where: str) -> pd.DataFrame:
    """Return the trials that match a query.

    Raises:
        StoreError: The query is invalid, names an unknown column, or matches no trial.

    Example:
        >>> frame = pd.DataFrame({"outcome": ["ok", "ok"], "knob_tile_m": [4, 8]})
        >>> keep(frame, "tile_m >= 8")["knob_tile_m"].tolist()
        [8]
    """
    chosen = frame[evaluate(frame, where)]
    if chosen.empty and not frame.empty:
        raise nothing_left(where, len(frame))
    return chosen


def evaluate(frame: pd.DataFrame, where: str) -> "pd.Series[bool]":
    """Evaluate a query for each trial.

    Raises:
        StoreError: The query is invalid, or names an unknown column.
    """
    names = {c: c.removeprefix(KNOB) for c in frame.columns if c.removeprefix(KNOB) not in frame.columns}
    plain = frame.rename(columns=names)
    try:
        truth = pd.Series(plain.eval(where, engine="python", local_dict={}, global_dict={}), index=frame.index)
        if not is_bool_dtype(truth):
            raise ValueError("it must be true or false of a trial")
        return truth.astype("boolean").fillna(False).astype(bool)
    except Exception as error:  # pandas evaluates what the user wrote: it may raise anything
        message = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise StoreError(
            f"--where must be a pandas query over {', '.join(plain.columns)}; got {where!r}: {message}"
        ) from error


def nothing_left(where: str, trials: int) -> StoreError:
    """Return the error for a query that matches no trial."""
    return StoreError(f"--where must leave trials to look at, {where!r} is true of none of {trials}")


def roofs_of(summaries: list[dict[str, Any]]) -> Roofs | None:
    """Return the roofs of the latest summary that has them; `None` if there is none."""
    for summary in reversed(summaries):
        try:
            recorded = dict(summary["roofs"])
            rates = {rate.name: float(recorded.get(rate.name, rate.default)) for rate in fields(Roofs)}
            return Roofs(**rates)
        except (KeyError, TypeError, ValueError):
            continue
    return None
