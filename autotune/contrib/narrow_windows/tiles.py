"""A register tile of a convolution of words by a matrix unit, on buffers: tiles of rows by tiles of filters.

    for i, j:  for c step 16:
      y[h, w to w + 16, f to f + 16] += x[h + i, w + j to w + j + 16, c to c + 16] * k[i, j, c to c + 16, f to f + 16]

c counts words. Tiles are whole, as the unit wants them all of one shape (`compiler/passes/tiles.py`): behind the last
row of an image the inputs have room for what is loaded, and what is computed of that is not stored.
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
    """Neighbouring rows, all in one tile.

    Attributes:
        at: Step of every parallel loop where it begins.
        rows: How many of them there are, 16 at most.
    """

    at: Steps
    rows: int


def row_tiles(begin: Steps, row: int, rows: int) -> list[TileOfRows]:
    """So many rows, as tiles of 16; the last may have fewer.

    Args:
        begin: Step of every parallel loop where they begin.
        row: The loop that they are steps of.
        rows: How many of them there are.
    """
    found = []
    for first in range(0, rows, ROWS):
        at = {**begin, row: arith.addi(begin[row], index(first))}
        found.append(TileOfRows(at, min(ROWS, rows - first)))
    return found


@dataclass(frozen=True)
class WindowTileSums:
    """One register tile: all its sums stay in tiles.

    Attributes:
        arrays: Arrays that it is a part of.
        tiles: Rows of it; filters are the same for all.
        filters: Number of filters, those of a panel at most.
        unit: Whether the processor's unit computes it; else it is emulated.
    """

    arrays: WordArrays
    tiles: Sequence[TileOfRows]
    filters: int
    unit: bool

    def write(self) -> None:
        """All of it, at the insertion point."""
        by: TileUnit = Amx() if self.unit else Emulated(self.arrays.precision.sums)
        starts = [(row, column) for row in range(len(self.tiles)) for column in range(0, self.filters, LANES)]
        zeros = [by.zero() for _ in starts]
        loop = scf.ForOp(index(0), index(self.arrays.taps), index(1), zeros if by.carries else [])
        with ir.InsertionPoint(loop.body):
            begin = list(loop.inner_iter_args) if by.carries else zeros
            sums = self.sum_words(by, loop.induction_variable, starts, begin)
            scf.yield_(sums if by.carries else [])
        for (row, column), total in zip(starts, list(loop.results) if by.carries else zeros, strict=True):
            self.store(by, total, self.tiles[row], column)

    def sum_words(self, by: TileUnit, tap: ir.Value, starts: Sequence[tuple[int, int]], begin: Tiles) -> Tiles:
        """The sums with the products of a tap more; of each, which of the tiles of rows it is of, and the filter."""
        precision = self.arrays.precision
        taps = [self.arrays.of_tap(tile.at, tap) for tile in self.tiles]

        def load_x(row: int, word: ir.Value) -> ir.Value:
            return by.load(self.tile_of_x(taps[row], word), once=False)

        def load_kernel(column: int, word: ir.Value) -> ir.Value:
            return by.load(self.tile_of_kernel(taps[0], word, column), once=False)

        return TileLoop(by, precision, self.arrays.words // precision.parts, starts).write(begin, load_x, load_kernel)

    def tile_of_x(self, at: Steps, word: ir.Value) -> ir.Value:
        """Words of the inputs of 16 rows, as a view; a row is as far from the next as a window is."""
        arrays = self.arrays
        steps = [next((by for loop, by in terms if loop == arrays.row), 0) for terms in arrays.loops.of_x[:-1]]
        sizes = [ROWS if step else 1 for step in steps]
        return view_of(arrays.x, [*arrays.of_x(at), word], [*sizes, LANES], [*(step or 1 for step in steps), 1])

    def tile_of_kernel(self, at: Steps, word: ir.Value, column: int) -> ir.Value:
        """Words of 16 filters, as a view that `panel_loads.py` finds in a panel."""
        *taps, _, lane = self.arrays.loops.of_kernel
        indices = [*(at[loop] for loop in taps), word, arith.addi(at[lane], index(column))]
        view = view_of(self.arrays.kernel, indices, [*[1] * len(taps), ROWS, LANES], [1] * len(indices))
        view.owner.attributes[TILE] = ir.UnitAttr.get()
        return view

    def store(self, by: TileUnit, sums: ir.Value, tile: TileOfRows, column: int) -> None:
        """Write a tile of results, as far as there are rows and filters."""
        arrays, count = self.arrays, min(LANES, self.filters - column)
        element = arrays.precision.sums
        indices = arrays.of_y(tile.at, lane=column)
        if tile.rows == ROWS and count == LANES:
            sizes = [ROWS if loop == arrays.row else 1 for loop in arrays.loops.of_y[:-1]]
            by.store(sums, view_of(arrays.y, indices, [*sizes, LANES], [1] * len(indices)))
            return
        held = new_tile(element)
        by.store(sums, tile_of(held, index(0), index(0)))
        mask = vector.constant_mask(vector_of(LANES, "i1"), [count])

        def write(row: ir.Value) -> None:
            line = vector.load(vector_of(LANES, element), held, [row, index(0)])
            at = [arith.addi(p, row) if d == arrays.row else p for d, p in zip(arrays.loops.of_y, indices, strict=True)]
            if count == LANES:
                vector.store(line, arrays.y, at)
            else:
                vector.maskedstore(arrays.y, at, mask, line)

        counted(tile.rows, write)
