"""Lowering of marked convolutions of words to register tiles of dot products, on buffers.

    for a panel of filters: for h: for w0 step rows:
      for i, j:  for c:   y[h, w0 + r, f0 to f0 + width] += dot(x[h + i, w0 + r + j, c], k[i, j, c, f0 to f0 + width])

The loop over c counts words.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from mlir import ir
from mlir.dialects import arith

from autotune.compiler.ir.loops import counted
from autotune.compiler.ir.values import index
from autotune.compiler.passes.marked_loops import marked, marked_numbers
from autotune.compiler.passes.rounding import Rounding
from autotune.contrib.narrow_windows.loops import WindowLoops
from autotune.contrib.narrow_windows.marks import ROUNDED, ROWS, SHARED, SUMS, WIDTH
from autotune.contrib.narrow_windows.register_tile import RegisterTileSums, Steps, WordArrays
from autotune.contrib.narrow_windows.rounding import SharedRounding
from autotune.contrib.narrow_windows.tiles import TileOfRows, WindowTileSums, row_tiles
from autotune.core.errors import CompileError
from autotune.core.host.matrix_unit import ROWS as ROWS_OF_TILE
from autotune.core.precision import precision_named


def write_windows(module: ir.Module, *, unit: bool, threads: int) -> None:
    """Lower every marked op.

    Args:
        module: Bufferized module.
        unit: Whether to use the processor's matrix unit; otherwise tiles are emulated.
        threads: Number of threads that the program runs on.

    Raises:
        CompileError: Stage ``transform``; a schedule left an op that is not a block of a convolution of words.
    """
    for op in marked(module.operation, ROUNDED):
        precision = precision_named(ir.StringAttr(op.attributes[ROUNDED]).value)
        with ir.InsertionPoint(op), op.location:
            source, words = op.operands
            rows = Rounding(precision, source, words, threads)
            SharedRounding(rows, list(ir.DenseI64ArrayAttr(op.attributes[SHARED]))).write()
        op.erase()
    for op in marked(module.operation, SUMS):
        with ir.InsertionPoint(op), op.location:
            WindowSums.of(op, unit=unit).write()
        op.erase()


@dataclass(frozen=True)
class WindowSums:
    """A block of a convolution of words.

    Attributes:
        arrays: Buffers of the convolution.
        rows: Rows per register tile.
        width: Filters per panel.
        unit: Whether to use the processor's matrix unit.
    """

    arrays: WordArrays
    rows: int
    width: int
    unit: bool

    @classmethod
    def of(cls, op: ir.Operation, *, unit: bool) -> "WindowSums":
        """Analyse a marked op.

        Raises:
            CompileError: Stage ``transform``; it is not the stand-in for a convolution of words, or lacks a mark.
        """
        loops = WindowLoops.of(op)
        if loops is None:
            raise CompileError("transform", f"{SUMS} must be on a convolution, got {op.name}")
        precision = precision_named(ir.StringAttr(op.attributes[SUMS]).value)
        x, kernel, y = op.operands
        rows, width = marked_numbers(op, ROWS, WIDTH)
        return cls(WordArrays(precision, loops, x, kernel, y), rows, width, unit)

    def write(self) -> None:
        """Emit the whole convolution at the insertion point."""
        *outer, lane = self.arrays.loops.of_y
        inner = {self.arrays.row, self.over}
        outer = [loop for loop in outer if loop not in inner]
        whole, left = divmod(self.arrays.sizes[lane], self.width)

        def panel(filters: int, number: ir.Value) -> None:
            first = arith.muli(number, index(self.width))
            self.for_each(outer, {lane: first}, lambda at: self.write_rows(filters, at))

        counted(whole, partial(panel, self.width))
        if left:
            panel(left, index(whole))

    @property
    def over(self) -> int:
        """Loop whose steps share loads of the kernel: over rows, or over lines if a tile holds a whole line."""
        *outer_loops, row = self.arrays.loops.rows
        is_short = self.arrays.precision.by_tiles and self.arrays.sizes[row] <= ROWS_OF_TILE < self.rows
        return outer_loops[-1] if is_short and outer_loops else row

    def for_each(self, loops: Sequence[int], at: Steps, write: Callable[[Steps], None]) -> None:
        """Emit code for every step of some loops."""
        if not loops:
            write(at)
            return
        loop, *rest = loops
        counted(self.arrays.sizes[loop], lambda step: self.for_each(rest, {**at, loop: step}, write))

    def write_rows(self, filters: int, at: Steps) -> None:
        """Emit one register tile after the other."""
        over = self.over
        step = self.rows if over == self.arrays.row else self.rows // ROWS_OF_TILE

        def tile(count: int, number: ir.Value) -> None:
            tile_begin = {**at, over: arith.muli(number, index(step))}
            if self.arrays.precision.by_tiles:
                WindowTileSums(self.arrays, self.tiles(tile_begin, count), filters, self.unit).write()
            else:
                RegisterTileSums(self.arrays, tile_begin, count, filters).write()

        whole, left = divmod(self.arrays.sizes[over], step)
        counted(whole, partial(tile, step))
        if left:
            tile(left, index(whole))

    def tiles(self, begin: Steps, count: int) -> list[TileOfRows]:
        """Return the tiles of a register tile: `count` rows, or `count` whole lines."""
        over, row = self.over, self.arrays.row
        if over == row:
            return row_tiles(begin, row, count)
        lines = [{**begin, over: arith.addi(begin[over], index(line)), row: index(0)} for line in range(count)]
        return [TileOfRows(line, self.arrays.sizes[row]) for line in lines]
