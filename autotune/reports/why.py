"""Reasons of a search: the sampler that proposed each config, the predicted time, and the measured one."""

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

FEWEST_RANKED = 3  # trials needed for a rank correlation


@dataclass(frozen=True)
class TrialReason:
    """One trial, and why it was proposed.

    Attributes:
        number: Index in the search, from 0.
        by: Name of the sampler that proposed it; empty if not recorded.
        expected: Predicted time in seconds per call; `None` if no model predicted it.
        low: Predicted time minus one standard deviation.
        high: Predicted time plus one standard deviation.
        drafted: Number of configs that it was chosen from; 0 if there was no choice.
        seconds: Time in seconds per call, drift divided out; a duplicate has its original's; `None` if it failed.
        outcome: Outcome of the trial.
        changed: Knobs that differ from the best config before it, or from the default config at first.
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
    """Reasons of the search of one task.

    Attributes:
        payload: Name of the payload.
        task: Readable name of the task.
        trials: Trials in chronological order.
        refused: Number of rejected proposals by reason: ``constraint``, ``duplicate``.
        rank: Spearman rank correlation of predicted and measured times; `None` with too few trials.
        off: Median ratio of predicted and measured times, inverted if below 1; `None` if nothing was predicted.
    """

    payload: str
    task: str
    trials: tuple[TrialReason, ...]
    refused: dict[str, int]
    rank: float | None
    off: float | None

    def to_json(self) -> dict[str, Any]:
        """Return the reasons as a JSON object."""
        return asdict(self)


def read_reasons(location: str | Path, payload: str | None = None) -> list[SearchReasons]:
    """Read the reasons of all searches in a store.

    Args:
        location: Path or database URL.
        payload: Name of the payload to restrict sweeps to.

    Raises:
        StoreError: The store is missing or damaged, or has no trial of that payload.
    """
    with Store.read(location) as store:
        sweeps = [sweep for sweep in store.sweeps() if payload in (None, sweep.about["payload"])]
        reasons = [reasons_of(sweep) for sweep in sweeps if sweep.recorded]
    if not reasons:
        trials = f"trials of {payload!r}" if payload is not None else "trials"
        raise StoreError(f"the store must hold {trials} for --why, it holds none; run `autotune tune` first")
    return reasons


def reasons_of(sweep: Sweep) -> SearchReasons:
    """Collect the reasons of one search."""
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
    """Convert a trial to a row."""
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
    """Return the Spearman rank correlation of pairs; `None` if there are too few, or one side is constant."""
    if len(pairs) < FEWEST_RANKED:
        return None
    ranks = [np.unique(column, return_inverse=True)[1] for column in zip(*pairs, strict=True)]
    midranks = [middle_ranks(each) for each in ranks]
    if any(np.ptp(each) == 0 for each in midranks):
        return None
    return float(np.asarray(np.corrcoef(midranks[0], midranks[1]))[0, 1])


def middle_ranks(order: "np.typing.NDArray[np.intp]") -> "np.typing.NDArray[np.float64]":
    """Return midranks: equal values share the mean of their ranks."""
    counts = np.bincount(order)
    ends = np.cumsum(counts)
    return np.asarray((ends - (counts - 1) / 2)[order], dtype=np.float64)


def factor_of(pairs: list[tuple[float, float]]) -> float | None:
    """Return the median ratio within pairs, inverted if below 1; `None` without pairs."""
    return float(np.exp(np.median([abs(np.log(a / b)) for a, b in pairs]))) if pairs else None
