"""Two stores against each other: for every task in both, the best of each, its trials, and the factor between."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from autotune.errors import StoreError
from autotune.stats import Interval, ratio_interval
from autotune.store import Store
from autotune.trial import Samples, Trial

NEAR = 1.05  # within this factor of the better store's best, a sweep counts as there


@dataclass(frozen=True)
class Side:
    """One sweep's part.

    Attributes:
        trials: How many it took in all.
        seconds: A call of its best, drift divided out; `None` if nothing succeeded.
        to_95: Trials until a config was within 5 % of the better store's best; `None` if none was.
    """

    trials: int
    seconds: float | None
    to_95: int | None


@dataclass(frozen=True)
class Versus:
    """A task in two stores.

    Attributes:
        payload: Its name.
        task: Tag of the task.
        here: The first store's sweep.
        there: The second's.
        ratio: Seconds there over seconds here: above 1 the first store's best is faster. The interval is that of the
            samples, which were taken in two sessions.
    """

    payload: str
    task: str
    here: Side
    there: Side
    ratio: Interval | None

    def to_json(self) -> dict[str, Any]:
        """One plain object."""
        return asdict(self)


def compare_stores(here: str | Path, there: str | Path) -> list[Versus]:
    """Compare the sweeps of two stores, task by task.

    Raises:
        StoreError: A store is missing or damaged, or they have no task in common.
    """
    mine, theirs = trials_by_task(here), trials_by_task(there)
    common = [name for name in mine if name in theirs]
    if not common:
        names = ["/".join(name) for name in theirs]
        raise StoreError(f"stores to compare must share a task; {there} holds {', '.join(names) or 'none'}")
    return [compare_task(name, mine[name], theirs[name]) for name in common]


def trials_by_task(location: str | Path) -> dict[tuple[str, str], list[Trial]]:
    """Trials of a store by payload and task, sweeps of other versions of it included."""
    found: dict[tuple[str, str], list[Trial]] = {}
    with Store.open(location, create=False, exclusive=False) as store:
        for sweep in store.sweeps():
            found.setdefault((sweep.about["payload"], sweep.about["task"]), []).extend(sweep.trials())
    return found


def compare_task(name: tuple[str, str], here: list[Trial], there: list[Trial]) -> Versus:
    """One row."""
    best = [min((t for t in side if t.samples), key=lambda t: t.seconds or 0.0, default=None) for side in (here, there)]
    goals = [trial.seconds for trial in best if trial is not None and trial.seconds is not None]
    goal = NEAR * min(goals, default=0.0)
    mine, theirs = (make_side(trials, trial, goal) for trials, trial in zip((here, there), best, strict=True))
    ratio = None
    if best[0] is not None and best[1] is not None and best[0].samples and best[1].samples:
        ratio = ratio_interval(steady(best[1].samples), steady(best[0].samples), paired=False)
    return Versus(*name, mine, theirs, ratio)


def make_side(trials: list[Trial], best: Trial | None, goal: float) -> Side:
    """One sweep's part of a row."""
    there = (i for i, trial in enumerate(trials, start=1) if trial.seconds is not None and trial.seconds <= goal)
    return Side(len(trials), best.seconds if best is not None else None, next(there, None))


def steady(samples: Samples) -> list[float]:
    """Samples with the machine's drift divided out, as `Samples.normalised` does it for their median."""
    scale = samples.normalised / samples.median
    return [seconds * scale for seconds in samples.seconds]
