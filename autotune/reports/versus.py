"""Comparison of sweeps in two stores or in one: the best time of each task, its trials, and the ratio of times."""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from autotune.core.errors import StoreError
from autotune.core.stats import Interval, ratio_interval
from autotune.core.task_names import readable_name
from autotune.core.trial import Samples, Trial
from autotune.store.address import shown
from autotune.store.store import Store

NEAR = 1.05  # factor of the better side's best time within which a sweep has reached it


@dataclass(frozen=True)
class Tried:
    """Trials of a task, from one or several sweeps."""

    payload: str
    task: str
    name: str
    flops: float
    trials: tuple[Trial, ...]


@dataclass(frozen=True)
class Side:
    """One side of a pair.

    Attributes:
        payload: Name of the payload.
        task: Tag of the task.
        name: Readable name of the task.
        trials: Number of trials.
        seconds: Best time in seconds per call, drift divided out; `None` if no trial succeeded.
        gflops: Rate at that time in 10^9 operations per second; `None` also if the operations are unknown.
        to_95: Number of trials until a config was within 5 % of the better side's best; `None` if none was.
    """

    payload: str
    task: str
    name: str
    trials: int
    seconds: float | None
    gflops: float | None
    to_95: int | None


@dataclass(frozen=True)
class SweepPair:
    """A task on both sides.

    Attributes:
        here: Sweep of the first side.
        there: Sweep of the second side.
        ratio: Time of the second side over time of the first: above 1 if the first is faster. The interval is for
            unpaired samples, since they were taken in two sessions.
    """

    here: Side
    there: Side
    ratio: Interval | None


@dataclass(frozen=True)
class Versus:
    """Result of a comparison: the names of both sides, and all tasks that are on both."""

    here: str
    there: str
    pairs: tuple[SweepPair, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as a JSON object."""
        return asdict(self)


def compare_sweeps(location: str | Path, other: str, payload: str | None = None) -> Versus:
    """Compare a store's sweeps with those of another payload in it, or of another store.

    Args:
        location: Path or URL of the store.
        other: Payload of the store, or another store. If it is the same payload, the sweep begun last is compared with
            earlier ones of another compiler, machine or text.
        payload: Payload to compare it with; by default the store's only other payload, or all that both stores share.

    Raises:
        StoreError: A store is missing or damaged, a payload is missing, or no task is on both sides.
    """
    tried = read_tried(location)
    names = list(dict.fromkeys(one.payload for one in tried))
    if payload is not None and payload not in names:
        raise StoreError(f"the store must hold trials of {payload!r}, it holds {', '.join(names) or 'none at all'}")
    if other in names:
        return compare_payloads(tried, payload or partner(names, other), other)
    if "://" not in other and not Path(other).exists():
        raise StoreError(
            f"--compare must name a payload of the store or another store, got {other!r}, which does not exist; "
            f"the store holds {', '.join(names) or 'nothing'}"
        )
    mine, theirs = ([t for t in side if payload in (None, t.payload)] for side in (tried, read_tried(other)))
    return make_versus(shown(str(location)), mine, shown(other), theirs, lambda one: (one.payload, one.task))


def compare_payloads(sweeps: list[Tried], here: str, there: str) -> Versus:
    """Compare two payloads of a store, or one payload's latest sweeps with earlier ones.

    Tasks with equal tags are compared; two payloads with a single task each are always compared.
    """
    mine, theirs = ([one for one in sweeps if one.payload == name] for name in (here, there))
    if here != there:
        alone = len({one.task for one in mine}) == len({one.task for one in theirs}) == 1
        return make_versus(here, mine, there, theirs, lambda one: "" if alone else one.task)
    latest = {one.task: one for one in mine}
    earlier = [one for one in mine if one is not latest[one.task]]
    if not earlier:
        raise StoreError(
            f"a payload to compare with itself must have sweeps of two compilers, machines or texts, {here} has one; "
            "name another"
        )
    return make_versus(f"{here}, begun last", latest.values(), f"{here}, before", earlier, lambda one: one.task)


def partner(names: list[str], other: str) -> str:
    """Return the payload that another one is compared with by default."""
    rest = [name for name in names if name != other] or [other]
    if len(rest) > 1:
        raise StoreError(f"--payload must name what to compare with {other}, one of {', '.join(rest)}; it is missing")
    return rest[0]


def read_tried(location: str | Path) -> list[Tried]:
    """Read all sweeps of a store, oldest first."""
    with Store.read(location) as store:
        abouts = [(sweep.about, tuple(sweep.trials())) for sweep in store.sweeps()]
    return [
        Tried(
            payload=about["payload"],
            task=about["task"],
            name=about.get("name") or readable_name(about["task"]),
            flops=about.get("flops", 0.0),
            trials=trials,
        )
        for about, trials in abouts
    ]


def make_versus(
    here: str, mine: Iterable[Tried], there: str, theirs: Iterable[Tried], key: Callable[[Tried], Hashable]
) -> Versus:
    """Pair tasks with equal keys and compare them.

    Raises:
        StoreError: No key is on both sides.
    """
    left, right = merge(mine, key), merge(theirs, key)
    pairs = tuple(compare_task(left[name], right[name]) for name in left if name in right)
    if not pairs:
        names = ", ".join(f"{one.payload}/{one.task}" for one in right.values()) or "none"
        raise StoreError(f"sweeps to compare must share a task, {there} holds {names}; name others")
    return Versus(here, there, pairs)


def merge(tried: Iterable[Tried], key: Callable[[Tried], Hashable]) -> dict[Hashable, Tried]:
    """Merge the trials of sweeps with equal keys."""
    merged: dict[Hashable, Tried] = {}
    for one in tried:
        before = merged[key(one)].trials if key(one) in merged else ()
        merged[key(one)] = replace(one, trials=before + one.trials)
    return merged


def compare_task(here: Tried, there: Tried) -> SweepPair:
    """Compare a task on both sides."""
    sides = (here, there)
    best = [min((t for t in side.trials if t.samples), key=lambda t: t.seconds or 0.0, default=None) for side in sides]
    goals = [trial.seconds for trial in best if trial is not None and trial.seconds is not None]
    goal = NEAR * min(goals, default=0.0)
    mine, theirs = (make_side(side, trial, goal) for side, trial in zip(sides, best, strict=True))
    ratio = None
    if best[0] is not None and best[1] is not None and best[0].samples and best[1].samples:
        ratio = ratio_interval(steady(best[1].samples), steady(best[0].samples), paired=False)
    return SweepPair(mine, theirs, ratio)


def make_side(tried: Tried, best: Trial | None, goal: float) -> Side:
    """Summarize one side of a pair; `goal` is the time in seconds that counts for `to_95`."""
    reached = (i for i, t in enumerate(tried.trials, start=1) if t.seconds is not None and t.seconds <= goal)
    seconds = best.seconds if best is not None else None
    gflops = tried.flops / seconds / 1e9 if seconds and tried.flops else None
    return Side(tried.payload, tried.task, tried.name, len(tried.trials), seconds, gflops, next(reached, None))


def steady(samples: Samples) -> list[float]:
    """Divide the machine's drift out of samples, as `Samples.normalised` does for their median."""
    scale = samples.normalised / samples.median
    return [seconds * scale for seconds in samples.seconds]
