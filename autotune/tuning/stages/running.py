"""Searching all tasks of a payload: trials go where most time is to be gained, as many at once as there are slots.

With one slot a trial is proposed when the last one is recorded, so that a resumed run proposes the same configs.
With several, results come in the order they come in: a sweep that is resumed learns all that is in the store first.
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
from autotune.tuning.stages.requests import Asked
from autotune.tuning.stages.roofline import roof_seconds
from autotune.tuning.stages.summary import Ran
from autotune.tuning.stages.task_search import TaskSearch


class Budget(Protocol):
    """How long to search: `TuneOptions`, or what is like it."""

    @property
    def trials(self) -> int:
        """Candidates over all tasks, counting those a store already holds."""
        ...

    @property
    def seconds(self) -> float | None:
        """Seconds after which no trial is begun; `None` for no bound."""
        ...

    @property
    def seed(self) -> int:
        """Seed of the scheduler."""
        ...


def run_on_slots(searches: Sequence[TaskSearch], budget: Budget, slots: Slots, listener: Listener = SILENT) -> Ran:
    """Give trials to tasks until the budget is spent: every default first, then where most time is to be gained.

    Raises:
        MachineError: Nobody is left to evaluate; what is finished is recorded.
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
    """Round in which each search gets its first trial: of every task the first family, then of every task the next.

    Where trials are not enough for all, no task is then left without its most promising ones.
    """
    before: Counter[str] = Counter()
    turns = []
    for search in searches:
        turns.append(before[search.task.tag])
        before[search.task.tag] += 1
    return turns


@dataclass
class SearchRun:
    """Searches in progress, and what is under way.

    Attributes:
        searches: A search a task.
        budget: How long to search.
        slots: Whoever evaluates.
        listener: Notified of trials.
        scheduler: Chooses tasks.
        counted: Trials of the budget that are used up.
        evaluated: Trials that were compiled and run now.
        begun: Time when it began, in seconds of the performance counter.
        under_way: Position of the search, and config, by the number of its job.
        held: Trials that each search's sweep held when it began.
    """

    searches: Sequence[TaskSearch]
    budget: Budget
    slots: Slots
    listener: Listener
    scheduler: Scheduler
    counted: int = 0
    evaluated: int = 0
    begun: float = field(default_factory=time.perf_counter)
    under_way: dict[int, tuple[int, Asked]] = field(default_factory=dict)
    held: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.held = [len(search.sweep.recorded) for search in self.searches]

    def recall(self) -> None:
        """Learn what is in the store."""
        for index, search in enumerate(self.searches):
            for trial in search.recall():
                self.count(index, trial)

    def go(self) -> None:
        """Keep every slot busy until the budget is spent, and hear of all that is under way then."""
        while True:
            self.begin_some()
            if not self.under_way:
                self.learn_from_others()
                return
            number, (found,) = self.slots.wait()
            position, asked = self.under_way.pop(number)
            self.scheduler.records[position].under_way -= 1
            for trial in self.searches[position].tell(asked, found):
                self.evaluated += trial.outcome != "duplicate"
                self.count(position, trial)

    def begin_some(self) -> None:
        """Ask for as many configs as there are free slots."""
        while self.has_room() and (position := self.scheduler.choose()) is not None:
            search = self.searches[position]
            if is_named(search.search.sampler_name):  # external code, which may take a while
                self.listener.stage(f"asking {search.search.sampler_name} for the next config of {search.task.tag}")
            asked = search.ask()
            if asked is None:
                self.scheduler.close(position)
            elif isinstance(asked, Trial):
                self.count(position, asked)
            else:
                self.begin(position, asked)

    def has_room(self) -> bool:
        """Whether the budget and the slots leave room for one more."""
        if self.counted + self.by_others() + len(self.under_way) >= self.budget.trials:
            return False
        late = self.budget.seconds is not None and time.perf_counter() - self.begun > self.budget.seconds
        return not late and len(self.under_way) < self.slots.count()

    def begin(self, index: int, asked: Asked) -> None:
        """Have a config evaluated."""
        try:
            number = self.slots.submit(asked.job)
        except BaseException:
            self.searches[index].drop(asked)
            raise
        self.under_way[number] = index, asked
        self.scheduler.records[index].under_way += 1

    def count(self, index: int, trial: Trial) -> None:
        """Count a finished trial, and let everybody know."""
        search = self.searches[index]
        roof = roof_seconds(search.task, trial.samples, search.machine)
        self.scheduler.learn(index, trial.seconds, roof=roof, cost=sum(trial.phases.values()))
        self.counted += trial.outcome != "duplicate"
        counted, elapsed = self.counted + self.by_others(), time.perf_counter() - self.begun
        self.listener.trial(trial, counted, search.best_seconds)
        left = search_left(counted, self.budget.trials, self.evaluated, elapsed, self.budget.seconds)
        Forecast(len({each.task.tag for each in self.searches}), self.listener).search(left, self.searches)

    def by_others(self) -> int:
        """Trials of the budget that other tuners of the store have used up meanwhile: together they have one budget."""
        return sum(
            trial.outcome != "duplicate"
            for search, held in zip(self.searches, self.held, strict=True)
            for trial in search.unlearned(held)
        )

    def learn_from_others(self) -> None:
        """Learn what other tuners of the store ran meanwhile, so that the fastest of all may be chosen."""
        for search, held in zip(self.searches, self.held, strict=True):
            search.learn_since(held)

    def give_up(self) -> None:
        """Give the claims on what is still under way back."""
        for position, asked in self.under_way.values():
            self.searches[position].drop(asked)
        self.under_way.clear()
