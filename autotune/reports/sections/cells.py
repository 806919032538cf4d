"""Cells of numbers: what people read, and the number a column is sorted by."""

from math import isfinite

from autotune.core.console import duration
from autotune.reports.format import percent, roof_text, times
from autotune.reports.sections.blocks import TableCell


def time_cell(seconds: float | None, title: str = "") -> TableCell:
    """Seconds with the unit that suits them."""
    return TableCell(duration(seconds), seconds, title=title)


def share_cell(share: float | None) -> TableCell:
    """A share of one, in percent."""
    return TableCell(percent(share), share)


def roof_cell(share: float | None) -> TableCell:
    """A share of the roof, which can be no more than all of it."""
    return TableCell(roof_text(share), share)


def factor_cell(factor: float | None) -> TableCell:
    """A factor."""
    return TableCell(times(factor), factor)


def rate_cell(gflops: float) -> TableCell:
    """A rate in GFLOP/s; a dash where it is no number."""
    return TableCell(f"{gflops:.1f}", gflops) if isfinite(gflops) else TableCell("-")


def count_cell(count: int | None) -> TableCell:
    """A count; a dash where it is unknown."""
    return TableCell(str(count) if count is not None else "-", count)


def error_cell(error: float | None, *, unproved: bool = False) -> TableCell:
    """An absolute error, and that it proves nothing of the import; a dash where it is unknown."""
    return TableCell((f"{error:.2g}" if error is not None else "-") + ", unproved" * unproved, error)
