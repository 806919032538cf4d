"""A register tile of a convolution of words by a matrix unit, on buffers: tiles of rows by tiles of filters.

    for i, j:  for c step 16:
      y[h, w to w + 16, f to f + 16] += x[h + i, w + j to w + j + 16, c to c + 16] * k[i, j, c to c + 16, f to f + 16]

c counts words. Tiles are whole, as the unit wants them all of one shape (`compiler/passes/tiles.py`): behind the last
row of an image the inputs have room for what is loaded, and what is computed of that is not stored.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, memref, scf, vector

from autotune.compiler.ir.loops import counted
from autotune.compiler.ir.values import index
from autotune.compiler.passes.rounding import LANES, vector_of
from autotune.compiler.passes.tiles import Amx, Emulated, TileUnit, new_tile, tile_of
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
        by: TileUnit = Amx() if self.unit else Emulated("f32")
        columns = range(0, self.filters, LANES)
        zeros = [by.zero() for _ in self.tiles for _ in columns]
        loop = scf.ForOp(index(0), index(self.arrays.taps), index(1), zeros if by.carries else [])
        with ir.InsertionPoint(loop.body):
            begin = list(loop.inner_iter_args) if by.carries else zeros
            scf.yield_(self.sum_words(by, loop.induction_variable, begin))
        sums = iter(list(loop.results) if by.carries else zeros)
        for tile in self.tiles:
            for column in columns:
                self.store(by, next(sums), tile, column)

    def sum_words(self, by: TileUnit, tap: ir.Value, begin: Tiles) -> Tiles:
        """The sums with the products of a tap more; nothing where they are no values."""
        precision, words = self.arrays.precision, self.arrays.words // self.arrays.precision.parts
        taps = [self.arrays.of_tap(tile.at, tap) for tile in self.tiles]
        loop = scf.ForOp(index(0), index(words), index(ROWS), begin if by.carries else [])
        with ir.InsertionPoint(loop.body):
            sums = list(loop.inner_iter_args) if by.carries else begin
            of_x: dict[int, ir.Value] = {}
            of_kernel: dict[int, ir.Value] = {}
            before = (-1, -1)  # of products that follow each other one operand is the same, and stays loaded
            for parts in precision.products:
                place_in_x, place = (arith.addi(loop.induction_variable, index(part * words)) for part in parts)
                of_x, of_kernel = of_x if parts[0] == before[0] else {}, of_kernel if parts[1] == before[1] else {}
                before, number = parts, 0
                for row, at in enumerate(taps):
                    for column in range(0, self.filters, LANES):  # loads stand where they are needed first
                        if row not in of_x:
                            of_x[row] = by.load(self.tile_of_x(at, place_in_x), once=False)
                        if column not in of_kernel:
                            of_kernel[column] = by.load(self.tile_of_kernel(at, place, column), once=False)
                        sums[number] = by.dot(precision.element, sums[number], of_x[row], of_kernel[column])
                        number += 1
            scf.yield_(sums if by.carries else [])
        return list(loop.results)

    def tile_of_x(self, at: Steps, word: ir.Value) -> ir.Value:
        """Words of the inputs of 16 rows, as a view; a row is as far from the next as a window is."""
        arrays = self.arrays
        steps = [next((by for loop, by in terms if loop == arrays.row), 0) for terms in arrays.loops.of_x[:-1]]
        sizes = [ROWS if step else 1 for step in steps]
        return view_of(arrays.x, [*arrays.of_x(at), word], [*sizes, LANES], [*(step or 1 for step in steps), 1])

    def tile_of_kernel(self, at: Steps, word: ir.Value, column: int) -> ir.Value:
        """Words of 16 filters, as a view that `panel_loads.py` finds in a panel."""
        *taps, _, lane = self.arrays.loops.of_kernel
        place = [*(at[loop] for loop in taps), word, arith.addi(at[lane], index(column))]
        view = view_of(self.arrays.kernel, place, [*[1] * len(taps), ROWS, LANES], [1] * len(place))
        view.owner.attributes[TILE] = ir.UnitAttr.get()
        return view

    def store(self, by: TileUnit, sums: ir.Value, tile: TileOfRows, column: int) -> None:
        """Write a tile of results, as far as there are rows and filters."""
        arrays, count = self.arrays, min(LANES, self.filters - column)
        place = arrays.of_y(tile.at, lane=column)
        if tile.rows == ROWS and count == LANES:
            sizes = [ROWS if loop == arrays.row else 1 for loop in arrays.loops.of_y[:-1]]
            by.store(sums, view_of(arrays.y, place, [*sizes, LANES], [1] * len(place)))
            return
        held = new_tile("f32")
        by.store(sums, tile_of(held, index(0), index(0)))
        mask = vector.constant_mask(vector_of(LANES, "i1"), [count])

        def write(row: ir.Value) -> None:
            line = vector.load(vector_of(LANES, "f32"), held, [row, index(0)])
            at = [arith.addi(p, row) if d == arrays.row else p for d, p in zip(arrays.loops.of_y, place, strict=True)]
            if count == LANES:
                vector.store(line, arrays.y, at)
            else:
                vector.maskedstore(arrays.y, at, mask, line)

        counted(tile.rows, write)


def view_of(source: ir.Value, offsets: Sequence[ir.Value], sizes: Sequence[int], steps: Sequence[int]) -> ir.Value:
    """Rows of a tile as a view of two dimensions: those along which it has more than one element."""
    kind, dynamic = ir.MemRefType(source.type), ir.ShapedType.get_dynamic_stride_or_offset()
    strides, _ = kind.get_strides_and_offset()
    kept = [dim for dim in range(len(sizes)) if sizes[dim] > 1]
    layout = ir.StridedLayoutAttr.get(dynamic, [strides[dim] * steps[dim] for dim in kept])
    view = ir.MemRefType.get([sizes[dim] for dim in kept], kind.element_type, layout, kind.memory_space)
    nowhere = [dynamic] * len(sizes)
    return memref.SubViewOp(view, source, list(offsets), [], [], nowhere, list(sizes), list(steps)).result
