"""Progress of searches: best time so far over the trials, stored as the trials that were an improvement."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

Curve = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Course:
    """Best time so far over the trials of one search.

    Attributes:
        trials: Number of trials of the search.
        improvements: Indices from 0 of the trials that were faster than all before them, ascending.
        seconds: Time of each improvement in seconds per call, drift divided out, descending.
    """

    trials: int
    improvements: tuple[int, ...]
    seconds: tuple[float, ...]

    def at(self, positions: npt.NDArray[np.int64]) -> Curve:
        """Return the best time after the trials at some indices, in seconds per call; NaN before the first success."""
        counts = np.searchsorted(np.array(self.improvements, dtype=np.int64), positions, side="right")
        return np.concatenate(([np.nan], self.seconds))[counts]


def best_so_far(rows: pd.DataFrame) -> Curve:
    """Return the best time after each trial in seconds per call, drift divided out; NaN before the first success."""
    ordered = rows.sort_values("number", kind="stable")
    seconds = ordered["seconds_normalised"].where(ordered["outcome"] == "ok")
    return np.asarray(seconds.cummin().ffill(), dtype=np.float64)


def course_of(rows: pd.DataFrame) -> Course:
    """Compute the course of a search.

    Args:
        rows: Trials of the search, one row each.

    Example:
        >>> trials = {"number": [0, 1, 2], "outcome": ["crashed", "ok", "ok"], "seconds_normalised": [None, 2.0, 1.0]}
        >>> course_of(pd.DataFrame(trials))
        Course(trials=3, improvements=(1, 2), seconds=(2.0, 1.0))
    """
    curve = best_so_far(rows)
    known = np.where(np.isnan(curve), np.inf, curve)
    improvements = np.flatnonzero(known < np.concatenate(([np.inf], known[:-1])))
    return Course(len(curve), tuple(improvements.tolist()), tuple(curve[improvements].tolist()))


def speed_shares(courses: Sequence[Course], columns: int) -> Curve:
    """Return the geometric mean over searches of the best speed so far, relative to each search's final speed.

    Args:
        courses: Courses of the searches; those without a success are ignored.
        columns: Number of positions from the first to the last trial of the longest search; shorter ones are stretched.

    Returns:
        Mean share at each position; a single NaN if nothing succeeded.
    """
    known = [course for course in courses if course.improvements]
    if not known:
        return np.array([np.nan])
    longest = max(course.trials for course in known)
    picked = np.linspace(0, longest - 1, columns).round() / max(1, longest - 1)
    stretched = [course.at((picked * (course.trials - 1)).round().astype(np.int64)) for course in known]
    shares = [course.seconds[-1] / seconds for course, seconds in zip(known, stretched, strict=True)]
    return np.asarray(np.exp(np.mean(np.log(np.nan_to_num(shares, nan=1e-9)), axis=0)))
