"""What the sessions of a bundle come to: a speed-up, and times beside it that divide to it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import median

from autotune.core.stats import FEW_SPREAD, FEWEST_FOR_BOOTSTRAP, Interval, ratio_interval
from autotune.core.winner_time import NO_INTERFERENCE, Interference, drift_of, interference_of
from autotune.store.manifest import Manifest
from autotune.store.records import ProcessTimes


@dataclass(frozen=True)
class SessionFigures:
    """Figures that stand in one line: all are of the same rounds.

    Medians of two programs, each over all sessions, need not divide to the median of their ratios: a process with
    another luck of memory moves the one and not the other. So times are those of the rounds whose ratio lies within
    the interval that the samples give: then the ratio of their medians lies within it too, for
    ``low * b <= a <= high * b`` in every round holds for the medians of ``a`` and ``b``. The interval of the speed-up
    is that one or a wider one. Both times are those of `autotune.core.winner_time`, the drift of those rounds divided
    out, which leaves their ratio as it is.

    Attributes:
        best_seconds: Seconds a call with the schedule.
        baseline_seconds: Seconds a call of the baseline; `None` where it was never run.
        reference_seconds: Median seconds a call of the FMA kernel beside them; `None` where it was never run.
        speedup: Baseline over schedule with its 95 % interval; `None` without a baseline.
        drift: Usual time of that kernel over its best; the clock's own times are so many times as long.
        interference: How much other work lengthened the samples of all rounds.
    """

    best_seconds: float
    baseline_seconds: float | None
    reference_seconds: float | None
    speedup: Interval | None
    drift: float = 1.0
    interference: Interference = NO_INTERFERENCE

    @property
    def clock_seconds(self) -> float:
        """Median seconds a call with the schedule, as the clock gave them."""
        return self.best_seconds * self.drift


def figures_of(sessions: Sequence[ProcessTimes], part_error: float, quiet: float | None = None) -> SessionFigures:
    """The figures of all sessions together.

    Args:
        sessions: Times, an entry a process; at least one session.
        part_error: Relative error of the baseline's times, as in `speedup_of`.
        quiet: Best seconds a call of the FMA kernel on this machine, where that is known of other samples, too.
    """
    seen = seen_speedup(sessions)
    least = min(filter(None, (quiet, quiet_reference(sessions))), default=None)
    best = [seconds for session in sessions for seconds in session.best_seconds]
    beside = [seconds for session in sessions for seconds in session.reference_seconds]
    interference = interference_of(best, beside, least)
    if seen is None:
        drift = interference.drift
        return SessionFigures(median(best) / drift, None, median(beside) if beside else None, None, drift, interference)
    rounds = [each for session in sessions for each in rounds_of(session)]
    alike = [each for each in rounds if seen.low <= each[1] / each[0] <= seen.high] or rounds
    beside = [reference for _, _, reference in alike if reference is not None]
    drift = drift_of(beside, least)
    return SessionFigures(
        best_seconds=median(best for best, _, _ in alike) / drift,
        baseline_seconds=median(baseline for _, baseline, _ in alike) / drift,
        reference_seconds=median(beside) if beside else None,
        speedup=speedup_of(sessions, part_error),
        drift=drift,
        interference=interference,
    )


def quiet_reference(sessions: Sequence[ProcessTimes], more: Iterable[Sequence[float]] = ()) -> float | None:
    """Best seconds a call of the FMA kernel, in sessions and in more samples of it; `None` where it was never run."""
    return min(chain(*(session.reference_seconds for session in sessions), *more), default=None)


def recorded_quiet(manifest: Manifest) -> float | None:
    """Best seconds a call of the FMA kernel that a bundle records; `None` where it was never run."""
    return quiet_reference(manifest.samples, (task.reference_seconds for task in manifest.tasks.values()))


def recorded_figures(manifest: Manifest) -> SessionFigures:
    """The figures of a bundle's sessions."""
    return figures_of(manifest.samples, manifest.baseline.part_error, recorded_quiet(manifest))


def rounds_of(session: ProcessTimes) -> list[tuple[float, float, float | None]]:
    """Seconds of schedule, baseline and FMA kernel in every round of a session; none without a baseline."""
    beside = session.reference_seconds or [None] * len(session.best_seconds)
    if not session.baseline_seconds:
        return []
    return list(zip(session.best_seconds, session.baseline_seconds, beside, strict=True))


def speedup_of(sessions: Sequence[ProcessTimes], part_error: float) -> Interval | None:
    """Baseline over best with its 95 % interval, over all sessions; `None` without a baseline.

    Too few samples for an interval of their own leave open what a program may differ from itself.

    Args:
        sessions: Times, an entry a process.
        part_error: Relative error of the baseline's times, where a part of it was timed; 0 of whole calls.
    """
    seen = seen_speedup(sessions)
    few = sum(len(session.baseline_seconds) for session in sessions) < FEWEST_FOR_BOOTSTRAP
    return seen.widened(part_error + FEW_SPREAD * few) if seen is not None else None


def seen_speedup(sessions: Sequence[ProcessTimes]) -> Interval | None:
    """Baseline over best, with the interval that the samples alone give."""
    baseline = [seconds for session in sessions for seconds in session.baseline_seconds]
    best = [seconds for session in sessions if session.baseline_seconds for seconds in session.best_seconds]
    return ratio_interval(baseline, best) if baseline else None
