"""Trade-off of time against error of a whole model: estimates with fewer and fewer tasks rounded."""

from dataclasses import dataclass
from math import sqrt

from autotune.registry import rounding_names
from autotune.reports.winner import RoundedTask, Winner


@dataclass(frozen=True)
class FrontPoint:
    """Estimate for a model in which some tasks round their operands.

    Attributes:
        exact: Name of the task that is in f32 from this point on; empty for the recorded model.
        family: Name of the family that rounded the task's operands.
        error: Largest error, relative to the largest value of an output.
        seconds: Time in seconds per call.
    """

    exact: str
    family: str
    error: float
    seconds: float


def error_front(winner: Winner) -> tuple[FrontPoint, ...]:
    """Return estimates for the recorded model, then with one task after the other in f32, the cheapest step first.

    A step costs the additional time of the single task in f32, as measured in the final race. Errors of tasks are
    assumed independent, so that their squares add up; they are scaled to the recorded error of the whole. Tasks that
    were not measured in f32 stay rounded.

    Args:
        winner: Summary of a bundle.
    """
    steps = [(task, seconds) for task in winner.rounded if (seconds := seconds_in_f32(task)) is not None]
    total = sum(task.error**2 for task in winner.rounded)
    points = [FrontPoint("", "", winner.spent, winner.seconds.estimate)]
    squares, seconds = total, winner.seconds.estimate
    for task, exact in sorted(steps, key=lambda step: price(*step)):
        squares, seconds = squares - task.error**2, seconds + exact - task.seconds
        error = winner.spent * sqrt(max(0.0, squares) / total) if total else 0.0
        points.append(FrontPoint(task.name, task.family, error, seconds))
    return tuple(points)


def seconds_in_f32(task: RoundedTask) -> float | None:
    """Return a task's time with the fastest family that does not round, in seconds per call of the whole.

    Returns:
        Time in seconds; `None` if no such family was measured.
    """
    return min((seconds for name, seconds in task.seconds_in.items() if name not in rounding_names()), default=None)


def price(task: RoundedTask, exact: float) -> float:
    """Return the additional seconds per removed squared error of keeping a task in f32."""
    return (exact - task.seconds) / max(task.error, 1e-30) ** 2
