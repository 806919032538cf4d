"""Headline of a winner, the same in every command: its time, its share of the roof, and the best alternative."""

from pathlib import Path

from autotune.core.console import duration
from autotune.core.errors import StoreError
from autotune.core.stats import Interval
from autotune.registry import COMPARATORS, registered
from autotune.reports.compared import RecordedComparison, RecordedRow, compared_beside
from autotune.reports.format import clocked, factor, of_roof, times

ANCHOR = "best"  # row of a comparison that is the winner


def headline(
    payload: str,
    seconds: float | None,
    *,
    clock: float | None,
    share: float | None,
    floor: float,
    unsteady: str = "",
    rounded: bool = False,
) -> str:
    """Return a sentence on a winner's time.

    Args:
        payload: Name of the payload.
        seconds: Time in seconds per call, as in `autotune.core.winner_time`.
        clock: Time by the clock in seconds per call, shown if it is longer by more than the floor.
        share: Share of the FMA roof; `None` if unknown.
        floor: Noise floor, a relative difference.
        unsteady: Reason why times are unreliable; empty if they are reliable.
        rounded: Whether tasks use other units than that for f32, so that the share is of the roofs of all of them.

    Example:
        >>> headline("nano", 1e-3, clock=1.2e-3, share=0.5, floor=0.01)
        'nano: 1 ms (1.2 ms by the clock), 50.0% of the FMA roof'
        >>> headline("nano", 1e-3, clock=1e-3, share=3.01, floor=0.01)
        'nano: 1 ms, above the FMA roof'
        >>> headline("nano", 1e-3, clock=1e-3, share=3.01, floor=0.01, unsteady="the core was shared")
        'nano: not measurable here and now: the core was shared'
    """
    if unsteady:
        return f"{payload}: not measurable here and now: {unsteady}"
    share_text = f", {of_roof(share, 'the roofs of its units' if rounded else 'the FMA roof')}" if share else ""
    return f"{payload}: {clocked(seconds, clock, floor)}{share_text}"


def over_naive(speedup: Interval | None, baseline: str, seconds: float | None) -> str:
    """Return a phrase on the speed-up over the naive lowering.

    Example:
        >>> over_naive(Interval(280, 285, 290), "passes", 0.017)
        '285x [280, 290] over the naive lowering (passes, 17 ms)'
    """
    if speedup is None:
        return f"the naive lowering ({baseline}) has no time"
    return f"{factor(speedup)} over the naive lowering ({baseline}, {duration(seconds)})"


def best_rival(compared: RecordedComparison | None) -> RecordedRow | None:
    """Return the row of the fastest library in a comparison; `None` if none was timed together with the winner."""
    if compared is None or compared.ratio_to != ANCHOR:
        return None
    libraries = set(registered(COMPARATORS))
    rows = [row for row in compared.rows if row.name.partition(" (")[0] in libraries and row.ratio is not None]
    return min(rows, key=lambda row: row.ratio or 0.0, default=None)


def beside_rival(folder: str, payload: str, fingerprint: str) -> str:
    """Return a phrase on the best library relative to a bundle's winner as recorded by `compare`; or how to compare."""
    try:
        rival = best_rival(compared_beside(Path(folder), payload, fingerprint)) if folder else None
    except StoreError:  # a damaged file must not suppress the headline
        rival = None
    if rival is None:
        return f"compare with libraries: autotune compare {payload}"
    return f"{times(rival.ratio)} as fast as {rival.name}, as compare recorded it"
