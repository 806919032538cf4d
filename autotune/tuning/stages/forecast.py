"""Forecast of the remaining time of a run: the search, then finalists, baseline, assembly and proof.

The search is extrapolated at its rate so far, and the finalists of later tasks at that of earlier ones. Before there is
such data, the stages after the search are assumed to take what they took for the nano GPT on two machines; the proof is
scaled by the same factor as the finalists.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

from autotune.core.listener import SILENT, Listener
from autotune.tuning.stages.task_search import TaskSearch

FINALISTS_SECONDS = 4.0  # of a task
BASELINE_SECONDS, WHOLE_SECONDS, SESSIONS_SECONDS, RECORD_SECONDS = 3.0, 6.0, 7.0, 4.0
PROOF = (BASELINE_SECONDS, WHOLE_SECONDS, SESSIONS_SECONDS, RECORD_SECONDS)  # stages after the finalists, in order


@dataclass
class Forecast:
    """Forecast of the remaining time of a run.

    Attributes:
        tasks: Number of tasks whose finalists race.
        listener: Listener that gets each forecast.
        begun: Start of the finalists, in seconds of the performance counter; 0 before.
        raced: Number of tasks whose finalists have started to race.
        pace: Measured over assumed seconds of the finalists; 1 before there is a measurement.
    """

    tasks: int
    listener: Listener = SILENT
    begun: float = 0.0
    raced: int = 0
    pace: float = 1.0

    def search(self, left: float, searches: Sequence[TaskSearch]) -> None:
        """Report the remaining time of a run whose search still takes `left` seconds."""
        self.listener.forecast(left + self.tasks * FINALISTS_SECONDS + sum(PROOF), whole_seconds(searches))

    def race(self) -> None:
        """Report the remaining time when the finalists of another task start to race."""
        self.begun = self.begun or perf_counter()
        self._measure_pace()
        left = (self.tasks - self.raced) * FINALISTS_SECONDS + sum(PROOF)
        self.listener.forecast(self.pace * left, None)
        self.raced += 1

    def prove(self, stage: int) -> None:
        """Report the remaining time when a stage of `PROOF` starts."""
        if stage == 0:
            self._measure_pace()
        self.listener.forecast(self.pace * sum(PROOF[stage:]), None)

    def _measure_pace(self) -> None:
        """Update the pace from the finalists that have raced."""
        if self.raced:
            self.pace = (perf_counter() - self.begun) / self.raced / FINALISTS_SECONDS


def search_left(counted: int, trials: int, evaluated: int, elapsed: float, seconds: float | None) -> float:
    """Estimate the remaining seconds of a search.

    Args:
        counted: Trials of the budget that are used up.
        trials: Trials of the budget.
        evaluated: Trials that were run in this search.
        elapsed: Elapsed seconds of the search.
        seconds: Time limit of the search in seconds; `None` for no limit.

    >>> search_left(10, 40, 5, 10.0, None), search_left(10, 40, 5, 10.0, 25.0)
    (60.0, 15.0)
    """
    left = max(0, trials - counted) * elapsed / max(1, evaluated)
    return left if seconds is None else min(left, max(0.0, seconds - elapsed))


def whole_seconds(searches: Sequence[TaskSearch]) -> float | None:
    """Return the seconds a call of the whole with the best configs so far; `None` until each task has one."""
    best: dict[str, float] = {}
    tags = {search.task.tag for search in searches}
    for search in searches:
        if search.best_seconds is not None:
            seconds = search.task.count * search.best_seconds
            best[search.task.tag] = min(seconds, best.get(search.task.tag, seconds))
    return sum(best.values()) if tags and len(best) == len(tags) else None
