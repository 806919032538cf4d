"""Why a search chose its configs: which sampler proposed each, what its model predicted, what was measured."""

from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from autotune.core.errors import StoreError
from autotune.core.space import Value
from autotune.core.task_names import readable_name
from autotune.core.trial import Trial
from autotune.reports.overview import changed_config
from autotune.store.store import Store
from autotune.store.sweep import Sweep

FEWEST_RANKED = 3  # trials of which a rank correlation is shown


@dataclass(frozen=True)
class TrialReason:
    """One trial, and why it was made.

    Attributes:
        number: Position in the search, from 0.
        by: Name of the sampler that proposed it; empty where that is not recorded.
        expected: Seconds a call that a model let expect; `None` if none did.
        low: Seconds a standard deviation below that.
        high: Seconds a standard deviation above that.
        drafted: Configs that it was chosen from; 0 if there was no choice.
        seconds: Seconds a call, drift divided out; of a duplicate those of its original; `None` if it failed.
        outcome: Outcome of the trial.
        changed: Knobs that are not as in the best config before it; as by default at first.
    """

    number: int
    by: str
    expected: float | None
    low: float | None
    high: float | None
    drafted: int
    seconds: float | None
    outcome: str
    changed: dict[str, Value]


@dataclass(frozen=True)
class SearchReasons:
    """The search of one task.

    Attributes:
        payload: Name of the payload.
        task: Name of the task for people.
        trials: Trials in the order they were made.
        refused: Proposals that were turned down, by why: ``constraint``, ``duplicate``.
        rank: Rank correlation (Spearman) of what was expected and measured; `None` for want of trials.
        off: Median factor between the two, whichever is larger; `None` where nothing was expected.
    """

    payload: str
    task: str
    trials: tuple[TrialReason, ...]
    refused: dict[str, int]
    rank: float | None
    off: float | None

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def read_reasons(location: str | Path, payload: str | None = None) -> list[SearchReasons]:
    """Why the searches of a store went where they went.

    Args:
        location: A path, or a database URL.
        payload: Only sweeps of this payload.

    Raises:
        StoreError: The store is missing or damaged, or has no trial of that payload.
    """
    with Store.read(location) as store:
        sweeps = [sweep for sweep in store.sweeps() if payload in (None, sweep.about["payload"])]
        found = [reasons_of(sweep) for sweep in sweeps if sweep.recorded]
    if not found:
        whose = f"trials of {payload!r}" if payload is not None else "trials"
        raise StoreError(f"the store must hold {whose} for --why, it holds none; run `autotune tune` first")
    return found


def reasons_of(sweep: Sweep) -> SearchReasons:
    """Why one search went where it went."""
    about, rows, refused = sweep.about, list[TrialReason](), Counter[str]()
    best: Trial | None = None
    for trial in sweep.trials():
        like = best.config if best is not None else about.get("default", trial.config)
        rows.append(row_of(trial, sweep, changed_config(trial.config, like)))
        refused.update(trial.reason.refused if trial.reason is not None else {})
        if trial.seconds is not None and (best is None or trial.seconds < (best.seconds or 0.0)):
            best = trial
    pairs = [(row.expected, row.seconds) for row in rows if row.expected is not None and row.seconds is not None]
    name = str(about.get("name") or readable_name(about["task"]))
    return SearchReasons(str(about["payload"]), name, tuple(rows), dict(refused), rank_of(pairs), factor_of(pairs))


def row_of(trial: Trial, sweep: Sweep, changed: dict[str, Value]) -> TrialReason:
    """One trial as a row."""
    reason, measured = trial.reason, sweep.records.get(trial.twin, trial).seconds
    if reason is None:
        return TrialReason(trial.number, "", None, None, None, 0, measured, trial.outcome, changed)
    return TrialReason(
        number=trial.number,
        by=reason.by,
        expected=reason.expected or None,
        low=reason.low or None,
        high=reason.high or None,
        drafted=reason.drafted,
        seconds=measured,
        outcome=trial.outcome,
        changed=changed,
    )


def rank_of(pairs: list[tuple[float, float]]) -> float | None:
    """Rank correlation of pairs; `None` where there are too few, or all are equal on one side."""
    if len(pairs) < FEWEST_RANKED:
        return None
    ranks = [np.unique(column, return_inverse=True)[1] for column in zip(*pairs, strict=True)]
    midranks = [middle_ranks(each) for each in ranks]
    if any(np.ptp(each) == 0 for each in midranks):
        return None
    return float(np.asarray(np.corrcoef(midranks[0], midranks[1]))[0, 1])


def middle_ranks(order: "np.typing.NDArray[np.intp]") -> "np.typing.NDArray[np.float64]":
    """Ranks in which equal ones share their middle."""
    counts = np.bincount(order)
    ends = np.cumsum(counts)
    return np.asarray((ends - (counts - 1) / 2)[order], dtype=np.float64)


def factor_of(pairs: list[tuple[float, float]]) -> float | None:
    """Median factor between the two of a pair; `None` without any."""
    return float(np.exp(np.median([abs(np.log(a / b)) for a, b in pairs]))) if pairs else None
