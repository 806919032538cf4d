"""Drift-normalised time of a winner, as all commands report it, with the measured time beside it.

The reference kernel, fused multiply-adds in registers, runs between the samples of a program; its time is constant on
an undisturbed core. Drift is its median time over its best, and the program's median is divided by it. A core that is
shared with another process half of the time doubles both, and leaves the normalised time unchanged.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from statistics import median

from autotune.core.stats import Interval, median_interval

STEADY_SHARE = 0.7  # share of the reference kernel's best rate below which the core was shared, and times are invalid
ROOF_ERROR = 1.03  # share of a roof above which the excess is no measurement error


@dataclass(frozen=True)
class WinnerTime:
    """Seconds a call of a winner.

    Attributes:
        seconds: Drift-normalised median with its 95 % confidence interval, in seconds a call.
        drift: Median time of the reference kernel over its best: 1 on an undisturbed core, or where it was not run.
    """

    seconds: Interval
    drift: float

    @property
    def clock(self) -> Interval:
        """Measured seconds a call, not normalised."""
        return self.seconds.scaled(self.drift)


@dataclass(frozen=True)
class Interference:
    """Slowdown of measurements by other work on the core, as factors; 1 for none.

    Attributes:
        drift: Median time of the reference kernel over its best.
        spread: Median time of the program over its own best, divided by the drift. A core that is shared for some
            milliseconds at a time may interrupt the program and not the kernel beside it.
    """

    drift: float
    spread: float

    @property
    def is_large(self) -> bool:
        """Whether the times are too disturbed to be used."""
        return max(self.drift, self.spread) * STEADY_SHARE > 1.0


NO_INTERFERENCE = Interference(1.0, 1.0)


def interference_of(seconds: Sequence[float], reference: Sequence[float], quiet: float | None = None) -> Interference:
    """Return the slowdown of the samples of a program by other work on the core.

    Args:
        seconds: Seconds a call of the program; at least one.
        reference: Seconds a call of the reference kernel between them.
        quiet: Best seconds a call of that kernel on this machine, if known from other samples.

    >>> interference_of([1.0, 6.0, 6.0], [2.0, 2.0, 2.0])
    Interference(drift=1.0, spread=6.0)
    """
    drift = drift_of(reference, quiet)
    return Interference(drift, max(1.0, median(seconds) / min(seconds) / drift))


def drift_of(reference: Sequence[float], quiet: float | None = None) -> float:
    """Return the drift that a reference kernel shows; 1 where it was not run.

    Args:
        reference: Seconds a call of the kernel.
        quiet: Best seconds a call of the kernel on this machine, if known from other samples.

    >>> drift_of([2.0, 3.0, 2.5], quiet=1.0)
    2.5
    """
    return max(1.0, median(reference) / min(quiet or inf, *reference, inf)) if reference else 1.0


def winner_time(seconds: Sequence[float], reference: Sequence[float], quiet: float | None = None) -> WinnerTime:
    """Return the drift-normalised time of a program.

    Args:
        seconds: Seconds a call of the program; at least one.
        reference: Seconds a call of the reference kernel between them.
        quiet: Best seconds a call of that kernel on this machine, if known from other samples.

    >>> winner_time([4.0, 4.2, 4.4], [2.0, 2.1, 1.4], quiet=1.0).seconds.estimate
    2.1
    """
    drift = drift_of(reference, quiet)
    return WinnerTime(median_interval(seconds).scaled(1 / drift), drift)
