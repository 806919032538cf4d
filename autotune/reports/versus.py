"""Sweeps against each other, in two stores or in one: the best of each task, its trials, and the factor between."""

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

NEAR = 1.05  # within this factor of the better side's best, a sweep counts as there


@dataclass(frozen=True)
class Tried:
    """Trials of a task, of one sweep or several."""

    payload: str
    task: str
    name: str
    flops: float
    trials: tuple[Trial, ...]


@dataclass(frozen=True)
class Side:
    """One side's part of a pair.

    Attributes:
        payload: Name of the payload.
        task: Tag of the task.
        name: Name of the task for people.
        trials: Number of trials in all.
        seconds: A call of its best, drift divided out; `None` if nothing succeeded.
        gflops: 10^9 operations a second then; `None` also where operations are not known.
        to_95: Trials until a config was within 5 % of the better side's best; `None` if none was.
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
        here: The first side's sweep.
        there: The second's.
        ratio: Seconds there over seconds here: above 1 the first side's best is faster. The interval is that of the
            samples, which were taken in two sessions.
    """

    here: Side
    there: Side
    ratio: Interval | None


@dataclass(frozen=True)
class Versus:
    """What was compared, and every task on both sides."""

    here: str
    there: str
    pairs: tuple[SweepPair, ...]

    def to_json(self) -> dict[str, Any]:
        """One plain object."""
        return asdict(self)


def compare_sweeps(location: str | Path, other: str, payload: str | None = None) -> Versus:
    """Compare a store's sweeps with those of another payload in it, or of another store.

    Args:
        location: The store.
        other: A payload of the store, or another store. The same payload again means its earlier sweeps, of another
            compiler, machine or text, beside the one begun last.
        payload: Payload that is set beside it; by default the store's only other payload, or all that two stores share.

    Raises:
        StoreError: A store is missing or damaged, a payload is not there, or no task is on both sides.
    """
    held = read_tried(location)
    names = list(dict.fromkeys(one.payload for one in held))
    if payload is not None and payload not in names:
        raise StoreError(f"the store must hold trials of {payload!r}, it holds {', '.join(names) or 'none at all'}")
    if other in names:
        return compare_payloads(held, payload or partner(names, other), other)
    if "://" not in other and not Path(other).exists():
        raise StoreError(
            f"--compare must name a payload of the store or another store, got {other!r}, which does not exist; "
            f"the store holds {', '.join(names) or 'nothing'}"
        )
    mine, theirs = ([t for t in side if payload in (None, t.payload)] for side in (held, read_tried(other)))
    return make_versus(shown(str(location)), mine, shown(other), theirs, lambda one: (one.payload, one.task))


def compare_payloads(held: list[Tried], here: str, there: str) -> Versus:
    """Compare two payloads of a store, or one payload's latest sweeps with those before.

    Tasks of equal tags are compared; so are payloads of a single task each, whatever those are.
    """
    mine, theirs = ([one for one in held if one.payload == name] for name in (here, there))
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
    """What is compared with a payload by default."""
    left = [name for name in names if name != other] or [other]
    if len(left) > 1:
        raise StoreError(f"--payload must name what to compare with {other}, one of {', '.join(left)}; it is missing")
    return left[0]


def read_tried(location: str | Path) -> list[Tried]:
    """Every sweep of a store, the one begun first in front."""
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
    """SweepPair what has the same key."""
    left, right = merge(mine, key), merge(theirs, key)
    pairs = tuple(compare_task(left[name], right[name]) for name in left if name in right)
    if not pairs:
        names = ", ".join(f"{one.payload}/{one.task}" for one in right.values()) or "none"
        raise StoreError(f"sweeps to compare must share a task, {there} holds {names}; name others")
    return Versus(here, there, pairs)


def merge(tried: Iterable[Tried], key: Callable[[Tried], Hashable]) -> dict[Hashable, Tried]:
    """Trials by key; those of several sweeps together."""
    found: dict[Hashable, Tried] = {}
    for one in tried:
        before = found[key(one)].trials if key(one) in found else ()
        found[key(one)] = replace(one, trials=before + one.trials)
    return found


def compare_task(here: Tried, there: Tried) -> SweepPair:
    """One row."""
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
    """One side's part of a row."""
    near = (i for i, t in enumerate(tried.trials, start=1) if t.seconds is not None and t.seconds <= goal)
    seconds = best.seconds if best is not None else None
    gflops = tried.flops / seconds / 1e9 if seconds and tried.flops else None
    return Side(tried.payload, tried.task, tried.name, len(tried.trials), seconds, gflops, next(near, None))


def steady(samples: Samples) -> list[float]:
    """Samples with the machine's drift divided out, as `Samples.normalised` does it for their median."""
    scale = samples.normalised / samples.median
    return [seconds * scale for seconds in samples.seconds]
