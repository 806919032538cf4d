"""Numbers as people read them: times with units and intervals, speed-ups; the console for results."""

from rich.console import Console

from autotune.core.stats import Interval


def out() -> Console:
    """The console for results."""
    return Console(highlight=False)


def duration(seconds: float | None) -> str:
    """A time people can read: ``1.23 ms``."""
    if seconds is None:
        return "-"
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            value = seconds / scale
            return f"{value:.3g} {unit}" if value < 999.5 else f"{value:.0f} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def factor(speedup: Interval | None) -> str:
    """A speed-up with its interval: ``12.3x [12.1, 12.6]``."""
    if speedup is None:
        return "-"
    return f"{speedup.estimate:.4g}x [{speedup.low:.4g}, {speedup.high:.4g}]"


def time_span(seconds: Interval) -> str:
    """A time with its interval: ``1.23 ms [1.22, 1.25]``."""
    number, unit = duration(seconds.estimate).split()
    scale = float(number) / seconds.estimate
    return f"{number} {unit} [{seconds.low * scale:.3g}, {seconds.high * scale:.3g}]"
