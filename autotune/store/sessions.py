"""Summary of a bundle's sessions: a speed-up, and two times whose ratio is consistent with it."""

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
    """Consistent figures of all sessions: times and speed-up are from the same rounds.

    The ratio of two programs' medians, each over all sessions, need not equal the median of their ratios: the memory
    layout of one process may affect one program and not the other. Times are therefore taken only from rounds whose
    ratio lies within the interval of the samples: since ``low * b <= a <= high * b`` holds in each of these rounds, it
    holds for the medians of ``a`` and ``b``, too. The interval of the speed-up is that one or a wider one. Both times
    are those of `autotune.core.winner_time`: the drift of these rounds is divided out, which does not change the ratio.

    Attributes:
        best_seconds: Time of the scheduled program, in seconds per call.
        baseline_seconds: Time of the baseline, in seconds per call; `None` if it was never run.
        reference_seconds: Median time of the FMA kernel in these rounds, in seconds per call; `None` if never run.
        speedup: Baseline over schedule with its 95 % interval; `None` without a baseline.
        drift: Usual time of the FMA kernel over its best; clock times are longer by this factor.
        interference: Effect of other work on the samples of all rounds.
    """

    best_seconds: float
    baseline_seconds: float | None
    reference_seconds: float | None
    speedup: Interval | None
    drift: float = 1.0
    interference: Interference = NO_INTERFERENCE

    @property
    def clock_seconds(self) -> float:
        """Median time of the scheduled program by the clock, in seconds per call."""
        return self.best_seconds * self.drift


def figures_of(sessions: Sequence[ProcessTimes], part_error: float, quiet: float | None = None) -> SessionFigures:
    """Compute the figures of all sessions together.

    Args:
        sessions: Samples of each process; at least one session.
        part_error: Relative error of the baseline's times, as in `speedup_of`.
        quiet: Best time of the FMA kernel in other samples on this machine, in seconds per call, if known.
    """
    seen = seen_speedup(sessions)
    quietest = min(filter(None, (quiet, quiet_reference(sessions))), default=None)
    best = [seconds for session in sessions for seconds in session.best_seconds]
    fma = [seconds for session in sessions for seconds in session.reference_seconds]
    interference = interference_of(best, fma, quietest)
    if seen is None:
        drift = interference.drift
        return SessionFigures(median(best) / drift, None, median(fma) if fma else None, None, drift, interference)
    rounds = [times for session in sessions for times in rounds_of(session)]
    consistent = [times for times in rounds if seen.low <= times[1] / times[0] <= seen.high] or rounds
    fma = [reference for _, _, reference in consistent if reference is not None]
    drift = drift_of(fma, quietest)
    return SessionFigures(
        best_seconds=median(best for best, _, _ in consistent) / drift,
        baseline_seconds=median(baseline for _, baseline, _ in consistent) / drift,
        reference_seconds=median(fma) if fma else None,
        speedup=speedup_of(sessions, part_error),
        drift=drift,
        interference=interference,
    )


def quiet_reference(sessions: Sequence[ProcessTimes], more: Iterable[Sequence[float]] = ()) -> float | None:
    """Return the FMA kernel's best time in sessions and further samples, in seconds per call; `None` if not run."""
    return min(chain(*(session.reference_seconds for session in sessions), *more), default=None)


def recorded_quiet(manifest: Manifest) -> float | None:
    """Return the best time of the FMA kernel in a bundle, in seconds per call; `None` if it was never run."""
    return quiet_reference(manifest.samples, (task.reference_seconds for task in manifest.tasks.values()))


def recorded_figures(manifest: Manifest) -> SessionFigures:
    """Compute the figures of a bundle's sessions."""
    return figures_of(manifest.samples, manifest.baseline.part_error, recorded_quiet(manifest))


def rounds_of(session: ProcessTimes) -> list[tuple[float, float, float | None]]:
    """Return the seconds per call of schedule, baseline and FMA kernel in each round; empty without a baseline."""
    references = session.reference_seconds or [None] * len(session.best_seconds)
    if not session.baseline_seconds:
        return []
    return list(zip(session.best_seconds, session.baseline_seconds, references, strict=True))


def speedup_of(sessions: Sequence[ProcessTimes], part_error: float) -> Interval | None:
    """Return baseline over best with its 95 % interval, over all sessions; `None` without a baseline.

    With too few samples for a bootstrap, the interval is widened by the spread of a program compared with itself.

    Args:
        sessions: Samples of each process.
        part_error: Relative error of the baseline's times if only a part of it was timed; 0 for whole calls.
    """
    seen = seen_speedup(sessions)
    few = sum(len(session.baseline_seconds) for session in sessions) < FEWEST_FOR_BOOTSTRAP
    return seen.widened(part_error + FEW_SPREAD * few) if seen is not None else None


def seen_speedup(sessions: Sequence[ProcessTimes]) -> Interval | None:
    """Return baseline over best, with the interval of the samples alone; `None` without a baseline."""
    baseline = [seconds for session in sessions for seconds in session.baseline_seconds]
    best = [seconds for session in sessions if session.baseline_seconds for seconds in session.best_seconds]
    return ratio_interval(baseline, best) if baseline else None
