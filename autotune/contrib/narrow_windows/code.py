"""Code of ours for convolutions of words, on buffers: register tiles of dot products.

    for a panel of filters: for h: for w0 step rows:
      for i, j:  for c:   y[h, w0 + r, f0 to f0 + width] += dot(x[h + i, w0 + r + j, c], k[i, j, c, f0 to f0 + width])

c counts words.
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
    """Write the code of every marked op.

    Args:
        module: Bufferized module.
        unit: Whether the processor's matrix unit multiplies tiles; else it is emulated.
        threads: Threads that the program runs on.

    Raises:
        CompileError: Stage ``transform``; a schedule left an op that is no block of a convolution of words.
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
        arrays: Arrays that it goes over.
        rows: Rows of a register tile.
        width: Filters of a panel.
        unit: Whether the processor's matrix unit multiplies tiles.
    """

    arrays: WordArrays
    rows: int
    width: int
    unit: bool

    @classmethod
    def of(cls, op: ir.Operation, *, unit: bool) -> "WindowSums":
        """Read a marked op.

        Raises:
            CompileError: Stage ``transform``; it is not what stands for a convolution of words, or not marked whole.
        """
        loops = WindowLoops.of(op)
        if loops is None:
            raise CompileError("transform", f"{SUMS} must be on a convolution, got {op.name}")
        precision = precision_named(ir.StringAttr(op.attributes[SUMS]).value)
        x, kernel, y = op.operands
        rows, width = marked_numbers(op, ROWS, WIDTH)
        return cls(WordArrays(precision, loops, x, kernel, y), rows, width, unit)

    def write(self) -> None:
        """All of it, at the insertion point."""
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
        """The loop whose steps share what is loaded of the kernel: over rows, or over lines, if one fits a tile."""
        *others, row = self.arrays.loops.rows
        few = self.arrays.precision.by_tiles and self.arrays.sizes[row] <= ROWS_OF_TILE < self.rows
        return others[-1] if few and others else row

    def for_each(self, loops: Sequence[int], at: Steps, write: Callable[[Steps], None]) -> None:
        """Code for every step of some loops."""
        if not loops:
            write(at)
            return
        loop, *rest = loops
        counted(self.arrays.sizes[loop], lambda step: self.for_each(rest, {**at, loop: step}, write))

    def write_rows(self, filters: int, at: Steps) -> None:
        """One register tile after the other."""
        over = self.over
        step = self.rows if over == self.arrays.row else self.rows // ROWS_OF_TILE

        def tile(count: int, number: ir.Value) -> None:
            here = {**at, over: arith.muli(number, index(step))}
            if self.arrays.precision.by_tiles:
                WindowTileSums(self.arrays, self.tiles(here, count), filters, self.unit).write()
            else:
                RegisterTileSums(self.arrays, here, count, filters).write()

        whole, left = divmod(self.arrays.sizes[over], step)
        counted(whole, partial(tile, step))
        if left:
            tile(left, index(whole))

    def tiles(self, begin: Steps, count: int) -> list[TileOfRows]:
        """The tiles of a register tile: of so many rows from one on, or of so many lines, each whole."""
        over, row = self.over, self.arrays.row
        if over == row:
            return row_tiles(begin, row, count)
        lines = [{**begin, over: arith.addi(begin[over], index(line)), row: index(0)} for line in range(count)]
        return [TileOfRows(line, self.arrays.sizes[row]) for line in lines]
