"""Which task gets the next trial: the one with the largest expected improvement of the whole model.

The acquisition value of a task is count x (expected gain in seconds a call), estimated from its results as in Ansor's
task scheduler (Zheng et al., OSDI 2020, section 6): what its best time fell by lately, and an optimistic bound that
fades with the trials it has had. Two things differ: a time cannot fall below the task's roof, and the value is
divided by the square root of what a trial costs, between most gain a trial and most gain a second.

Nothing is read but the results, in their order: a search that resumes from a store decides as it did before.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

# Weight of the recent past against the optimistic bound; Ansor's.
RECENT = 0.2
# Share of trials that go to the task with the fewest, whatever its acquisition value.
EPSILON = 0.05
# However near its roof a task seems, this part of its time may still be gained: roofs and times are measured.
LEAST_ROOM = 0.02


@dataclass
class Record:
    """What is known of one task.

    Attributes:
        count: Number of times one call of the whole model runs the task.
        bests: Fastest seconds a call after each trial; infinite before the first success.
        roof: Seconds a call that cannot be beaten; 0 where that is not known.
        runs: Number of trials that were compiled and run.
        run_seconds: Seconds that those trials took together.
        is_open: Whether configs are left to try.
        under_way: Number of trials that were given to it and are not finished.
    """

    count: int
    bests: list[float] = field(default_factory=list)
    roof: float = 0.0
    runs: int = 0
    run_seconds: float = 0.0
    is_open: bool = True
    under_way: int = 0

    @property
    def trials(self) -> int:
        """How many it has had; one that is under way counts as one that will find nothing better."""
        return len(self.bests) + self.under_way

    @property
    def best(self) -> float:
        """Fastest seconds a call; infinite before the first success."""
        return self.bests[-1] if self.bests else math.inf

    @property
    def cost(self) -> float:
        """Mean seconds of a trial; 1 before any was run."""
        return self.run_seconds / self.runs if self.runs else 1.0

    def expected_gain(self) -> float:
        """Seconds a call that one more trial may save."""
        window = max(1, self.trials // 2)
        before = self.bests[min(max(0, self.trials - 1 - window), len(self.bests) - 1)]
        recent = (before - self.best) / window if math.isfinite(before) else 0.0
        room = max(self.best - self.roof, LEAST_ROOM * self.best)
        optimistic = min(self.best / self.trials, room / math.sqrt(self.trials))
        return RECENT * recent + (1 - RECENT) * optimistic


class Scheduler:
    """Gives trials to tasks. The same seed and the same results give the same choices."""

    def __init__(self, counts: Sequence[int], seed: int = 0, turns: Sequence[int] = ()) -> None:
        """Begin with no results.

        Args:
            counts: Number of times one call of the whole model runs each task.
            seed: Seed of the exploration.
            turns: Round in which each task gets its first trial; all in one where it is empty.
        """
        self.records = [Record(count) for count in counts]
        self._turns = turns or [0] * len(self.records)
        self._random = random.Random(seed)

    def choose(self) -> int | None:
        """Position of the task that gets the next trial: each its first, by turns; `None` if all are exhausted."""
        open_ones = [position for position, record in enumerate(self.records) if record.is_open]
        if not open_ones:
            return None
        fewest = min(open_ones, key=lambda position: (self.records[position].trials, self._turns[position]))
        if self.records[fewest].trials == 0 or self._random.random() < EPSILON:
            return fewest
        return max(open_ones, key=self.promise)

    def promise(self, index: int) -> float:
        """Seconds a call of the whole model that the next trial of a task may save, by the root of its cost.

        A task of which nothing has worked yet counts as the heaviest, with all to gain: its plain lowering is slow.
        """
        record = self.records[index]
        if math.isfinite(record.best):
            gain = record.count * record.expected_gain()
        else:
            known = [r.count * r.best for r in self.records if math.isfinite(r.best)]
            gain = max(known, default=1.0) / record.trials
        return gain / math.sqrt(record.cost)

    def learn(self, index: int, seconds: float | None, *, roof: float = 0.0, cost: float = 0.0) -> None:
        """Record the result of a trial.

        Args:
            index: Position of the task.
            seconds: Seconds a call; `None` if it failed.
            roof: Seconds a call that cannot be beaten, by the same measurement; 0 if that is not known.
            cost: Seconds the trial took; 0 if it was not run.
        """
        record = self.records[index]
        best = record.best
        if seconds is not None and seconds < best:
            best, record.roof = seconds, roof
        record.bests.append(best)
        if cost > 0:
            record.runs += 1
            record.run_seconds += cost

    def close(self, position: int) -> None:
        """Record that a task has no config left: its trials go to others."""
        self.records[position].is_open = False
