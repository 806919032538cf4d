"""Section on tasks that round their operands: speed-up and error, by task."""

from itertools import pairwise

import matplotlib as mpl

from autotune.core.console import duration
from autotune.reports.error_front import FrontPoint, error_front
from autotune.reports.pictures.errors import front
from autotune.reports.pictures.gallery import Picture, plain_name
from autotune.reports.pictures.style import SETTINGS
from autotune.reports.sections.blocks import DataTable, Gallery, Section, TableCell, TableColumn, TableRow
from autotune.reports.sections.cells import time_cell
from autotune.reports.winner import Winner

ANCHOR, TITLE = "rounding", "What rounding buys"
HEADS = ("with in f32, too", "instead of", "a call", "slower by", "error")


def rounding_of(winner: Winner) -> list[Section]:
    """Return the section; an empty list if no task rounds or none was measured in f32.

    Args:
        winner: Summary of the bundle.
    """
    points = error_front(winner)
    if len(points) < 2:
        return []
    first, last = points[0], points[-1]
    factor = last.seconds / first.seconds
    summary = (
        f"Rounding makes a call {factor:.2f} x as fast as the same schedules with these tasks in f32, and its outputs "
        f"are off by {first.error:.1e} of their largest value. Steps from there, the cheapest first; expected, from "
        "times of tasks alone and independent errors."
    )
    rows = [step_row(before, point) for before, point in pairwise(points)]
    head = TableRow(
        [TableCell("as recorded"), TableCell(""), time_cell(first.seconds), TableCell(""), error_cell(first)]
    )
    table = DataTable(summary, [TableColumn(name, name not in HEADS[:2]) for name in HEADS], [head, *rows])
    caption = (
        f"Time against error. All of it in f32 takes {duration(last.seconds)}, as recorded {duration(first.seconds)}."
    )
    with mpl.rc_context(SETTINGS):
        picture = Picture(f"{plain_name(winner.payload)}-front", caption, front(winner.payload, points, winner.error))
    return [Section(ANCHOR, TITLE, [Gallery([picture], table)])]


def step_row(before: FrontPoint, point: FrontPoint) -> TableRow:
    """Return the row of a step in which one more task is in f32."""
    slowdown = TableCell(duration(point.seconds - before.seconds))
    return TableRow(
        [TableCell(point.exact), TableCell(point.family), time_cell(point.seconds), slowdown, error_cell(point)]
    )


def error_cell(point: FrontPoint) -> TableCell:
    """Return the cell of a point's error."""
    return TableCell(f"{point.error:.1e}")
