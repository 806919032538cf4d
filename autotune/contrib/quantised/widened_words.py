"""Operands of products by tiles of bf16, on buffers: activations as their rows lie, columns of a weight turned over.

    X[m, w] = pair(x[m, 2 w], x[m, 2 w + 1])
    W[w, n] = pair(v[n, 2 w], v[n, 2 w + 1])      where v[n, k] = scale[n, k / block] q[n, k]

Scales are multiplied before anything is rounded, so that sums of all of k stay in tiles.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, memref, vector

from autotune.compiler.ir.loops import counted
from autotune.compiler.ir.values import index
from autotune.compiler.passes.rounding import splat, vector_of
from autotune.compiler.passes.words_of_b import transposed
from autotune.contrib.quantised.block_operands import BlockOperands
from autotune.contrib.quantised.block_steps import LANES, QUARTER
from autotune.contrib.quantised.widen import widened_block

PAIR = 2  # values of a word
PART = QUARTER // PAIR  # words of a vector of elements
DEPTH = PAIR * LANES  # elements of k in a tile


def words_of(values: ir.Value) -> ir.Value:
    """A vector of f32, rounded, as half as many words."""
    rounded = arith.truncf(vector_of(QUARTER, "bf16"), values)
    return vector.bitcast(vector_of(PART, "i32"), rounded)


def line_of(parts: Sequence[ir.Value]) -> ir.Value:
    """The words of a row of a tile, of one vector of elements or two; what is beyond is zero."""
    words = [words_of(part) for part in parts]
    if len(words) < PAIR:
        words.append(vector.extract_strided_slice(words[0].type, splat(0, "i32"), [0], [PART], [1]))
    return vector.shuffle(*words, list(range(LANES)))


LineOfTile = Callable[[ir.Value, int], ir.Value]  # of a tile along k, and its vectors of elements: 16 words


def each_depth(quarters: int, write: Callable[[ir.Value, int], None]) -> None:
    """Code for every tile along k, and the vectors of elements that a row of it has."""
    counted(quarters // PAIR, lambda depth: write(depth, PAIR))
    if quarters % PAIR:
        write(index(quarters // PAIR), 1)


def blocks_of(depth: ir.Value, halves: int, parts: int) -> list[ir.Value]:
    """The blocks that a tile along k holds: one of two halves, or one for each of its vectors of elements."""
    if halves == PAIR:
        return [depth]
    return [arith.addi(arith.muli(depth, index(PAIR)), index(part)) for part in range(parts)]


@dataclass(frozen=True)
class RowWords:
    """Activations as left operands of tiles.

    Attributes:
        halves: Activations ``(m, blocks, 16)``, f32, for each half of a block.
        words: Words ``(m, words)``, whole tiles both ways; rows lie an odd number of cache lines apart.
    """

    halves: Sequence[ir.Value]
    words: ir.Value

    @classmethod
    def allocate(cls, halves: Sequence[ir.Value]) -> "RowWords":
        """A buffer for them, at the insertion point."""
        rows, blocks, _ = ir.MemRefType(halves[0].type).shape
        tiles, lines = -(-rows // LANES), -(-blocks * len(halves) * QUARTER // DEPTH)
        kind = ir.MemRefType.get([tiles * LANES, (lines | 1) * LANES], ir.IntegerType.get_signless(32))
        return cls(halves, memref.alloc(kind, [], []))

    @property
    def rows(self) -> int:
        """Rows that are there."""
        return int(ir.MemRefType(self.halves[0].type).shape[0])

    @property
    def quarters(self) -> int:
        """Vectors of elements of a row."""
        return int(ir.MemRefType(self.halves[0].type).shape[1]) * len(self.halves)

    @property
    def depth_tiles(self) -> int:
        """Tiles along k."""
        return -(-self.quarters // PAIR)

    def write(self) -> None:
        """All of it, at the insertion point; rows that fill up a tile are zero."""
        counted(self.rows, lambda row: self.write_row(row, lambda depth, parts: line_of(self.load(row, depth, parts))))
        beyond = ir.MemRefType(self.words.type).shape[0] - self.rows

        def write_beyond(number: ir.Value) -> None:
            self.write_row(arith.addi(number, index(self.rows)), lambda *_: splat(0, "i32"))

        counted(beyond, write_beyond)

    def write_row(self, row: ir.Value, line: LineOfTile) -> None:
        """The words of a row."""

        def write(depth: ir.Value, parts: int) -> None:
            vector.store(line(depth, parts), self.words, [row, arith.muli(depth, index(LANES))])

        each_depth(self.quarters, write)

    def load(self, row: ir.Value, depth: ir.Value, parts: int) -> list[ir.Value]:
        """Vectors of elements of a row of a tile."""
        kind = vector_of(QUARTER, "f32")
        blocks = blocks_of(depth, len(self.halves), parts)
        return [vector.load(kind, half, [row, block, index(0)]) for block in blocks for half in self.halves]


@dataclass(frozen=True)
class WidenedPanel:
    """Some columns of a weight as right operands of tiles.

    Attributes:
        operands: The weight.
        x: What it is multiplied by.
        words: Tiles ``(column tiles x depth tiles x 16, 16)``: row j has elements 2 j and 2 j + 1 of 16 columns.
    """

    operands: BlockOperands
    x: RowWords
    words: ir.Value

    @classmethod
    def allocate(cls, operands: BlockOperands, x: RowWords) -> "WidenedPanel":
        """A buffer for them, at the insertion point."""
        kind = ir.MemRefType.get([operands.columns * x.depth_tiles, LANES], ir.IntegerType.get_signless(32))
        return cls(operands, x, memref.alloc(kind, [], []))

    def write(self) -> None:
        """All of it, at the insertion point."""
        counted(
            self.operands.columns // LANES,
            lambda tile: each_depth(self.x.quarters, lambda depth, parts: self.write_tile(tile, depth, parts)),
        )

    def write_tile(self, tile: ir.Value, depth: ir.Value, parts: int) -> None:
        """A tile, of so many vectors of elements of each column."""
        columns = [arith.addi(arith.muli(tile, index(LANES)), index(number)) for number in range(LANES)]
        first = self.first_row(tile, depth)
        for number, line in enumerate(transposed([line_of(self.widen(each, depth, parts)) for each in columns])):
            vector.store(line, self.words, [arith.addi(first, index(number)), index(0)])

    def widen(self, column: ir.Value, depth: ir.Value, parts: int) -> list[ir.Value]:
        """Vectors of elements of a column."""
        blocks = blocks_of(depth, self.operands.steps.halves, parts)
        return [values for block in blocks for values in widened_block(self.operands, column, block)]

    def first_row(self, tile: ir.Value, depth: ir.Value) -> ir.Value:
        """Where a tile begins."""
        return arith.muli(arith.addi(arith.muli(tile, index(self.x.depth_tiles)), depth), index(LANES))
