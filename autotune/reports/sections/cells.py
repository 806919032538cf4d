"""Table cells for numbers: the formatted text, and the value that a column is sorted by."""

from math import isfinite

from autotune.core.console import duration
from autotune.reports.format import percent, roof_text, times
from autotune.reports.sections.blocks import TableCell


def time_cell(seconds: float | None, title: str = "") -> TableCell:
    """Return the cell of a time in seconds, formatted with a suitable unit."""
    return TableCell(duration(seconds), seconds, title=title)


def share_cell(share: float | None) -> TableCell:
    """Return the cell of a share, in percent."""
    return TableCell(percent(share), share)


def roof_cell(share: float | None) -> TableCell:
    """Return the cell of a share of the roof, shown as at most 100 % or as above the roof."""
    return TableCell(roof_text(share), share)


def factor_cell(factor: float | None) -> TableCell:
    """Return the cell of a factor."""
    return TableCell(times(factor), factor)


def rate_cell(gflops: float) -> TableCell:
    """Return the cell of a rate in GFLOP/s; a dash if it is not finite."""
    return TableCell(f"{gflops:.1f}", gflops) if isfinite(gflops) else TableCell("-")


def count_cell(count: int | None) -> TableCell:
    """Return the cell of a count; a dash if it is unknown."""
    return TableCell(str(count) if count is not None else "-", count)


def error_cell(error: float | None, *, unproved: bool = False) -> TableCell:
    """Return the cell of an absolute error; a dash if unknown; marked if no independent oracle verified it."""
    return TableCell((f"{error:.2g}" if error is not None else "-") + ", unproved" * unproved, error)
