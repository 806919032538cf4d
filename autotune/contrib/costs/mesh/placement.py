"""Placement of pipeline stages: rectangular regions of a grid, in the order of the pipeline.

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
    """Return equal regions in the order of the pipeline; the remaining cores are idle.

    Args:
        grid: The grid.
        stages: Number of regions.
        stage_rows: Number of rows of regions; divides `stages`.
        order: One of `ORDERS`.
    """
    stage_columns = stages // stage_rows
    height, width = grid.rows // stage_rows, grid.columns // stage_columns
    outer, inner = (stage_columns, stage_rows) if order == "turned" else (stage_rows, stage_columns)
    regions = []
    for line in range(outer):
        positions = range(inner)
        for position in reversed(positions) if order != "rows" and line % 2 else positions:
            row, column = (position, line) if order == "turned" else (line, position)
            regions.append(CoreRegion(row * height, column * width, height, width))
    return tuple(regions)


def hops(before: CoreRegion, after: CoreRegion) -> int:
    """Return the number of links between a core of a region and the corresponding core of another one."""
    return abs(after.column - before.column) + abs(after.row - before.row)


def transfer(grid: Grid, before: CoreRegion, after: CoreRegion, size: float) -> float:
    """Return the cycles to transfer an evenly distributed value, from each core to the corresponding one of a region.

    Routing is XY, along the row first. The busiest link bounds the time: at a boundary between regions of a row, it
    carries the messages of all cores of the row, and between regions of a column, those of the column.

    Args:
        grid: The grid.
        before: Region that has the value.
        after: Region that receives it.
        size: Bytes of the value.
    """
    if before == after or size <= 0:
        return 0.0
    across = min(abs(after.column - before.column), before.width) / before.width
    along = min(abs(after.row - before.row), before.height) / before.height
    busiest = max(across * size / before.height, along * size / before.width)
    return -(-busiest // grid.link_bytes) + hops(before, after) * grid.hop_cycles + grid.core_cycles
