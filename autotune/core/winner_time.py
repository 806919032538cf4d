"""The time of a winner as every verb gives it: the machine's drift divided out, the clock's own time beside it.

Between its samples runs the reference kernel, fused multiply-adds in registers, which take the same time whenever the
core is ours alone. How much longer than at its best it usually took is the drift; a program's median is divided by it.
A core that another process has half of the time doubles both, and the time of a winner stays what it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from statistics import median

from autotune.core.stats import Interval, median_interval

STEADY_SHARE = 0.7  # of its best: a kernel that usually was below it shared the core, and times say nothing
ROOF_ERROR = 1.03  # of a roof: a share above it is no error of measuring


@dataclass(frozen=True)
class WinnerTime:
    """Seconds a call.

    Attributes:
        seconds: Median with its 95 % interval, the drift divided out.
        drift: Usual time of the reference kernel over its best: 1 on a quiet core, or where it was not run.
    """

    seconds: Interval
    drift: float

    @property
    def clock(self) -> Interval:
        """The same as the clock gave it."""
        return self.seconds.scaled(self.drift)


@dataclass(frozen=True)
class Interference:
    """How much other work on the core lengthened what was timed; 1 where nothing did.

    Attributes:
        drift: Usual time of the reference kernel over its best.
        spread: Usual time of the program over its own best, beyond that drift. A core that others share for some
            milliseconds at a time may interrupt the program and not the kernel beside it.
    """

    drift: float
    spread: float

    @property
    def is_large(self) -> bool:
        """Whether times say nothing about the program."""
        return max(self.drift, self.spread) * STEADY_SHARE > 1.0


NO_INTERFERENCE = Interference(1.0, 1.0)


def interference_of(seconds: Sequence[float], reference: Sequence[float], quiet: float | None = None) -> Interference:
    """How much other work lengthened the samples of a program.

    Args:
        seconds: Seconds a call of the program; at least one.
        reference: Seconds a call of the reference kernel between them.
        quiet: Best seconds a call of that kernel on this machine, where it is known of other samples, too.

    >>> interference_of([1.0, 6.0, 6.0], [2.0, 2.0, 2.0])
    Interference(drift=1.0, spread=6.0)
    """
    drift = drift_of(reference, quiet)
    return Interference(drift, max(1.0, median(seconds) / min(seconds) / drift))


def drift_of(reference: Sequence[float], quiet: float | None = None) -> float:
    """Drift that a reference kernel shows; 1 where it was not run.

    Args:
        reference: Seconds a call of the kernel.
        quiet: Best seconds a call of it on this machine, where that is known of other samples, too.

    >>> drift_of([2.0, 3.0, 2.5], quiet=1.0)
    2.5
    """
    return max(1.0, median(reference) / min(quiet or inf, *reference, inf)) if reference else 1.0


def winner_time(seconds: Sequence[float], reference: Sequence[float], quiet: float | None = None) -> WinnerTime:
    """The time of a program.

    Args:
        seconds: Seconds a call of the program; at least one.
        reference: Seconds a call of the reference kernel between them.
        quiet: Best seconds a call of that kernel on this machine, where it is known of other samples, too.

    >>> winner_time([4.0, 4.2, 4.4], [2.0, 2.1, 1.4], quiet=1.0).seconds.estimate
    2.1
    """
    drift = drift_of(reference, quiet)
    return WinnerTime(median_interval(seconds).scaled(1 / drift), drift)
