"""Numbers for people: times with their unit, factors and shares with their intervals, bytes."""

import os
from collections.abc import Iterable, Sequence

from rich.console import Console

from autotune.core.console import duration, terminal
from autotune.core.payload import REFERENCE
from autotune.core.stats import Interval
from autotune.core.winner_time import ROOF_ERROR

PIPE_WIDTH = 80
WORTH_SAYING = 0.02  # of a call
MOST_NAMED = 4


def out() -> Console:
    """The console for results: stdout, as wide as its terminal; elsewhere as ``COLUMNS`` says, or else `PIPE_WIDTH`."""
    console = terminal()
    if not console.is_terminal and not os.environ.get("COLUMNS", "").isdigit():
        console.width = PIPE_WIDTH
    return console


def time_span(seconds: Interval) -> str:
    """A time with its interval in the same unit.

    Example:
        >>> time_span(Interval(0.00122, 0.00123, 0.00125))
        '1.23 ms [1.22, 1.25]'
    """
    return f"{duration(seconds.estimate)} {bounds(seconds)}"


def clocked(seconds: float | None, clock: float | None, floor: float) -> str:
    """A time with the machine's drift divided out, and the clock's own in parentheses if it differs by over the floor.

    Example:
        >>> clocked(1e-3, 1.005e-3, 0.01), clocked(1e-3, 2e-3, 0.01)
        ('1 ms', '1 ms (2 ms by the clock)')
    """
    if seconds is None or clock is None or clock <= seconds * (1 + floor):
        return duration(seconds)
    return f"{duration(seconds)} ({duration(clock)} by the clock)"


def bounds(seconds: Interval) -> str:
    """The ends of a time's interval, in the unit of its estimate: ``[1.22, 1.25]``."""
    number, _ = duration(seconds.estimate).split()
    scale = float(number) / seconds.estimate
    return f"[{seconds.low * scale:.3g}, {seconds.high * scale:.3g}]"


def factor(speedup: Interval | None) -> str:
    """A factor with its interval; ``-`` where there is none.

    Example:
        >>> factor(Interval(12.1, 12.3, 12.6))
        '12.3x [12.1, 12.6]'
    """
    if speedup is None:
        return "-"
    return str(speedup)


def times(ratio: float | None) -> str:
    """A factor alone; ``-`` where there is none.

    Example:
        >>> times(1.0678)
        '1.07x'
    """
    return f"{ratio:.3g}x" if ratio is not None else "-"


def percent(share: float | None) -> str:
    """A share of one; ``-`` where there is none.

    Example:
        >>> percent(0.1234)
        '12.3%'
    """
    return f"{share:.1%}" if share is not None else "-"


def roof_text(share: float | None) -> str:
    """A share of the roof; ``above`` where it is more than there is and more than an error of measuring.

    Example:
        >>> roof_text(0.5), roof_text(1.01), roof_text(3.01)
        ('50.0%', '100.0%', 'above')
    """
    return "above" if share is not None and share > ROOF_ERROR else percent(share if share is None else min(share, 1.0))


def of_roof(share: float, roof: str) -> str:
    """A share of a roof, in words.

    Example:
        >>> of_roof(0.5, "the FMA roof"), of_roof(3.01, "the FMA roof")
        ('50.0% of the FMA roof', 'above the FMA roof')
    """
    text = roof_text(share)
    return f"{text} {roof}" if share > ROOF_ERROR else f"{text} of {roof}"


def above_roof(shares: Iterable[float | None]) -> str:
    """What a share of more than the whole roof means, in a sentence for below a table; empty where there is none.

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
    """A count with its noun.

    Example:
        >>> plural(1, "knob"), plural(2, "knob"), plural(2, "launch")
        ('1 knob', '2 knobs', '2 launches')
    """
    ending = "es" if noun.endswith(("s", "x", "ch", "sh")) else "s"
    return f"{count} {noun}" if count == 1 else f"{count} {noun}{ending}"


def size(count: float) -> str:
    """Bytes in the binary unit that suits them.

    Example:
        >>> size(2_883_584)
        '2.75 MiB'
    """
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= scale:
            return f"{count / scale:.3g} {unit}"
    return f"{count:.0f} B"


def error_beside(error: float | None, oracle: str, *, unproved: bool) -> str:
    """The largest error, and beside what, where that is no reference.

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
    """A sentence on what no schedule changes, for below a table; empty where there is nothing of any weight.

    Args:
        parts: Name, why it is so, and part of a call of each, the heaviest first.

    Example:
        >>> uncovered([("pad 8x8", "tensor.pad has no schedules", 0.31), ("copy 8", "it copies", 0.001)])
        'no schedule changes pad 8x8, 31.0% of a call (tensor.pad has no schedules)'
    """
    heavy = [part for part in parts if part[2] is None or part[2] >= WORTH_SAYING]
    named = [f"{name}, {percent(share)} of a call ({why})" for name, why, share in heavy[:MOST_NAMED]]
    more = [f"{len(heavy) - MOST_NAMED} more"] if len(heavy) > MOST_NAMED else []
    return f"no schedule changes {'; '.join([*named, *more])}" if named else ""


def agreement(agrees: float, wanted: float, rows: int) -> str:
    """A sentence on the share of rows whose argmax stays."""
    return f"argmax unchanged in {agrees:.1%} of {rows} rows, {wanted:.1%} wanted"
