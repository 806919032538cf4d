"""Error budget of the whole: a greedy choice of the tasks that round their operands, for the largest saving of time.

Every task starts with its fastest candidate. The error of the whole is measured, and the error of each task alone, on
its own inputs. Errors of tasks are combined as independent ones, by the root of the sum of squares, and scaled by one
factor to the measured error of the whole. Tasks then step back to more exact candidates, the least time for the error
saved first, until the estimate fits the budget, and then until the measured error of the whole does, on fresh inputs.

Compiling a whole model takes half a minute, and a task a second: the whole is measured a few times, not for each task.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from math import inf, isfinite

from autotune.core.listener import Listener
from autotune.core.plugs.family import Family
from autotune.core.stats import quiet_time
from autotune.core.task import Task
from autotune.registry import roof_of_family
from autotune.tuning.result import Spent
from autotune.tuning.stages.agreement import Allowed, Errors, limits_of
from autotune.tuning.stages.choose import Choice

FRESH = 3  # offset to an unused seed: searches use 0, finalists 1; odd, since models record inputs of two seeds
HALFWAY = 3  # every third measurement bisects the remaining steps, instead of following the estimate
ELSEWHERE = 3.0  # factor over the measured error that is allowed on other inputs


def rounding_here(
    families: Iterable[Family], error: float, rates: Mapping[str, float]
) -> tuple[tuple[Family, ...], tuple[str, ...]]:
    """Return the rounding families that compete, and notes on why others do not, a sentence each.

    Families whose rounding error is within that of the whole come first, then those with the fastest instruction: there
    may not be enough trials for all.

    Args:
        families: Families that round operands and cover a task.
        error: Allowed error of the whole; 0 for no rounding.
        rates: Roofs of this machine, by names of fields of `autotune.core.host.machine.Roofs`.
    """
    candidates = [family for family in families if error and not family.asked]
    against = {family.name: family.lacking or why_too_slow(family, rates) for family in candidates}
    notes = dict.fromkeys(filter(None, against.values()))
    able = [family for family in candidates if not against[family.name]]

    def order(family: Family) -> tuple[bool, float]:
        return family.error > error, -(roof_of_family(family.name, rates) or 0.0)

    return tuple(sorted(able, key=order)), tuple(notes)


def why_too_slow(family: Family, rates: Mapping[str, float]) -> str:
    """Return a sentence on why a precision saves no time here; empty if it may, or if the roofs are not known."""
    roof, plain = roof_of_family(family.name, rates), rates.get("flops")
    if not roof or not plain or roof > plain:
        return ""
    return f"{family.name} is left out: its instruction reaches {roof / plain:.2f} x the rate of f32 on this machine"


def what_is_left(tasks: Iterable[Task], able: Iterable[Family], rates: Mapping[str, float]) -> str:
    """Return a sentence on what an error budget would gain for tasks with 16-bit weights; empty if nothing.

    Args:
        tasks: Tasks, none of which may round.
        able: Families that round operands.
        rates: Roofs of this machine, by names of fields of `autotune.core.host.machine.Roofs`.
    """
    halves = [task for task in tasks if any(c.stored_b.endswith("f16") for c in task.contractions)]
    gains = {family: (roof_of_family(family.name, rates) or 0.0) / rates.get("flops", inf) for family in able}
    fast = [family for family in gains if any(map(family.covers, halves)) and not family.asked and not family.lacking]
    best = max(fast, key=gains.__getitem__, default=None)
    if best is None or gains[best] <= 1:
        return ""
    return (
        f"weights of {len(halves)} tasks are stored in 16 bits, and multiplied in f32; --error 1e-2 allows products of "
        f"less ({best.name}: {gains[best]:.1f} x the rate of f32 on this machine)"
    )


def choose_precisions(
    choices: Sequence[Choice], allowed: Allowed, errors: Errors, seed: int, listener: Listener
) -> tuple[list[Choice], Spent | None, tuple[str, ...]]:
    """Choose a precision for each task, so that the whole keeps its error budget.

    Args:
        choices: Fastest choice of each task, with its alternatives.
        allowed: Error that rounding may make.
        errors: Measurement of errors of the whole.
        seed: Seed of the search.
        listener: Listener of the stage.

    Returns:
        The choices, the spent budget (`None` if nothing is rounded), and notes.
    """
    if not allowed.room:
        return list(choices), None, ()
    listener.stage("spending the error budget")
    plan = GreedyRelaxation([PrecisionChoices.of(choice) for choice in choices], errors, seed)
    spent = fewest_steps(plan, allowed.room, lambda: spent_by(plan, allowed, errors, seed))
    spent = spend_rest(plan, allowed.room, lambda: spent_by(plan, allowed, errors, seed), spent)
    if spent is None:
        faster = any(is_rounded(choice) for task in plan.tasks for choice in task.choices)
        limits = limits_of(allowed)
        why = f"none that is faster keeps {limits}" if faster else f"none that may keep {limits} was faster than in f32"
        return plan.chosen, None, (f"no task rounds its operands: {why}",)
    plan.learn(spent.spent)
    alone = {choice.search.task.tag: plan.share(i) for i, choice in enumerate(plan.chosen) if is_rounded(choice)}
    return plan.chosen, replace(spent, tasks=alone), ()


def fewest_steps(
    plan: "GreedyRelaxation", room: float, measured: Callable[[], tuple[float, Spent | None]]
) -> Spent | None:
    """Find the fewest steps back after which the whole keeps the allowed error, and return what it then spends.

    Measuring is slow, and errors of single tasks are a rough estimate: the error of the whole is below their sum, less
    so for coarser tasks. Therefore the path is searched by bracketing: between the last step known to be too few and
    the first known to be enough, the first step whose estimate, scaled to the last measurement, fits is measured, and
    every third time the middle one. The end of the path, where no task rounds, is always enough: the result is `None`.

    Args:
        plan: Relaxation at the fastest candidates; on return, at the chosen ones.
        room: Allowed error.
        measured: Function that measures the error of the whole with the current candidates, and returns it with what
            is spent, or `None` if it is not allowed.
    """
    path = plan.path()
    short, enough, spent, step = -1, len(path) - 1, None, 0
    for turn in count(1):
        if enough - short < 2:  # the bracket is empty
            break
        plan.positions = path[step]
        error, within = measured()
        plan.learn(error)
        if within is None:
            short = step
        else:
            enough, spent = step, within
        fits = (i for i in range(short + 1, enough) if plan.expected_of(path[i]) <= room)
        step = (short + enough) // 2 if turn % HALFWAY == 0 else next(fits, enough - 1)
    plan.positions = path[enough]
    return spent


def spend_rest(
    plan: "GreedyRelaxation", room: float, measured: Callable[[], tuple[float, Spent | None]], spent: Spent | None
) -> Spent | None:
    """Move tasks back to faster candidates as far as the remaining budget allows, and return what the whole spends.

    The last step back may be that of the task with most of the error, so that earlier steps were unnecessary.

    Args:
        plan: Relaxation at the chosen candidates; on return, at the final ones.
        room: Allowed error.
        measured: Function that measures the error of the whole with the current candidates, and returns it with what
            is spent, or `None` if it is not allowed.
        spent: Budget spent so far.
    """
    before, steps = plan.positions, plan.way_up(room)
    while steps:
        plan.positions = steps[-1]
        error, within = measured()
        plan.learn(error)
        if within is not None:
            return within
        steps = steps[: len(steps) // 2]
    plan.positions = before
    return spent


def spent_by(plan: "GreedyRelaxation", allowed: Allowed, errors: Errors, seed: int) -> tuple[float, Spent | None]:
    """Measure the error of the whole on unseen inputs; return it, and what is spent, or `None` if it is not allowed."""
    spent = max(errors.of(plan.chosen, each) for each in (seed, seed + FRESH))
    if spent > allowed.room:
        return spent, None
    error = allowed.error or min(allowed.room, ELSEWHERE * spent)
    if not allowed.agreement:
        return spent, Spent(error, spent)
    agrees, rows = errors.agreement(plan.chosen, seed + FRESH)
    record = Spent(error, spent, {}, allowed.agreement, agrees, rows) if agrees >= allowed.agreement else None
    return spent, record


def rounding(choice: Choice) -> float:
    """Return the relative rounding error of a choice's family; 0 for an exact one, and for the plain lowering."""
    return choice.search.family.error if choice.config is not None else 0.0


def is_rounded(choice: Choice) -> bool:
    """Return whether a choice rounds operands."""
    return rounding(choice) > 0


def seconds_of(choice: Choice) -> float:
    """Return the seconds of a task in a call of the whole with a choice, by the lower quartile of its samples."""
    return choice.search.task.count * (quiet_time(choice.samples.seconds) if choice.samples is not None else 0.0)


@dataclass(frozen=True)
class PrecisionChoices:
    """Precision candidates of a task, the most exact first, each faster than those before.

    Attributes:
        choices: Choice of each precision.
    """

    choices: tuple[Choice, ...]

    @classmethod
    def of(cls, choice: Choice) -> "PrecisionChoices":
        """Return the precision candidates among a choice and its measured alternatives."""
        candidates: list[Choice] = []
        for each in with_rivals((choice, *choice.others)):
            if not candidates or (each.samples is not None and seconds_of(each) < seconds_of(candidates[-1])):
                candidates.append(each)
        if is_rounded(candidates[0]):
            candidates.insert(0, replace(candidates[0], config=None, samples=None))  # the plain lowering
        return cls(tuple(candidates))


def with_rivals(choices: Sequence[Choice]) -> list[Choice]:
    """Return the choices of one task, the most exact first, each with the times of all others as rivals."""
    timed = [(each, each.search.family.name, each.samples) for each in sorted(choices, key=rounding)]
    return [
        replace(mine, rivals=tuple((name, samples) for each, name, samples in timed if each is not mine and samples))
        for mine, _, _ in timed
    ]


@dataclass
class GreedyRelaxation:
    """Greedy relaxation: every task starts with its fastest candidate, and steps back to more exact ones.

    The errors of single tasks determine the order of the steps, and an estimate of the error of the whole.

    Attributes:
        tasks: Precision candidates of every task.
        errors: Measurement of errors.
        seed: Seed of the search.
        positions: Index of the current candidate of every task.
        scale: Ratio of the last measured error of the whole to its estimate.
    """

    tasks: list[PrecisionChoices]
    errors: Errors
    seed: int
    positions: list[int] = field(default_factory=list)
    scale: float = 1.0
    _alone: dict[tuple[int, int], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.positions = [len(task.choices) - 1 for task in self.tasks]

    @property
    def chosen(self) -> list[Choice]:
        """Current choice of every task."""
        return [task.choices[index] for task, index in zip(self.tasks, self.positions, strict=True)]

    def alone(self, task: int, index: int | None = None) -> float:
        """Return the error of one task with a candidate, by default the current one, measured on its own inputs.

        It is multiplied by the square root of the number of its calls, as errors of calls are combined as independent.
        """
        index = self.positions[task] if index is None else index
        choice = self.tasks[task].choices[index]
        if not is_rounded(choice):
            return 0.0
        if (task, index) not in self._alone:
            error = self.errors.own(choice, self.seed + FRESH)
            self._alone[task, index] = error * float(choice.search.task.count) ** 0.5
        return self._alone[task, index]

    def share(self, task: int) -> float:
        """Return the estimated contribution of a task to the error of the whole; their squares add up to its square."""
        return self.scale * self.alone(task)

    def summed(self, positions: Sequence[int]) -> float:
        """Return the root of the sum of squares of the tasks' errors with some candidates."""
        return float(sum(self.alone(task, index) ** 2 for task, index in enumerate(positions)) ** 0.5)

    def expected_of(self, positions: Sequence[int]) -> float:
        """Return the estimated error of the whole with some candidates."""
        return self.scale * self.summed(positions)

    def learn(self, error: float) -> None:
        """Scale the estimates to the measured error of the whole with the current candidates."""
        summed = self.summed(self.positions)
        if summed and isfinite(summed) and isfinite(error):
            self.scale = error / summed

    def path(self) -> list[list[int]]:
        """Return the positions step by step, from the current ones to where no task rounds.

        Each step is that of the task with the least time lost for the error saved.
        """
        steps = [[*self.positions]]
        while True:
            now = steps[-1]
            able = [task for task, index in enumerate(now) if is_rounded(self.tasks[task].choices[index])]
            if not able:
                return steps
            cheapest = min(able, key=lambda task: self.price(task, now[task]))
            steps.append([index - (task == cheapest) for task, index in enumerate(now)])

    def way_up(self, room: float) -> list[list[int]]:
        """Return the positions step by step towards faster candidates, while the estimated error is within `room`.

        Each step is that of the task with the most time saved for the error added.
        """
        steps, now = list[list[int]](), self.positions
        while True:
            ahead = {
                task: [each + (position == task) for position, each in enumerate(now)]
                for task, index in enumerate(now)
                if index + 1 < len(self.tasks[task].choices)
            }
            able = [task for task, positions in ahead.items() if self.expected_of(positions) <= room]
            if not able:
                return steps
            now = ahead[max(able, key=lambda task: self.price(task, ahead[task][task]))]
            steps.append(now)

    def price(self, task: int, index: int) -> float:
        """Return the time lost by a task's step back from a candidate, divided by the squared error saved."""
        choices = self.tasks[task].choices
        slower = seconds_of(choices[index - 1]) - seconds_of(choices[index])
        regained = self.alone(task, index) ** 2 - self.alone(task, index - 1) ** 2
        return slower / regained if regained > 0 else float("inf")
