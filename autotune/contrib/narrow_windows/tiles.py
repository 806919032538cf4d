"""Lowering of one register tile of a convolution of words to a matrix unit: tiles of rows by tiles of filters.

    for i, j:  for c step 16:
      y[h, w to w + 16, f to f + 16] += x[h + i, w + j to w + j + 16, c to c + 16] * k[i, j, c to c + 16, f to f + 16]

The loop over c counts words. All tiles have the same shape, as the unit requires (`compiler/passes/tiles.py`): inputs
are padded after the last row of an image, and the results computed from the padding are not stored.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, scf, vector

from autotune.compiler.ir.loops import counted
from autotune.compiler.ir.values import index
from autotune.compiler.passes.rounding import LANES, vector_of
from autotune.compiler.passes.tiles import Amx, Emulated, TileLoop, TileUnit, new_tile, tile_of, view_of
from autotune.contrib.narrow_windows.register_tile import Steps, WordArrays
from autotune.core.host.matrix_unit import ROWS
from autotune.core.scripts.marks import TILE

Tiles = list[ir.Value]


@dataclass(frozen=True)
class TileOfRows:
    """Adjacent rows in one tile.

    Attributes:
        at: Step of every parallel loop at the beginning of the tile.
        rows: Number of valid rows, at most 16.
    """

    at: Steps
    rows: int


def row_tiles(begin: Steps, row: int, rows: int) -> list[TileOfRows]:
    """Split a range of rows into tiles of 16; the last may have fewer.

    Args:
        begin: Step of every parallel loop at the beginning of the range.
        row: Loop over rows.
        rows: Number of rows.
    """
    tiles = []
    for first in range(0, rows, ROWS):
        at = {**begin, row: arith.addi(begin[row], index(first))}
        tiles.append(TileOfRows(at, min(ROWS, rows - first)))
    return tiles


@dataclass(frozen=True)
class WindowTileSums:
    """One register tile, whose sums stay in tile registers.

    Attributes:
        arrays: Buffers of the convolution.
        tiles: Tiles of rows; all have the same filters.
        filters: Number of filters, at most those of a panel.
        unit: Whether to use the processor's matrix unit; otherwise it is emulated.
    """

    arrays: WordArrays
    tiles: Sequence[TileOfRows]
    filters: int
    unit: bool

    def write(self) -> None:
        """Emit the whole tile at the insertion point."""
        matrix_unit: TileUnit = Amx() if self.unit else Emulated(self.arrays.precision.sums)
        starts = [(row, column) for row in range(len(self.tiles)) for column in range(0, self.filters, LANES)]
        zeros = [matrix_unit.zero() for _ in starts]
        loop = scf.ForOp(index(0), index(self.arrays.taps), index(1), zeros if matrix_unit.carries else [])
        with ir.InsertionPoint(loop.body):
            begin = list(loop.inner_iter_args) if matrix_unit.carries else zeros
            sums = self.sum_words(matrix_unit, loop.induction_variable, starts, begin)
            scf.yield_(sums if matrix_unit.carries else [])
        for (row, column), total in zip(starts, list(loop.results) if matrix_unit.carries else zeros, strict=True):
            self.store(matrix_unit, total, self.tiles[row], column)

    def sum_words(self, by: TileUnit, tap: ir.Value, starts: Sequence[tuple[int, int]], begin: Tiles) -> Tiles:
        """Return the sums plus the products of a tap; `starts` has each sum's index of the tile of rows, and filter."""
        precision = self.arrays.precision
        taps = [self.arrays.of_tap(tile.at, tap) for tile in self.tiles]

        def load_x(row: int, word: ir.Value) -> ir.Value:
            return by.load(self.tile_of_x(taps[row], word), once=False)

        def load_kernel(column: int, word: ir.Value) -> ir.Value:
            return by.load(self.tile_of_kernel(taps[0], word, column), once=False)

        return TileLoop(by, precision, self.arrays.words // precision.parts, starts).write(begin, load_x, load_kernel)

    def tile_of_x(self, at: Steps, word: ir.Value) -> ir.Value:
        """Return a view of the input words of 16 rows, whose stride is that of the windows."""
        arrays = self.arrays
        steps = [next((by for loop, by in terms if loop == arrays.row), 0) for terms in arrays.loops.of_x[:-1]]
        sizes = [ROWS if step else 1 for step in steps]
        return view_of(arrays.x, [*arrays.of_x(at), word], [*sizes, LANES], [*(step or 1 for step in steps), 1])

    def tile_of_kernel(self, at: Steps, word: ir.Value, column: int) -> ir.Value:
        """Return a view of the words of 16 filters, which `panel_loads.py` resolves in a panel."""
        *taps, _, lane = self.arrays.loops.of_kernel
        indices = [*(at[loop] for loop in taps), word, arith.addi(at[lane], index(column))]
        view = view_of(self.arrays.kernel, indices, [*[1] * len(taps), ROWS, LANES], [1] * len(indices))
        view.owner.attributes[TILE] = ir.UnitAttr.get()
        return view

    def store(self, by: TileUnit, sums: ir.Value, tile: TileOfRows, column: int) -> None:
        """Store the valid rows and filters of a tile of results."""
        arrays, count = self.arrays, min(LANES, self.filters - column)
        element = arrays.precision.sums
        indices = arrays.of_y(tile.at, lane=column)
        if tile.rows == ROWS and count == LANES:
            sizes = [ROWS if loop == arrays.row else 1 for loop in arrays.loops.of_y[:-1]]
            by.store(sums, view_of(arrays.y, indices, [*sizes, LANES], [1] * len(indices)))
            return
        full_tile = new_tile(element)
        by.store(sums, tile_of(full_tile, index(0), index(0)))
        mask = vector.constant_mask(vector_of(LANES, "i1"), [count])

        def write(row: ir.Value) -> None:
            line = vector.load(vector_of(LANES, element), full_tile, [row, index(0)])
            at = [arith.addi(p, row) if d == arrays.row else p for d, p in zip(arrays.loops.of_y, indices, strict=True)]
            if count == LANES:
                vector.store(line, arrays.y, at)
            else:
                vector.maskedstore(arrays.y, at, mask, line)

        counted(tile.rows, write)
