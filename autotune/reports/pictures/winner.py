"""Pictures of a winner, from what was recorded with it."""

from collections.abc import Iterator, Sequence
from typing import Protocol

import matplotlib as mpl

from autotune.core.stats import Interval
from autotune.reports.pictures.gallery import Picture, plain_name
from autotune.reports.pictures.style import SETTINGS
from autotune.reports.pictures.whole import budget, every_time, rivals, speedups

FEWEST_SAMPLES = 5  # of one process, that a picture of them says something


class Timed(Protocol):
    """How fast one task is."""

    @property
    def name(self) -> str:
        """Name for people."""
        ...

    @property
    def count(self) -> int:
        """Executions in one call of the whole."""
        ...

    @property
    def seconds(self) -> Interval | None:
        """Seconds of one execution alone; `None` where it was not measured."""
        ...

    @property
    def baseline_seconds(self) -> float | None:
        """Seconds of one execution of the baseline; `None` where it was not measured."""
        ...


def draw_winner(payload: str, seconds: float, baseline: str, tasks: Sequence[Timed]) -> Iterator[Picture]:
    """Where a call's time goes and the speed-up of every task; nothing for a single task.

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
    """Where a call's time goes; nothing for a single task.

    Args:
        payload: Name of the payload.
        whole: Seconds of one call of the whole.
        tasks: Name, executions in a call, and seconds of one execution.
    """
    if len(tasks) > 1:
        name, count, each = max(tasks, key=lambda task: task[1] * task[2])
        text = f"Where a call's time goes. Most, {count * each / whole:.0%}: {name}, {count} x."
        with mpl.rc_context(SETTINGS):
            yield Picture(f"{plain_name(payload)}-budget", text, budget(payload, tasks, whole))


def draw_speedups(payload: str, baseline: str, tasks: Sequence[tuple[str, float]]) -> Iterator[Picture]:
    """How many times as fast as the baseline every task is; nothing for a single task.

    Args:
        payload: Name of the payload.
        baseline: Name of the baseline.
        tasks: Name, and time of the baseline over time of the winner.
    """
    if len(tasks) > 1:
        name, factor = max(tasks, key=lambda task: task[1])
        text = f"Speed-up of every task over the naive lowering ({baseline}), timed alone. Most, {factor:.3g}x: {name}."
        with mpl.rc_context(SETTINGS):
            yield Picture(f"{plain_name(payload)}-speed-ups", text, speedups(payload, tasks, baseline))


def draw_times(
    payload: str, sessions: Sequence[tuple[Sequence[float], Sequence[float]]], baseline: str
) -> Iterator[Picture]:
    """Every time behind the speed-up; nothing where there are hardly any.

    Args:
        payload: Name of the payload.
        sessions: Seconds a call of the winner and of the baseline, one pair a process.
        baseline: Name of the baseline.
    """
    if all(len(best) >= FEWEST_SAMPLES for best, _ in sessions):
        samples = sum(len(best) for best, _ in sessions)
        text = f"All {samples} times behind the headline, process by process, in the order they were taken."
        with mpl.rc_context(SETTINGS):
            yield Picture(f"{plain_name(payload)}-times", text, every_time(payload, sessions, baseline))


def draw_rivals(payload: str, rows: Sequence[tuple[str, Interval, str]], ours: str) -> Iterator[Picture]:
    """A call beside other libraries; nothing where only one was measured.

    Args:
        payload: Name of the payload.
        rows: Name, seconds a call, and what is written above, of each.
        ours: Name of the row that is this project's winner.
    """
    if len(rows) > 1:
        text = "A call beside other libraries, one thread each, interleaved on one core; whiskers are 95 % intervals."
        with mpl.rc_context(SETTINGS):
            yield Picture(f"{plain_name(payload)}-rivals", text, rivals(payload, rows, ours))
