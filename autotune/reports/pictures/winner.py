"""Plots of a winner from recorded data."""

from collections.abc import Iterator, Sequence
from typing import Protocol

import matplotlib as mpl

from autotune.core.stats import Interval
from autotune.reports.pictures.gallery import Picture, plain_name
from autotune.reports.pictures.style import SETTINGS
from autotune.reports.pictures.whole import budget, every_time, rivals, speedups

FEWEST_SAMPLES = 5  # of each process, for a plot of samples to be useful


class Timed(Protocol):
    """A task with its times."""

    @property
    def name(self) -> str:
        """Readable name."""
        ...

    @property
    def count(self) -> int:
        """Number of executions in one call of the whole."""
        ...

    @property
    def seconds(self) -> Interval | None:
        """Seconds of one execution of the single task; `None` if not measured."""
        ...

    @property
    def baseline_seconds(self) -> float | None:
        """Seconds of one execution of the baseline; `None` if not measured."""
        ...


def draw_winner(payload: str, seconds: float, baseline: str, tasks: Sequence[Timed]) -> Iterator[Picture]:
    """Yield the plots of the tasks' shares of a call's time and of their speed-ups; none for a single task.

    Args:
        payload: Name of the payload.
        seconds: Seconds of one call of the whole.
        baseline: Name of the baseline.
        tasks: Tasks of the payload.
    """
    timed = [(task.name, task.count, task.seconds.estimate) for task in tasks if task.seconds]
    gained = [(t.name, t.baseline_seconds / t.seconds.estimate) for t in tasks if t.seconds and t.baseline_seconds]
    yield from draw_budget(payload, seconds, timed)
    yield from draw_speedups(payload, baseline, gained)


def draw_budget(payload: str, whole: float, tasks: Sequence[tuple[str, int, float]]) -> Iterator[Picture]:
    """Yield the plot of the tasks' shares of a call's time; none for a single task.

    Args:
        payload: Name of the payload.
        whole: Seconds of one call of the whole.
        tasks: Name, executions per call, and seconds per execution of each task.
    """
    if len(tasks) > 1:
        name, count, each = max(tasks, key=lambda task: task[1] * task[2])
        text = f"Where a call's time goes. Most, {count * each / whole:.0%}: {name}, {count} x."
        with mpl.rc_context(SETTINGS):
            yield Picture(f"{plain_name(payload)}-budget", text, budget(payload, tasks, whole))


def draw_speedups(payload: str, baseline: str, tasks: Sequence[tuple[str, float]]) -> Iterator[Picture]:
    """Yield the plot of the tasks' speed-ups over the baseline; none for a single task.

    Args:
        payload: Name of the payload.
        baseline: Name of the baseline.
        tasks: Name and speed-up of each task.
    """
    if len(tasks) > 1:
        name, factor = max(tasks, key=lambda task: task[1])
        text = f"Speed-up of every task over the naive lowering ({baseline}), timed alone. Most, {factor:.3g}x: {name}."
        with mpl.rc_context(SETTINGS):
            yield Picture(f"{plain_name(payload)}-speed-ups", text, speedups(payload, tasks, baseline))


def draw_times(
    payload: str, sessions: Sequence[tuple[Sequence[float], Sequence[float]]], baseline: str
) -> Iterator[Picture]:
    """Yield the plot of all samples behind the speed-up; none if a process has fewer than `FEWEST_SAMPLES`.

    Args:
        payload: Name of the payload.
        sessions: Samples of the winner and of the baseline in seconds per call, one pair per process.
        baseline: Name of the baseline.
    """
    if all(len(best) >= FEWEST_SAMPLES for best, _ in sessions):
        samples = sum(len(best) for best, _ in sessions)
        text = f"All {samples} times behind the headline, process by process, in the order they were taken."
        with mpl.rc_context(SETTINGS):
            yield Picture(f"{plain_name(payload)}-times", text, every_time(payload, sessions, baseline))


def draw_rivals(payload: str, rows: Sequence[tuple[str, Interval, str]], ours: str) -> Iterator[Picture]:
    """Yield the plot of the comparison with libraries; none if there is only one entry.

    Args:
        payload: Name of the payload.
        rows: Name, seconds per call, and annotation of each entry.
        ours: Name of this project's row.
    """
    if len(rows) > 1:
        text = "A call beside other libraries, one thread each, interleaved on one core; whiskers are 95 % intervals."
        with mpl.rc_context(SETTINGS):
            yield Picture(f"{plain_name(payload)}-rivals", text, rivals(payload, rows, ours))
