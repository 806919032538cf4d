"""`Scheduler`: allocates the next trial to the task with the largest expected improvement of the whole model.

The acquisition value of a task is count x (expected gain in seconds a call), estimated from its results as in Ansor's
task scheduler (Zheng et al., OSDI 2020, section 6): the recent decrease of its best time, and an optimistic bound that
decays with the number of its trials. There are two differences: a time is bounded from below by the task's roof, and
the value is divided by the square root of a trial's cost, between gain a trial and gain a second.

Decisions depend only on the results, in their order: a search that resumes from a store repeats them.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

# Weight of the recent decrease against the optimistic bound, from Ansor.
RECENT = 0.2
# Share of trials that go to the task with the fewest trials (epsilon-greedy).
EPSILON = 0.05
# Least share of a task's time that may still be gained, since roofs and times have measurement errors.
LEAST_ROOM = 0.02


@dataclass
class Record:
    """Trial history of one task.

    Attributes:
        count: Number of times one call of the whole model executes the task.
        bests: Best seconds a call after each trial; infinite before the first success.
        roof: Lower bound of the seconds a call, by the roofline; 0 where it is not known.
        runs: Number of trials that were compiled and run.
        run_seconds: Total duration of those trials, in seconds.
        is_open: Whether configs are left to try.
        under_way: Number of its unfinished trials.
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
        """Number of trials, including unfinished ones, which count as bringing no improvement."""
        return len(self.bests) + self.under_way

    @property
    def best(self) -> float:
        """Best seconds a call; infinite before the first success."""
        return self.bests[-1] if self.bests else math.inf

    @property
    def cost(self) -> float:
        """Mean duration of a trial in seconds; 1 before any was run."""
        return self.run_seconds / self.runs if self.runs else 1.0

    def expected_gain(self) -> float:
        """Return the seconds a call that one more trial is expected to save."""
        window = max(1, self.trials // 2)
        before = self.bests[min(max(0, self.trials - 1 - window), len(self.bests) - 1)]
        recent = (before - self.best) / window if math.isfinite(before) else 0.0
        room = max(self.best - self.roof, LEAST_ROOM * self.best)
        optimistic = min(self.best / self.trials, room / math.sqrt(self.trials))
        return RECENT * recent + (1 - RECENT) * optimistic


class Scheduler:
    """Allocates trials to tasks. It is deterministic: the same seed and results give the same choices."""

    def __init__(self, counts: Sequence[int], seed: int = 0, turns: Sequence[int] = ()) -> None:
        """Start without results.

        Args:
            counts: Number of times one call of the whole model executes each task.
            seed: Seed of the exploration.
            turns: Round in which each task gets its first trial; empty for a single round.
        """
        self.records = [Record(count) for count in counts]
        self._turns = turns or [0] * len(self.records)
        self._random = random.Random(seed)

    def choose(self) -> int | None:
        """Return the position of the task that gets the next trial; `None` if all are exhausted.

        Every task gets a first trial, in the order of its turns, before acquisition values are compared.
        """
        candidates = [position for position, record in enumerate(self.records) if record.is_open]
        if not candidates:
            return None
        fewest = min(candidates, key=lambda position: (self.records[position].trials, self._turns[position]))
        if self.records[fewest].trials == 0 or self._random.random() < EPSILON:
            return fewest
        return max(candidates, key=self.acquisition)

    def acquisition(self, index: int) -> float:
        """Return the acquisition value of a task: expected gain of the whole, over the square root of a trial's cost.

        A task without any success counts as the heaviest one, with all its time to gain: its plain lowering is slow.
        """
        record = self.records[index]
        if math.isfinite(record.best):
            gain = record.count * record.expected_gain()
        else:
            times = [r.count * r.best for r in self.records if math.isfinite(r.best)]
            gain = max(times, default=1.0) / record.trials
        return gain / math.sqrt(record.cost)

    def learn(self, index: int, seconds: float | None, *, roof: float = 0.0, cost: float = 0.0) -> None:
        """Record the result of a trial.

        Args:
            index: Position of the task.
            seconds: Seconds a call; `None` if it failed.
            roof: Lower bound of the seconds a call, from the same measurement; 0 if unknown.
            cost: Duration of the trial in seconds; 0 if it was not run.
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
        """Record that a task has no configs left."""
        self.records[position].is_open = False
