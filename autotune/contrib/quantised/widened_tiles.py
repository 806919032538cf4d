"""Code for many rows by a weight in blocks, by tiles of bf16, on buffers: some columns are widened once for all rows.

    y[m, n] = sum over k of  bf16(scale[n, k / block] q[n, k]) bf16(x[m, k])

As in `tile_product.py` the weight is the left operand, as its rows lie. Scales are multiplied before anything is
rounded, so that sums of all of k stay in tiles, two of rows by two of columns.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from mlir import ir
from mlir.dialects import arith, memref, scf, vector

from autotune.compiler.ir.loops import counted
from autotune.compiler.ir.values import index
from autotune.compiler.passes.rounding import splat, vector_of
from autotune.compiler.passes.tiles import Amx, Emulated, tile_of
from autotune.compiler.passes.words_of_b import transposed
from autotune.contrib.quantised.block_operands import BlockOperands
from autotune.contrib.quantised.block_steps import LANES, QUARTER
from autotune.contrib.quantised.loads import fetch_for_writing
from autotune.contrib.quantised.widen import widened_block

PAIR = 2  # values of a word; tiles of a register tile, each way
DEPTH = PAIR * LANES  # elements of k in a tile


def words_of(values: ir.Value) -> ir.Value:
    """A vector of f32, rounded, as half as many words."""
    rounded = arith.truncf(vector_of(QUARTER, "bf16"), values)
    return vector.bitcast(vector_of(QUARTER // PAIR, "i32"), rounded)


@dataclass(frozen=True)
class TurnedRows:
    """Activations as right operands of tiles.

    Attributes:
        halves: Activations ``(m, blocks, 16)``, f32, for each half of a block.
        words: Tiles, ``(row tiles x depth tiles x 16, 16)``: row j has words of elements 2 j and 2 j + 1 of 16 rows.
    """

    halves: Sequence[ir.Value]
    words: ir.Value

    @classmethod
    def allocate(cls, halves: Sequence[ir.Value]) -> "TurnedRows":
        """A buffer for them, at the insertion point."""
        rows, blocks, _ = ir.MemRefType(halves[0].type).shape
        count = -(-rows // LANES) * -(-blocks * len(halves) * QUARTER // DEPTH) * LANES
        return cls(halves, memref.alloc(ir.MemRefType.get([count, LANES], ir.IntegerType.get_signless(32)), [], []))

    @property
    def quarters(self) -> int:
        """Vectors of elements of a row."""
        return int(ir.MemRefType(self.halves[0].type).shape[1]) * len(self.halves)

    @property
    def depth_tiles(self) -> int:
        """Tiles along k."""
        return -(-self.quarters // PAIR)

    def write(self) -> None:
        """All of it, at the insertion point."""
        whole, left = divmod(int(ir.MemRefType(self.halves[0].type).shape[0]), LANES)
        counted(whole, lambda tile: self.write_rows(tile, LANES))
        if left:
            self.write_rows(index(whole), left)

    def write_rows(self, tile: ir.Value, rows: int) -> None:
        """All of k of some rows."""
        counted(self.quarters // PAIR, lambda depth: self.write_tile(tile, depth, rows, PAIR))
        if self.quarters % PAIR:
            self.write_tile(tile, index(self.quarters // PAIR), rows, 1)

    def write_tile(self, tile: ir.Value, depth: ir.Value, rows: int, quarters: int) -> None:
        """A tile of so many rows and vectors of elements; what is beyond is zero."""
        lines = [splat(0, "i32")] * LANES
        for row in range(rows):
            at = arith.addi(arith.muli(tile, index(LANES)), index(row))
            parts = [words_of(self.load(at, depth, quarter)) for quarter in range(quarters)]
            nothing = vector.extract_strided_slice(parts[0].type, splat(0, "i32"), [0], [QUARTER // PAIR], [1])
            both = parts if quarters == PAIR else [parts[0], nothing]
            lines[row] = vector.shuffle(*both, list(range(LANES)))
        first = self.first_row(tile, depth)
        for number, line in enumerate(transposed(lines)):
            vector.store(line, self.words, [arith.addi(first, index(number)), index(0)])

    def load(self, row: ir.Value, depth: ir.Value, quarter: int) -> ir.Value:
        """A vector of elements of a row."""
        if len(self.halves) == PAIR:
            half, block = self.halves[quarter], depth
        else:
            half, block = self.halves[0], arith.addi(arith.muli(depth, index(PAIR)), index(quarter))
        return vector.load(vector_of(QUARTER, "f32"), half, [row, block, index(0)])

    def first_row(self, tile: ir.Value, depth: ir.Value) -> ir.Value:
        """Where a tile begins."""
        return arith.muli(arith.addi(arith.muli(tile, index(self.depth_tiles)), depth), index(LANES))


@dataclass(frozen=True)
class WidenedTiles:
    """All rows by some columns, a multiple of 16.

    Attributes:
        operands: What is multiplied.
        x: Activations in tiles.
        unit: Whether the processor's unit computes it; else it is emulated.
    """

    operands: BlockOperands
    x: TurnedRows
    unit: bool

    def write(self) -> None:
        """All of it, at the insertion point."""
        panel = self.write_panel()
        held = memref.alloc(ir.MemRefType.get([LANES, LANES], ir.F32Type.get()), [], [])
        whole, left = divmod(self.operands.rows, LANES)
        counted(whole // PAIR, lambda pair: self.write_rows(panel, held, arith.muli(pair, index(PAIR)), [LANES] * PAIR))
        rest = [*[LANES] * (whole % PAIR), *[left] * bool(left)]
        if rest:
            self.write_rows(panel, held, index(whole // PAIR * PAIR), rest)

    def write_panel(self) -> ir.Value:
        """Columns of the weight as words ``(n, words)``; rows lie an odd number of cache lines apart."""
        steps, wide = self.operands.steps, self.x.depth_tiles * LANES
        kind = ir.MemRefType.get(
            [self.operands.columns, wide + LANES * (self.x.depth_tiles % 2 == 0)], ir.IntegerType.get_signless(32)
        )
        panel, part = memref.alloc(kind, [], []), QUARTER // PAIR

        def widen(column: ir.Value) -> None:
            def block_of(block: ir.Value) -> None:
                start = arith.muli(block, index(part * steps.halves))
                for half, values in enumerate(widened_block(self.operands, column, block)):
                    vector.store(words_of(values), panel, [column, arith.addi(start, index(half * part))])

            counted(steps.blocks, block_of)
            if self.x.quarters % PAIR:
                nothing = vector.extract_strided_slice(vector_of(part, "i32"), splat(0, "i32"), [0], [part], [1])
                vector.store(nothing, panel, [column, index(self.x.quarters * part)])

        counted(self.operands.columns, widen)
        return panel

    def write_rows(self, panel: ir.Value, held: ir.Value, tile: ir.Value, rows: list[int]) -> None:
        """One tile of rows or two by all columns."""
        count = PAIR if self.operands.columns // LANES % PAIR == 0 else 1
        tiles = [arith.addi(tile, index(number)) for number in range(len(rows))]

        def part(number: ir.Value) -> None:
            first = arith.muli(number, index(count * LANES))
            columns = [arith.addi(first, index(each * LANES)) for each in range(count)]
            places = [
                [[arith.addi(arith.muli(each, index(LANES)), index(row)), column] for row in range(height)]
                for (each, height), column in product(zip(tiles, rows, strict=True), columns)
            ]
            for place in (each for group in places for each in group):
                fetch_for_writing(self.operands.result, place)
            by = Amx() if self.unit else Emulated("f32")
            for total, group in zip(self.sums(by, panel, tiles, columns), places, strict=True):
                by.store(total, tile_of(held, index(0), index(0)))
                self.add(held, group)

        counted(self.operands.columns // (count * LANES), part)

    def sums(
        self, by: Amx | Emulated, panel: ir.Value, tiles: list[ir.Value], columns: list[ir.Value]
    ) -> list[ir.Value]:
        """Tiles of sums, columns of each tile of rows after the other."""
        starts = [by.zero() for _ in range(len(tiles) * len(columns))]
        loop = scf.ForOp(index(0), index(self.x.depth_tiles), index(1), starts if by.carries else [])
        with ir.InsertionPoint(loop.body):
            depth = loop.induction_variable
            found = list(loop.inner_iter_args) if by.carries else starts
            at = arith.muli(depth, index(LANES))
            of_weight = [by.load(tile_of(panel, column, at), once=False) for column in columns]
            for number, tile in enumerate(tiles):
                of_x = by.load(tile_of(self.x.words, self.x.first_row(tile, depth), index(0)), once=False)
                for which, left in enumerate(of_weight):
                    place = number * len(columns) + which
                    found[place] = by.dot("bf16", found[place], left, of_x)
            scf.yield_(found if by.carries else [])
        return list(loop.results) if by.carries else starts

    def add(self, held: ir.Value, places: list[list[ir.Value]]) -> None:
        """Add a tile to the result, turned over, as far as there are rows."""
        kind = vector_of(LANES, "f32")
        lines = transposed([vector.load(kind, held, [index(row), index(0)]) for row in range(LANES)])
        for place, total in zip(places, lines, strict=False):
            before = vector.load(kind, self.operands.result, place)
            vector.store(arith.addf(before, total), self.operands.result, place)
