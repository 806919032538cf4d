"""Formatting of numbers: times with units, factors and shares with intervals, bytes."""

import os
from collections.abc import Iterable, Sequence

from rich.console import Console

from autotune.core.console import WIDTH, duration, terminal
from autotune.core.payload import REFERENCE
from autotune.core.stats import Interval
from autotune.core.winner_time import ROOF_ERROR

WORTH_SAYING = 0.02  # share of a call's time
MOST_NAMED = 4


def out() -> Console:
    """Return the console for results on stdout; without a terminal, its width is ``COLUMNS`` or 80."""
    console = terminal()
    if not console.is_terminal and not os.environ.get("COLUMNS", "").isdigit():
        console.width = WIDTH
    return console


def time_span(seconds: Interval) -> str:
    """Format a time with its interval in the same unit.

    Example:
        >>> time_span(Interval(0.00122, 0.00123, 0.00125))
        '1.23 ms [1.22, 1.25]'
    """
    return f"{duration(seconds.estimate)} {bounds(seconds)}"


def clocked(seconds: float | None, clock: float | None, floor: float) -> str:
    """Format a time without drift, followed by the clock time in parentheses if that is longer by over the floor.

    Example:
        >>> clocked(1e-3, 1.005e-3, 0.01), clocked(1e-3, 2e-3, 0.01)
        ('1 ms', '1 ms (2 ms by the clock)')
    """
    if seconds is None or clock is None or clock <= seconds * (1 + floor):
        return duration(seconds)
    return f"{duration(seconds)} ({duration(clock)} by the clock)"


def bounds(seconds: Interval) -> str:
    """Format the ends of a time's interval in the unit of its estimate: ``[1.22, 1.25]``."""
    number, _ = duration(seconds.estimate).split()
    scale = float(number) / seconds.estimate
    return f"[{seconds.low * scale:.3g}, {seconds.high * scale:.3g}]"


def factor(speedup: Interval | None) -> str:
    """Format a factor with its interval; ``-`` if there is none.

    Example:
        >>> factor(Interval(12.1, 12.3, 12.6))
        '12.3x [12.1, 12.6]'
    """
    if speedup is None:
        return "-"
    return str(speedup)


def times(ratio: float | None) -> str:
    """Format a factor without an interval; ``-`` if there is none.

    Example:
        >>> times(1.0678)
        '1.07x'
    """
    return f"{ratio:.3g}x" if ratio is not None else "-"


def percent(share: float | None) -> str:
    """Format a share in percent; ``-`` if there is none.

    Example:
        >>> percent(0.1234)
        '12.3%'
    """
    return f"{share:.1%}" if share is not None else "-"


def roof_text(share: float | None) -> str:
    """Format a share of the roof; ``above`` if it exceeds the roof by more than the measurement error.

    Example:
        >>> roof_text(0.5), roof_text(1.01), roof_text(3.01)
        ('50.0%', '100.0%', 'above')
    """
    return "above" if share is not None and share > ROOF_ERROR else percent(share if share is None else min(share, 1.0))


def of_roof(share: float, roof: str) -> str:
    """Format a share of a named roof.

    Example:
        >>> of_roof(0.5, "the FMA roof"), of_roof(3.01, "the FMA roof")
        ('50.0% of the FMA roof', 'above the FMA roof')
    """
    text = roof_text(share)
    return f"{text} {roof}" if share > ROOF_ERROR else f"{text} of {roof}"


def above_roof(shares: Iterable[float | None]) -> str:
    """Return a sentence for below a table that explains shares above the roof; empty if there are none.

    Example:
        >>> above_roof([0.5, None])
        ''
    """
    if not any(share is not None and share > ROOF_ERROR for share in shares):
        return ""
    return (
        "above the roof: it computes in less than f32, or the core was more disturbed when the roof was measured than "
        "when the program was; measure again"
    )


def plural(count: int, noun: str) -> str:
    """Format a count with its noun in singular or plural.

    Example:
        >>> plural(1, "knob"), plural(2, "knob"), plural(2, "launch")
        ('1 knob', '2 knobs', '2 launches')
    """
    ending = "es" if noun.endswith(("s", "x", "ch", "sh")) else "s"
    return f"{count} {noun}" if count == 1 else f"{count} {noun}{ending}"


def size(count: float) -> str:
    """Format bytes in a suitable binary unit.

    Example:
        >>> size(2_883_584)
        '2.75 MiB'
    """
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= scale:
            return f"{count / scale:.3g} {unit}"
    return f"{count:.0f} B"


def error_beside(error: float | None, oracle: str, *, unproved: bool) -> str:
    """Format the largest error, and the oracle if it is not a reference.

    Example:
        >>> error_beside(1.2e-07, "reference", unproved=False)
        'max error 1.2e-07'
        >>> error_beside(1.2e-07, "plain lowering", unproved=True)
        'max error 1.2e-07 beside its own plain lowering, unproved'
    """
    text = f"max error {error:.2g}" if error is not None else "max error -"
    if unproved:
        return f"{text} beside its own {oracle}, unproved"
    return text if oracle == REFERENCE else f"{text} beside the {oracle}"


def uncovered(parts: Sequence[tuple[str, str, float | None]]) -> str:
    """Return a sentence for below a table on operations that no schedule covers; empty if none is significant.

    Args:
        parts: Name, reason, and share of a call of each operation, the largest share first.

    Example:
        >>> uncovered([("pad 8x8", "tensor.pad has no schedules", 0.31), ("copy 8", "it copies", 0.001)])
        'no schedule changes pad 8x8, 31.0% of a call (tensor.pad has no schedules)'
    """
    heavy = [part for part in parts if part[2] is None or part[2] >= WORTH_SAYING]
    named = [f"{name}, {percent(share)} of a call ({why})" for name, why, share in heavy[:MOST_NAMED]]
    more = [f"{len(heavy) - MOST_NAMED} more"] if len(heavy) > MOST_NAMED else []
    return f"no schedule changes {'; '.join([*named, *more])}" if named else ""


def agreement(agrees: float, wanted: float, rows: int) -> str:
    """Return a sentence on the share of rows whose argmax is unchanged."""
    return f"argmax unchanged in {agrees:.1%} of {rows} rows, {wanted:.1%} wanted"
