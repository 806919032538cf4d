"""The error budget of a whole: which tasks may round what they multiply, so that most time is saved.

Every task begins with what is fastest. What the whole is off then is measured, and what each task alone is off, on its
own inputs; errors of several add up as those of independent causes do, by their squares, and what is between their sum
and the whole's error holds for each. Steps back to more exact candidates are taken where they cost least time for the
error that is regained, first until the sum fits the budget, then until the whole does, on fresh inputs.

A whole model takes half a minute to compile, and a task a second: the whole is measured a few times, not once a task.
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

FRESH = 3  # beyond the seed of the search, and the one that finalists race on; odd: models record inputs of two seeds
HALFWAY = 3  # every such measurement is halfway between what is known to be too little and to be enough
ELSEWHERE = 3.0  # times the error that was measured, which other inputs may have then


def rounding_here(
    families: Iterable[Family], error: float, rates: Mapping[str, float]
) -> tuple[tuple[Family, ...], tuple[str, ...]]:
    """Families that round operands, where an error is allowed, and why others do not compete, a sentence each.

    Those that round no coarser than the whole may be off come first, and of these those whose instruction is the
    fastest: trials may not be enough for all.

    Args:
        families: Those that could.
        error: Room for the error of the whole; none competes without.
        rates: Roofs of this machine, by names of fields of `autotune.core.host.machine.Roofs`.
    """
    found = [family for family in families if error and not family.asked]
    against = {family.name: family.lacking or why_too_slow(family, rates) for family in found}
    notes = dict.fromkeys(filter(None, against.values()))
    able = [family for family in found if not against[family.name]]

    def order(family: Family) -> tuple[bool, float]:
        return family.error > error, -(roof_of_family(family.name, rates) or 0.0)

    return tuple(sorted(able, key=order)), tuple(notes)


def why_too_slow(family: Family, rates: Mapping[str, float]) -> str:
    """Why rounding so saves no time here, a sentence; empty if it may, or if the roofs are not known."""
    roof, plain = roof_of_family(family.name, rates), rates.get("flops")
    if not roof or not plain or roof > plain:
        return ""
    return f"{family.name} is left out: its instruction reaches {roof / plain:.2f} x the rate of f32 on this machine"


def what_is_left(tasks: Iterable[Task], able: Iterable[Family], rates: Mapping[str, float]) -> str:
    """What an allowed error would give tasks whose weights have half the bits already, a sentence; empty if nothing.

    Args:
        tasks: Tasks, none of which may round.
        able: Families that could.
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
    """The choices with which the whole keeps its budget, what is spent of it, `None` if nothing, and notes.

    Args:
        choices: A choice a task, the fastest, with those it falls back to.
        allowed: What rounding may do.
        errors: Gives errors of the whole.
        seed: Seed of the search.
        listener: Notified of the stage.
    """
    if not allowed.room:
        return list(choices), None, ()
    listener.stage("spending the error budget")
    plan = GreedyRelaxation([PrecisionChoices.of(choice) for choice in choices], errors, seed)
    spent = fewest_steps(plan, allowed.room, lambda: spent_by(plan, allowed, errors, seed))
    spent = spend_rest(plan, allowed.room, lambda: spent_by(plan, allowed, errors, seed), spent)
    if spent is None:
        faster = any(is_rounded(choice) for task in plan.tasks for choice in task.choices)
        kept = limits_of(allowed)
        why = f"none that is faster keeps {kept}" if faster else f"none that may keep {kept} was faster than in f32"
        return plan.chosen, None, (f"no task rounds its operands: {why}",)
    plan.learn(spent.spent)
    alone = {choice.search.task.tag: plan.share(i) for i, choice in enumerate(plan.chosen) if is_rounded(choice)}
    return plan.chosen, replace(spent, tasks=alone), ()


def fewest_steps(
    plan: "GreedyRelaxation", room: float, measured: Callable[[], tuple[float, Spent | None]]
) -> Spent | None:
    """Step back until the whole keeps what is allowed, and no further than it must; what it then spends.

    Measuring takes long, and what tasks are off alone says too little: errors of the whole are below their sum, the
    coarser the task, the less so. So of the steps that may be the last to be taken, the one is measured where the sum,
    scaled to what was measured last, fits; now and then the one halfway. The last of all steps, after which no task
    rounds, is always enough: `None`.

    Args:
        plan: Tasks, each with its fastest candidate; then with those that are chosen.
        room: Error that is allowed.
        measured: Gives what the whole with the present candidates is off, and what it spends if that is allowed.
    """
    path = plan.path()
    short, enough, spent, step = -1, len(path) - 1, None, 0
    for turn in count(1):
        if enough - short < 2:  # nothing is between
            break
        plan.positions = path[step]
        error, found = measured()
        plan.learn(error)
        if found is None:
            short = step
        else:
            enough, spent = step, found
        fits = (i for i in range(short + 1, enough) if plan.expected_of(path[i]) <= room)
        step = (short + enough) // 2 if turn % HALFWAY == 0 else next(fits, enough - 1)
    plan.positions = path[enough]
    return spent


def spend_rest(
    plan: "GreedyRelaxation", room: float, measured: Callable[[], tuple[float, Spent | None]], spent: Spent | None
) -> Spent | None:
    """Let tasks be as fast again as what steps back have left of the budget allows; what the whole then spends.

    The last step back may be that of a task that brought most of the error: others had stepped back for nothing.

    Args:
        plan: Tasks, each with the candidate that is chosen; then with those that are.
        room: Error that is allowed.
        measured: Gives what the whole with the present candidates is off, and what it spends if that is allowed.
        spent: What it spends so far.
    """
    before, steps = plan.positions, plan.way_up(room)
    while steps:
        plan.positions = steps[-1]
        error, found = measured()
        plan.learn(error)
        if found is not None:
            return found
        steps = steps[: len(steps) // 2]
    plan.positions = before
    return spent


def spent_by(plan: "GreedyRelaxation", allowed: Allowed, errors: Errors, seed: int) -> tuple[float, Spent | None]:
    """What the whole is off on unseen inputs, and what it spends; `None` where that is more than is allowed."""
    spent = max(errors.of(plan.chosen, each) for each in (seed, seed + FRESH))
    if spent > allowed.room:
        return spent, None
    error = allowed.error or min(allowed.room, ELSEWHERE * spent)
    if not allowed.agreement:
        return spent, Spent(error, spent)
    agrees, rows = errors.agreement(plan.chosen, seed + FRESH)
    kept = Spent(error, spent, {}, allowed.agreement, agrees, rows) if agrees >= allowed.agreement else None
    return spent, kept


def rounding(choice: Choice) -> float:
    """How coarsely a choice's family rounds operands; 0 where it does not, and for the plain lowering."""
    return choice.search.family.error if choice.config is not None else 0.0


def is_rounded(choice: Choice) -> bool:
    """Return whether a choice rounds operands."""
    return rounding(choice) > 0


def seconds_of(choice: Choice) -> float:
    """Seconds of a call of the whole that a task takes with a choice: the lower quartile, as rivals are compared by."""
    return choice.search.task.count * (quiet_time(choice.samples.seconds) if choice.samples is not None else 0.0)


@dataclass(frozen=True)
class PrecisionChoices:
    """Candidates for a task by precision, the most exact first, each faster than those before.

    Attributes:
        choices: The candidates.
    """

    choices: tuple[Choice, ...]

    @classmethod
    def of(cls, choice: Choice) -> "PrecisionChoices":
        """The candidates that a choice leaves, of those that are measured."""
        found: list[Choice] = []
        for each in with_rivals((choice, *choice.others)):
            if not found or (each.samples is not None and seconds_of(each) < seconds_of(found[-1])):
                found.append(each)
        if is_rounded(found[0]):
            found.insert(0, replace(found[0], config=None, samples=None))  # the plain lowering
        return cls(tuple(found))


def with_rivals(choices: Sequence[Choice]) -> list[Choice]:
    """Candidates for one task, the most exact first, each with the times of all others."""
    timed = [(each, each.search.family.name, each.samples) for each in sorted(choices, key=rounding)]
    return [
        replace(mine, rivals=tuple((name, samples) for each, name, samples in timed if each is not mine and samples))
        for mine, _, _ in timed
    ]


@dataclass
class GreedyRelaxation:
    """A greedy relaxation: every task begins with its fastest candidate, and steps back to more exact ones.

    Errors of tasks alone decide in which order, and what the whole may be off.

    Attributes:
        tasks: Candidates of every task.
        errors: Gives errors of the whole.
        seed: Seed of the search.
        positions: Index of the candidate of every task.
        scale: Error of the whole, as far as it was measured, over the sum of those of tasks.
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
        """A choice a task."""
        return [task.choices[index] for task, index in zip(self.tasks, self.positions, strict=True)]

    def alone(self, task: int, index: int | None = None) -> float:
        """The error that one task makes with a candidate, by default its own, on inputs of its own.

        Those of all its calls in the whole add up as those of several tasks do.
        """
        index = self.positions[task] if index is None else index
        choice = self.tasks[task].choices[index]
        if not is_rounded(choice):
            return 0.0
        if (task, index) not in self._alone:
            found = self.errors.own(choice, self.seed + FRESH)
            self._alone[task, index] = found * float(choice.search.task.count) ** 0.5
        return self._alone[task, index]

    def share(self, task: int) -> float:
        """What a task brings of the error of the whole; squares of all shares add up to that."""
        return self.scale * self.alone(task)

    def summed(self, positions: Sequence[int]) -> float:
        """The sum of what tasks alone are off with some candidates, if their errors are independent."""
        return float(sum(self.alone(task, index) ** 2 for task, index in enumerate(positions)) ** 0.5)

    def expected_of(self, positions: Sequence[int]) -> float:
        """The error of the whole with some candidates, as far as is known."""
        return self.scale * self.summed(positions)

    def learn(self, error: float) -> None:
        """Take what the whole with the present candidates is off for the measure of all sums."""
        summed = self.summed(self.positions)
        if summed and isfinite(summed) and isfinite(error):
            self.scale = error / summed

    def path(self) -> list[list[int]]:
        """Candidates of every task, step by step, from the fastest to where none rounds.

        A step is that of the task that loses the least time for the error that is regained.
        """
        found = [[*self.positions]]
        while True:
            now = found[-1]
            able = [task for task, index in enumerate(now) if is_rounded(self.tasks[task].choices[index])]
            if not able:
                return found
            cheapest = min(able, key=lambda task: self.price(task, now[task]))
            found.append([index - (task == cheapest) for task, index in enumerate(now)])

    def way_up(self, room: float) -> list[list[int]]:
        """Candidates of every task, step by step towards faster ones while the whole is expected to keep the room.

        A step is that of the task that saves most time for the error that it adds.
        """
        found, now = list[list[int]](), self.positions
        while True:
            ahead = {
                task: [each + (position == task) for position, each in enumerate(now)]
                for task, index in enumerate(now)
                if index + 1 < len(self.tasks[task].choices)
            }
            able = [task for task, positions in ahead.items() if self.expected_of(positions) <= room]
            if not able:
                return found
            now = ahead[max(able, key=lambda task: self.price(task, ahead[task][task]))]
            found.append(now)

    def price(self, task: int, index: int) -> float:
        """Time that a task's step back from a candidate takes, for the error that is regained."""
        choices = self.tasks[task].choices
        slower = seconds_of(choices[index - 1]) - seconds_of(choices[index])
        regained = self.alone(task, index) ** 2 - self.alone(task, index - 1) ** 2
        return slower / regained if regained > 0 else float("inf")
