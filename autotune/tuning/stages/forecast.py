"""How long a run still takes, all of it: the search, then finalists, baseline, assembly and proof.

The search is expected to go on as fast as it went, and the finalists of later tasks to take as long as those of the
tasks before. Until then what follows the search is expected to take what it took for the nano GPT, on two machines.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter

from autotune.core.listener import SILENT, Listener
from autotune.tuning.stages.task_search import TaskSearch

FINALISTS_SECONDS = 4.0  # of a task
BASELINE_SECONDS, WHOLE_SECONDS, SESSIONS_SECONDS, RECORD_SECONDS = 3.0, 6.0, 7.0, 4.0
PROOF = (BASELINE_SECONDS, WHOLE_SECONDS, SESSIONS_SECONDS, RECORD_SECONDS)  # stages after the finalists, in order


@dataclass
class Forecast:
    """What is left of a run.

    Attributes:
        tasks: Tasks whose finalists race.
        listener: Told after each step.
        begun: Time when the finalists began, in seconds of the performance counter; 0 before.
        raced: Tasks whose finalists have raced.
    """

    tasks: int
    listener: Listener = SILENT
    begun: float = 0.0
    raced: int = field(default=0)

    def search(self, left: float, searches: Sequence[TaskSearch]) -> None:
        """Return what is left of a search that still takes `left` seconds."""
        self.listener.forecast(left + self.tasks * FINALISTS_SECONDS + sum(PROOF), whole_seconds(searches))

    def race(self) -> None:
        """Return what is left when the finalists of another task begin to race."""
        now = perf_counter()
        self.begun = self.begun or now
        each = (now - self.begun) / self.raced if self.raced else FINALISTS_SECONDS
        self.listener.forecast((self.tasks - self.raced) * each + sum(PROOF), None)
        self.raced += 1

    def prove(self, stage: int) -> None:
        """Return what is left when a stage of `PROOF` begins."""
        self.listener.forecast(sum(PROOF[stage:]), None)


def search_left(counted: int, trials: int, evaluated: int, elapsed: float, seconds: float | None) -> float:
    """Seconds that a search still takes.

    Args:
        counted: Trials of the budget that are used up.
        trials: Trials of the budget.
        evaluated: Trials that were run now.
        elapsed: Seconds of the search so far.
        seconds: Seconds that it may take; `None` for no bound.

    >>> search_left(10, 40, 5, 10.0, None), search_left(10, 40, 5, 10.0, 25.0)
    (60.0, 15.0)
    """
    left = max(0, trials - counted) * elapsed / max(1, evaluated)
    return left if seconds is None else min(left, max(0.0, seconds - elapsed))


def whole_seconds(searches: Sequence[TaskSearch]) -> float | None:
    """Seconds of a call of the whole with the best config of every task so far; `None` until each task has one."""
    best: dict[str, float] = {}
    tags = {search.task.tag for search in searches}
    for search in searches:
        if search.best_seconds is not None:
            seconds = search.task.count * search.best_seconds
            best[search.task.tag] = min(seconds, best.get(search.task.tag, seconds))
    return sum(best.values()) if tags and len(best) == len(tags) else None
