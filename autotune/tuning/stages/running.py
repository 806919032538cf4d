"""Search of all tasks of a payload: a scheduler allocates trials to tasks, and slots evaluate them in parallel.

With one slot, a trial is proposed after the previous one is recorded, so that a resumed run proposes the same configs.
With several, results arrive in any order: a resumed sweep learns all trials of the store first.
"""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from autotune.core.evaluator import Slots
from autotune.core.listener import SILENT, Listener
from autotune.core.trial import Trial
from autotune.tuning.samplers.named_samplers import is_named
from autotune.tuning.samplers.scheduler import Scheduler
from autotune.tuning.stages.forecast import Forecast, search_left
from autotune.tuning.stages.requests import TrialRequest
from autotune.tuning.stages.roofline import roof_seconds
from autotune.tuning.stages.summary import Ran
from autotune.tuning.stages.task_search import TaskSearch


class Budget(Protocol):
    """Budget of a search, such as `TuneOptions`."""

    @property
    def trials(self) -> int:
        """Number of candidates over all tasks, including those in the store."""
        ...

    @property
    def seconds(self) -> float | None:
        """Seconds after which no trial is started; `None` for no limit."""
        ...

    @property
    def seed(self) -> int:
        """Seed of the scheduler."""
        ...


def run_on_slots(searches: Sequence[TaskSearch], budget: Budget, slots: Slots, listener: Listener = SILENT) -> Ran:
    """Run trials until the budget is spent: every task's default first, then by the scheduler.

    Raises:
        MachineError: No evaluator is left; finished trials are recorded.
    """
    scheduler = Scheduler([search.task.count for search in searches], budget.seed, turns_of(searches))
    run = SearchRun(searches, budget, slots, listener, scheduler)
    try:
        if not slots.is_ordered:
            run.recall()
        run.go()
    finally:
        run.give_up()
    own = sum(search.own_seconds for search in searches)
    return Ran(run.evaluated, time.perf_counter() - run.begun, own)


def turns_of(searches: Sequence[TaskSearch]) -> list[int]:
    """Return the round in which each search gets its first trial: first families of all tasks, then the next ones.

    If there are not enough trials for all searches, every task still gets its most promising ones.
    """
    before: Counter[str] = Counter()
    turns = []
    for search in searches:
        turns.append(before[search.task.tag])
        before[search.task.tag] += 1
    return turns


@dataclass
class SearchRun:
    """State of a run of searches, with the trials under evaluation.

    Attributes:
        searches: Searches of the tasks.
        budget: Budget of the search.
        slots: Slots that evaluate candidates.
        listener: Listener of trials.
        scheduler: Scheduler that chooses the next search.
        counted: Trials of the budget that are used up.
        evaluated: Trials that were compiled and run now.
        begun: Start time, in seconds of the performance counter.
        under_way: Position of the search, and request, by the number of its job.
        recorded: Number of trials in each search's sweep at the start.
    """

    searches: Sequence[TaskSearch]
    budget: Budget
    slots: Slots
    listener: Listener
    scheduler: Scheduler
    counted: int = 0
    evaluated: int = 0
    begun: float = field(default_factory=time.perf_counter)
    under_way: dict[int, tuple[int, TrialRequest]] = field(default_factory=dict)
    recorded: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.recorded = [len(search.sweep.recorded) for search in self.searches]

    def recall(self) -> None:
        """Learn all trials of the store."""
        for index, search in enumerate(self.searches):
            for trial in search.recall():
                self.count(index, trial)

    def go(self) -> None:
        """Keep every slot busy until the budget is spent, and wait for the remaining trials."""
        while True:
            self.begin_some()
            if not self.under_way:
                self.learn_from_others()
                return
            number, (evaluation,) = self.slots.wait()
            position, request = self.under_way.pop(number)
            self.scheduler.records[position].under_way -= 1
            for trial in self.searches[position].tell(request, evaluation):
                self.evaluated += trial.outcome != "duplicate"
                self.count(position, trial)

    def begin_some(self) -> None:
        """Submit configs to all free slots."""
        while self.has_room() and (position := self.scheduler.choose()) is not None:
            search = self.searches[position]
            if is_named(search.search.sampler_name):  # external code, which may be slow
                self.listener.stage(f"asking {search.search.sampler_name} for the next config of {search.task.tag}")
            request = search.ask()
            if request is None:
                self.scheduler.close(position)
            elif isinstance(request, Trial):
                self.count(position, request)
            else:
                self.begin(position, request)

    def has_room(self) -> bool:
        """Return whether the budget and the slots allow another trial."""
        if self.counted + self.by_others() + len(self.under_way) >= self.budget.trials:
            return False
        late = self.budget.seconds is not None and time.perf_counter() - self.begun > self.budget.seconds
        return not late and len(self.under_way) < self.slots.count()

    def begin(self, index: int, request: TrialRequest) -> None:
        """Submit a config for evaluation."""
        try:
            number = self.slots.submit(request.job)
        except BaseException:
            self.searches[index].drop(request)
            raise
        self.under_way[number] = index, request
        self.scheduler.records[index].under_way += 1

    def count(self, index: int, trial: Trial) -> None:
        """Count a finished trial, and notify the scheduler and the listener."""
        search = self.searches[index]
        roof = roof_seconds(search.task, trial.samples, search.machine)
        self.scheduler.learn(index, trial.seconds, roof=roof, cost=sum(trial.phases.values()))
        self.counted += trial.outcome != "duplicate"
        counted, elapsed = self.counted + self.by_others(), time.perf_counter() - self.begun
        self.listener.trial(trial, counted, search.best_seconds)
        left = search_left(counted, self.budget.trials, self.evaluated, elapsed, self.budget.seconds)
        Forecast(len({each.task.tag for each in self.searches}), self.listener).search(left, self.searches)

    def by_others(self) -> int:
        """Return the trials of the shared budget that other tuners of the store have used up meanwhile."""
        return sum(
            trial.outcome != "duplicate"
            for search, count in zip(self.searches, self.recorded, strict=True)
            for trial in search.unlearned(count)
        )

    def learn_from_others(self) -> None:
        """Learn the trials that other tuners of the store ran meanwhile, so that the fastest of all may be chosen."""
        for search, count in zip(self.searches, self.recorded, strict=True):
            search.learn_since(count)

    def give_up(self) -> None:
        """Release the claims on unfinished trials."""
        for position, request in self.under_way.values():
            self.searches[position].drop(request)
        self.under_way.clear()
