"""Regions of a grid, one a stage of the pipeline, in the order in which the pipeline walks them.

snake:  0 1 2   turned:  0 3 4   rows:  0 1 2
...     5 4 3   ...      1 2 5   ...    3 4 5
"""

from dataclasses import dataclass

from autotune.contrib.costs.mesh.grid import Grid

ORDERS = ("snake", "turned", "rows")


@dataclass(frozen=True)
class CoreRegion:
    """A rectangle of cores.

    Attributes:
        row: First row.
        column: First column.
        height: Rows.
        width: Columns.
    """

    row: int
    column: int
    height: int
    width: int

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.height, self.width


def regions_of(grid: Grid, stages: int, stage_rows: int, order: str) -> tuple[CoreRegion, ...]:
    """Equal regions in so many rows of regions, in the order of the pipeline; what is left over stays idle.

    Args:
        grid: The grid.
        stages: Number of regions.
        stage_rows: Rows of regions; divides `stages`.
        order: One of `ORDERS`.
    """
    stage_columns = stages // stage_rows
    height, width = grid.rows // stage_rows, grid.columns // stage_columns
    outer, inner = (stage_columns, stage_rows) if order == "turned" else (stage_rows, stage_columns)
    found = []
    for line in range(outer):
        positions = range(inner)
        for position in reversed(positions) if order != "rows" and line % 2 else positions:
            row, column = (position, line) if order == "turned" else (line, position)
            found.append(CoreRegion(row * height, column * width, height, width))
    return tuple(found)


def hops(before: CoreRegion, after: CoreRegion) -> int:
    """Links between a core of a region and the corresponding core of another one, first along the row."""
    return abs(after.column - before.column) + abs(after.row - before.row)


def transfer(grid: Grid, before: CoreRegion, after: CoreRegion, size: float) -> float:
    """Cycles to hand a value on that lies evenly on a region: each core to the corresponding one of the next.

    Routes go along the row first (XY). Regions do not overlap, so that at a boundary between columns all of a row's
    cores have sent through one link, and at one between rows all of a column's.

    Args:
        grid: The grid.
        before: CoreRegion that has the value.
        after: CoreRegion that is to have it.
        size: Bytes of the value.
    """
    if before == after or size <= 0:
        return 0.0
    across = min(abs(after.column - before.column), before.width) / before.width
    along = min(abs(after.row - before.row), before.height) / before.height
    busiest = max(across * size / before.height, along * size / before.width)
    return -(-busiest // grid.link_bytes) + hops(before, after) * grid.hop_cycles + grid.core_cycles
