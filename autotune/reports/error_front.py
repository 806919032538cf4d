"""Time against error of a whole: what it would take, and be off, with fewer of its tasks rounded."""

from dataclasses import dataclass
from math import sqrt

from autotune.registry import rounding_names
from autotune.reports.winner import RoundedTask, Winner


@dataclass(frozen=True)
class FrontPoint:
    """A whole in which some tasks round their operands.

    Attributes:
        exact: The task that is in f32 from this point on; empty for the whole as it was recorded.
        precision: What its operands were rounded to.
        error: Largest error, relative to the largest value of an output.
        seconds: Seconds of one call.
    """

    exact: str
    precision: str
    error: float
    seconds: float


def error_front(winner: Winner) -> tuple[FrontPoint, ...]:
    """The whole as recorded, then with one task after the other in f32, the cheapest step first.

    A step costs the time that the task took longer in f32, alone, in the final race. Errors of tasks are independent,
    so that their squares add up; the recorded error of the whole is what they are scaled to. Tasks that were
    not measured in f32 stay rounded.

    Args:
        winner: A bundle at a glance.
    """
    steps = [(task, seconds) for task in winner.rounded if (seconds := seconds_in_f32(task)) is not None]
    total = sum(task.error**2 for task in winner.rounded)
    found = [FrontPoint("", "", winner.spent, winner.seconds.estimate)]
    left, seconds = total, winner.seconds.estimate
    for task, exact in sorted(steps, key=lambda step: price(*step)):
        left, seconds = left - task.error**2, seconds + exact - task.seconds
        error = winner.spent * sqrt(max(0.0, left) / total) if total else 0.0
        found.append(FrontPoint(task.name, task.precision, error, seconds))
    return tuple(found)


def seconds_in_f32(task: RoundedTask) -> float | None:
    """Seconds of a task in a call by the fastest way that rounds nothing; `None` if none was measured."""
    return min((seconds for name, seconds in task.seconds_in.items() if name not in rounding_names()), default=None)


def price(task: RoundedTask, exact: float) -> float:
    """Seconds that are lost for the square of the error that is regained."""
    return (exact - task.seconds) / max(task.error, 1e-30) ** 2
