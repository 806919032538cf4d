"""Code for many rows by a weight in blocks, by tiles of bf16, on buffers: some columns are widened once for all rows.

    y[m, n] = sum over k of  bf16(x[m, k]) bf16(scale[n, k / block] q[n, k])

Sums of all of k stay in tiles, two of rows by two of columns, and are stored where they are wanted.
"""

from dataclasses import dataclass
from itertools import product

from mlir import ir
from mlir.dialects import arith, memref, scf, vector

from autotune.compiler.ir.loops import counted
from autotune.compiler.ir.values import index
from autotune.compiler.passes.rounding import vector_of
from autotune.compiler.passes.tiles import Amx, Emulated, TileUnit, dynamic_strides, new_tile, tile_of, zero_tile
from autotune.contrib.quantised.block_operands import BlockOperands
from autotune.contrib.quantised.block_steps import LANES
from autotune.contrib.quantised.loads import fetch_for_writing
from autotune.contrib.quantised.widened_words import RowWords, WidenedPanel

PAIR = 2  # tiles of a register tile, each way


@dataclass(frozen=True)
class ResultTile:
    """A tile of the result.

    Attributes:
        result: Sums ``(m, n)``, f32.
        row: First row of the tile.
        column: First column of the tile.
        height: Rows that are there.
        held: A tile that stands for one with fewer rows than others.
    """

    result: ir.Value
    row: ir.Value
    column: ir.Value
    height: int
    held: ir.Value

    @property
    def is_whole(self) -> bool:
        """Whether all rows are there."""
        return self.height == LANES

    def line(self, row: ir.Value) -> list[ir.Value]:
        """Where a row of it begins."""
        return [arith.addi(self.row, row), self.column]

    def fetch(self) -> None:
        """Fetch what is written later."""
        for row in range(self.height):
            fetch_for_writing(self.result, self.line(index(row)))

    def open(self) -> ir.Value:
        """A view of as many rows as others have, with what is in the result."""
        if self.is_whole:
            return tile_of(self.result, self.row, self.column)
        counted(self.height, lambda row: self.copy(row, into_result=False))
        return tile_of(self.held, index(0), index(0))

    def close(self) -> None:
        """Write to the result what is in the view."""
        if not self.is_whole:
            counted(self.height, lambda row: self.copy(row, into_result=True))

    def copy(self, row: ir.Value, *, into_result: bool) -> None:
        """Copy a row from the result, or into it."""
        ends = [(self.result, self.line(row)), (self.held, [row, index(0)])]
        target, source = ends if into_result else reversed(ends)
        vector.store(vector.load(vector_of(LANES, "f32"), *source), *target)


@dataclass(frozen=True)
class WidenedTiles:
    """All rows by some columns, a multiple of 16.

    Attributes:
        operands: What is multiplied.
        x: Activations.
        unit: Whether the processor's unit computes it; else it is emulated.
        from_zero: Whether sums start from zero, a truth value of the program; `None` where they start from the result.
    """

    operands: BlockOperands
    x: RowWords
    unit: bool
    from_zero: ir.Value | None

    def write(self) -> None:
        """All of it, at the insertion point."""
        panel = WidenedPanel.allocate(self.operands, self.x)
        panel.write()
        held, zeros = [new_tile("f32") for _ in range(PAIR)], zero_tile("f32")
        whole, left = divmod(self.operands.rows, LANES)

        def write_rows(first: ir.Value, heights: list[int]) -> None:
            RegisterTiles(self, panel, zeros, held, first, heights).write()

        counted(whole // PAIR, lambda pair: write_rows(arith.muli(pair, index(PAIR * LANES)), [LANES] * PAIR))
        if rest := [*[LANES] * (whole % PAIR), *[left] * bool(left)]:
            write_rows(index(whole // PAIR * PAIR * LANES), rest)


@dataclass(frozen=True)
class RegisterTiles:
    """One tile of rows or two by all columns.

    Attributes:
        of: What they are part of.
        panel: The columns.
        zeros: A tile of zeros.
        held: Tiles that stand for those of the result with fewer rows, one for each column of a register tile.
        row: First row of the first tile.
        heights: Rows of each tile.
    """

    of: WidenedTiles
    panel: WidenedPanel
    zeros: ir.Value
    held: list[ir.Value]
    row: ir.Value
    heights: list[int]

    def write(self) -> None:
        """All of it, at the insertion point."""
        tiles = self.of.operands.columns // LANES
        count = PAIR if tiles % PAIR == 0 else 1
        counted(tiles // count, lambda number: self.write_columns(arith.muli(number, index(count)), count))

    def write_columns(self, first: ir.Value, count: int) -> None:
        """A register tile of so many columns of tiles."""
        by = Amx() if self.of.unit else Emulated("f32")
        tiles = [arith.addi(first, index(number)) for number in range(count)]
        rows = [arith.addi(self.row, index(number * LANES)) for number in range(len(self.heights))]
        found = [
            ResultTile(self.of.operands.result, row, arith.muli(tile, index(LANES)), height, held)
            for (row, height), (tile, held) in product(
                zip(rows, self.heights, strict=True), zip(tiles, self.held, strict=False)
            )
        ]
        for each in found:
            each.fetch()
        views = [each.open() for each in found]
        sums = self.sums(by, rows, tiles, [by.begin(self.start(view)) for view in views])
        for each, view, total in zip(found, views, sums, strict=True):
            by.store(total, view)
            each.close()

    def start(self, view: ir.Value) -> ir.Value:
        """What sums of a tile of the result begin with, a view."""
        if self.of.from_zero is None:
            return view
        kind = dynamic_strides(view)
        zeros = memref.cast(kind, tile_of(self.zeros, index(0), index(0)))
        return arith.select(self.of.from_zero, zeros, memref.cast(kind, view))

    def sums(self, by: TileUnit, rows: list[ir.Value], tiles: list[ir.Value], starts: list[ir.Value]) -> list[ir.Value]:
        """Tiles of sums, those of a tile of rows after the other."""
        x, panel = self.of.x, self.panel
        loop = scf.ForOp(index(0), index(x.depth_tiles), index(1), starts if by.carries else [])
        with ir.InsertionPoint(loop.body):
            depth = loop.induction_variable
            found = list(loop.inner_iter_args) if by.carries else starts
            of_weight: dict[int, ir.Value] = {}
            for number, row in enumerate(rows):  # loads stand where they are needed first
                of_x = by.load(tile_of(x.words, row, arith.muli(depth, index(LANES))), once=False)
                for which, tile in enumerate(tiles):
                    if which not in of_weight:
                        view = tile_of(panel.words, panel.first_row(tile, depth), index(0))
                        of_weight[which] = by.load(view, once=True)
                    place = number * len(tiles) + which
                    found[place] = by.dot("bf16", found[place], of_x, of_weight[which])
            scf.yield_(found if by.carries else [])
        return list(loop.results) if by.carries else starts
