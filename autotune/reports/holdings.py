"""What a store holds, read for looking at: trials as a frame, filtered; default configs; roofs of the machine."""

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
    """What a task is compiled with without any search.

    Attributes:
        config: Value of every knob.
        seconds: Seconds of a call as the sweep measured it, drift divided out; `None` where it was not, or failed.
    """

    config: Config
    seconds: float | None


@dataclass(frozen=True)
class Holdings:
    """What a store holds.

    Attributes:
        frame: Trials, one row each; `autotune.store.frames.to_frame` has the columns.
        roofs: Roofs as the newest finished run measured them; `None` where none was finished.
        summaries: Results of the finished runs, oldest first, as `TuneResult.to_json` writes them.
        defaults: Default configs by the name of the sweep, where they are recorded.
        task_names: Names of tasks for people by payload and tag, where they are recorded.
        unproved: Names of the sweeps of payloads that nothing but their own plain lowering says the results of.
    """

    frame: pd.DataFrame
    roofs: Roofs | None = None
    summaries: tuple[dict[str, Any], ...] = ()
    defaults: Mapping[str, DefaultConfig] = field(default_factory=dict)
    task_names: Mapping[tuple[str, str], str] = field(default_factory=dict)
    unproved: frozenset[str] = frozenset()

    def names(self, payload: str) -> dict[str, str]:
        """A name for people for every task of a payload, by tag; where none is recorded, what the tag alone tells."""
        tags = self.frame.loc[self.frame["payload"] == payload, "task"].unique()
        return names_of(payload, map(str, tags), self.task_names)


def names_of(payload: str, tags: Iterable[str], known: Mapping[tuple[str, str], str]) -> dict[str, str]:
    """A name for people for every task of a payload, by tag.

    Args:
        payload: Name of the payload.
        tags: Tags of its tasks.
        known: Names that are recorded, by payload and tag.
    """
    return tell_apart({tag: known.get((payload, tag)) or readable_name(tag) for tag in tags})


def read_holdings(location: str | Path, *, payload: str | None = None, where: str | None = None) -> Holdings:
    """Read a store, also beside a running tuner.

    Args:
        location: A path, or a database URL.
        payload: Only sweeps of this payload.
        where: Only trials of which this pandas query is true; knobs go by their names: ``tile_m >= 8``.

    Raises:
        StoreError: The store is missing or damaged, or holds nothing that matches.
    """
    if is_recording(location):
        return select(holdings_of(read_recording(location)), payload, where)
    with Store.read(location) as store:
        summaries = [one for one in store.summaries() if payload in (None, one.get("payload"))]
        abouts = store.abouts()
        parts = list(read_parts(store, payload, where))
    defaults = {part.about["sweep"]: part.default for part in parts if part.default is not None}
    doubts = frozenset(part.about["sweep"] for part in parts if part.about.get("unproved"))
    frame = joined([part.frame for part in parts])
    return Holdings(frame, roofs_of(summaries), tuple(summaries), defaults, names_in(abouts), doubts)


@dataclass(frozen=True)
class SweepRows:
    """What is looked at of a sweep.

    Attributes:
        about: What the sweep is of, as `Sweep.about` has it.
        frame: Trials of the sweep, with the knobs of all sweeps that are looked at.
        default: Default config, where that is recorded.
    """

    about: dict[str, Any]
    frame: pd.DataFrame
    default: DefaultConfig | None


def read_parts(store: Store, payload: str | None = None, where: str | None = None) -> Iterator[SweepRows]:
    """A store sweep by sweep, oldest first: what is not kept leaves memory to the trials of one.

    Args:
        store: The store.
        payload: Only sweeps of this payload.
        where: Only trials of which this pandas query is true.

    Raises:
        StoreError: A record is damaged, or nothing is left, which is known in the end.
    """
    every, seen, kept = store.abouts(), 0, 0
    abouts = {name: about for name, about in every.items() if payload in (None, about["payload"])}
    columns = knob_columns(store, abouts)
    for sweep in store.sweeps(abouts):
        about = sweep.about
        frame = with_columns(to_frame([(trial, about) for trial in sweep.trials()]), columns)
        rows = frame[evaluate(frame, where)] if where is not None and len(frame) else frame
        seen, kept = seen + len(frame), kept + len(rows)
        yield SweepRows(about, rows, default_of(sweep, about["default"]) if "default" in about else None)
    check_payload(payload, (about["payload"] for about in every.values()), found=seen > 0)
    if where is not None and seen and not kept:
        raise nothing_left(where, seen)


def joined(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Trials of several sweeps; a knob that is a number in one and a word in another is a word."""
    if not (filled := [frame for frame in frames if len(frame)]):
        return to_frame([])
    whole = pd.concat(filled, ignore_index=True)
    return whole.astype({name: "string" for name in whole if whole[name].dtype == object})


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


def names_in(abouts: Abouts) -> dict[tuple[str, str], str]:
    """Names of tasks for people by payload and tag, where they are recorded."""
    return {(about["payload"], about["task"]): about["name"] for about in abouts.values() if "name" in about}


def check_payload(payload: str | None, known: Iterable[str], *, found: bool) -> None:
    """Raise unless a payload that is asked for was found among known ones."""
    if payload is not None and not found:
        held = ", ".join(sorted(set(known))) or "none at all"
        raise StoreError(f"the store must hold trials of {payload!r}, it holds {held}; leave out --payload")


def select(holdings: Holdings, payload: str | None, where: str | None) -> Holdings:
    """The part that matches, as in `read_holdings`."""
    frame = holdings.frame
    if payload is not None:
        found = frame[frame["payload"] == payload]
        check_payload(payload, frame["payload"], found=not found.empty)
        frame = found
    if where is not None:
        frame = keep(frame, where)
    shown = tuple(summary for summary in holdings.summaries if payload in (None, summary.get("payload")))
    return replace(holdings, frame=frame, summaries=shown)


def holdings_of(recording: Recording) -> Holdings:
    """What a recording holds: one sweep."""
    default = recording.found.get(recording.values_of(recording.default))
    known = DefaultConfig(recording.default, recording.seconds_of(default) if default is not None else None)
    tag = recording.task.tag
    name = readable_name(tag, recording.task.ops[::-1])
    return Holdings(recording.frame, None, (), {recording.payload: known}, {(recording.payload, tag): name})


def default_of(sweep: Sweep, config: Config) -> DefaultConfig:
    """The default config of a sweep, and the time of its trial, or of the one that this is a duplicate of."""
    trial = next((trial for trial in sweep.recorded if trial.config == config), None)
    if trial is not None:
        trial = sweep.records.get(trial.twin, trial)
    return DefaultConfig(config, trial.seconds if trial is not None and trial.outcome == "ok" else None)


def keep(frame: pd.DataFrame, where: str) -> pd.DataFrame:
    """The trials of which a query is true.

    Raises:
        StoreError: The text is no query, names what there is not, or is true of no trial.

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
    """Whether a query is true of each trial.

    Raises:
        StoreError: The text is no query, or names what there is not.
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
    """What to raise where a query is true of no trial."""
    return StoreError(f"--where must leave trials to look at, {where!r} is true of none of {trials}")


def roofs_of(summaries: list[dict[str, Any]]) -> Roofs | None:
    """Roofs from the newest summary that has them."""
    for summary in reversed(summaries):
        try:
            given = dict(summary["roofs"])
            rates = {rate.name: float(given.get(rate.name, rate.default)) for rate in fields(Roofs)}
            return Roofs(**rates)
        except (KeyError, TypeError, ValueError):
            continue
    return None
