"""Operands of products by tiles of bf16, on buffers: activations as their rows lie, columns of a weight transposed.

    X[m, w] = pair(x[m, 2 w], x[m, 2 w + 1])
    W[w, n] = pair(v[n, 2 w], v[n, 2 w + 1])      where v[n, k] = scale[n, k / block] q[n, k]

Scales are multiplied before anything is rounded, so that sums of all of k stay in tiles.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

from mlir import ir
from mlir.dialects import arith, memref, scf, vector

from autotune.compiler.ir.loops import counted
from autotune.compiler.ir.values import index
from autotune.compiler.passes.rounding import splat, vector_of
from autotune.compiler.passes.words_of_b import transposed
from autotune.contrib.quantised.block_operands import BlockOperands
from autotune.contrib.quantised.block_steps import LANES, QUARTER
from autotune.contrib.quantised.loops import RowStep
from autotune.contrib.quantised.stored_bytes import StoredBytes
from autotune.contrib.quantised.widen import numbers_of_nibbles

WORD = 4  # bytes
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

    Bytes are transposed before they are widened: 16 columns are the lanes of all that follows, and a word of a column
    is four bytes of it or eight nibbles.

    Attributes:
        operands: The weight.
        depth: Tiles along k of a row.
        held: Tiles along k that it has room for: all, or a multiple of 16.
        words: Tiles ``(column tiles x held x 16, 16)``: row j has elements 2 j and 2 j + 1 of 16 columns.
        numbers: Scales, and least numbers, of 16 columns, each twice, ``(blocks, 32)``, f32.
    """

    operands: BlockOperands
    depth: int
    held: int
    words: ir.Value
    numbers: tuple[ir.Value, ...]

    @classmethod
    def allocate(cls, operands: BlockOperands, depth: int, held: int) -> "WidenedPanel":
        """Buffers for them, at the insertion point."""
        kind = ir.MemRefType.get([operands.columns * held, LANES], ir.IntegerType.get_signless(32))
        of_blocks = ir.MemRefType.get([operands.steps.blocks, PAIR * LANES], ir.F32Type.get())
        numbers = tuple(memref.alloc(of_blocks, [], []) for _ in operands.scales)
        return cls(operands, depth, held, memref.alloc(kind, [], []), numbers)

    def write(self, first: ir.Value, end: ir.Value) -> None:
        """The tiles along k from one on, a multiple of what it has room for, to one that is not there any more."""
        stored = StoredBytes.open(self.operands)
        counted(self.operands.columns // LANES, lambda tile: self.write_tile(stored, tile, first, end))

    def write_tile(self, stored: StoredBytes, tile: ir.Value, first: ir.Value, end: ir.Value) -> None:
        """A tile of columns."""
        columns = [arith.addi(arith.muli(tile, index(LANES)), index(number)) for number in range(LANES)]
        self.in_blocks(first, end, LANES, lambda at, count: self.write_numbers(columns, at, count))

        def write_step(at: ir.Value, count: int) -> None:
            row = self.first_row(tile, arith.subi(arith.divui(at, index(self.blocks)), first))
            self.write_step(stored, row, columns, at, count)

        self.in_blocks(first, end, self.operands.steps.count, write_step)

    @property
    def blocks(self) -> int:
        """Blocks of a row of a tile."""
        return PAIR // self.operands.steps.halves

    def in_blocks(self, first: ir.Value, end: ir.Value, length: int, write: Callable[[ir.Value, int], None]) -> None:
        """Code for a few blocks at a time of those that tiles along k hold; `write` is given the first and how many."""
        total = self.operands.steps.blocks
        whole = total // length * length
        last = arith.minui(arith.muli(end, index(self.blocks)), index(whole))
        loop = scf.ForOp(arith.muli(first, index(self.blocks)), last, index(length))
        with ir.InsertionPoint(loop.body):
            write(loop.induction_variable, length)
            scf.yield_([])
        if whole < total:
            is_last = arith.cmpi(arith.CmpIPredicate.eq, end, index(self.depth))
            with ir.InsertionPoint(scf.IfOp(is_last).then_block):
                write(index(whole), total - whole)
                scf.yield_([])

    def write_numbers(self, columns: list[ir.Value], first: ir.Value, count: int) -> None:
        """The numbers of so many blocks."""
        wide = vector_of(LANES, "f32")
        for target, source in zip(self.numbers, self.operands.scales, strict=True):
            rows = [source.several(column, first, count, LANES) for column in columns]
            lines = transposed([vector.bitcast(vector_of(LANES, "i32"), row) for row in rows])
            for number, line in enumerate(lines[:count]):
                for half, lanes in enumerate(twice(vector.bitcast(wide, line))):
                    vector.store(lanes, target, [arith.addi(first, index(number)), index(half * LANES)])

    def write_step(
        self, stored: StoredBytes, row: ir.Value, columns: list[ir.Value], at: ir.Value, blocks: int
    ) -> None:
        """Whole tiles of so many blocks, which 64 bytes of every column hold; what is beyond is zero."""
        steps, halves = self.operands.steps, [index(half * LANES) for half in range(PAIR)]
        step = arith.divui(at, index(steps.count))
        rows = [vector.bitcast(vector_of(LANES, "i32"), stored.load(each, RowStep(step), blocks)) for each in columns]
        for each in columns:  # of the next columns, which no prefetcher of a processor sees coming
            stored.fetch(arith.addi(each, index(LANES)), RowStep(step), 1)
        found = [arith.addi(at, index(block)) for block in range(blocks)]
        wide = vector_of(LANES, "f32")
        numbers = [
            [[vector.load(wide, each, [block, half]) for half in halves] for each in self.numbers] for block in found
        ]
        there = -(-blocks * steps.halves * QUARTER // DEPTH) * DEPTH  # elements of these tiles
        for lane, words in enumerate(transposed(rows)):
            quarter, byte = divmod(WORD * lane, QUARTER)
            block, pairs = steps.block_of(quarter), twice(words)
            for number, pair in product(range(steps.vectors), range(0, WORD, PAIR)):
                element = (block * steps.halves + steps.half_of(number, quarter)) * QUARTER + byte + pair
                if element < there:
                    line = self.line(pairs, pair, number, numbers[block]) if block < blocks else splat(0, "i32")
                    vector.store(line, self.words, [arith.addi(row, index(element // PAIR)), index(0)])

    def line(self, words: list[ir.Value], byte: int, nibble: int, numbers: list[list[ir.Value]]) -> ir.Value:
        """Words of the values of two bytes that follow each other, or of one nibble of each."""
        scales, *least = numbers
        first = [8 * (byte + lane % PAIR) + self.operands.steps.bits * nibble for lane in range(LANES)]
        values = [arith.mulf(self.whole_numbers(of, first), by) for of, by in zip(words, scales, strict=True)]
        values = [arith.subf(*each) for each in zip(values, least[0], strict=True)] if least else values
        both = vector.shuffle(*values, list(range(DEPTH)))
        return vector.bitcast(vector_of(LANES, "i32"), arith.truncf(vector_of(DEPTH, "bf16"), both))

    def whole_numbers(self, words: ir.Value, first: list[int]) -> ir.Value:
        """A byte or nibble of every word in f32, each from a bit of its own on."""
        lanes = vector_of(LANES, "f32")
        if self.operands.steps.bits == 4:
            return numbers_of_nibbles(arith.shrui(words, lanes_of(first)), signed=self.operands.steps.signed)
        upper = arith.shli(words, lanes_of([24 - each for each in first]))
        return arith.sitofp(lanes, arith.shrsi(upper, splat(24, "i32")))

    def first_row(self, tile: ir.Value, depth: ir.Value) -> ir.Value:
        """Where a tile begins."""
        return arith.muli(arith.addi(arith.muli(tile, index(self.held)), depth), index(LANES))


def twice(values: ir.Value) -> list[ir.Value]:
    """Every lane twice, side by side: vectors of the first eight, and of the others."""
    halves = range(0, LANES, LANES // PAIR)
    return [vector.shuffle(values, values, [half + lane // PAIR for lane in range(LANES)]) for half in halves]


def lanes_of(numbers: list[int]) -> ir.Value:
    """A vector of these words."""
    kind = vector_of(LANES, "i32")
    word = ir.IntegerType.get_signless(32)
    return arith.constant(kind, ir.DenseElementsAttr.get([ir.IntegerAttr.get(word, each) for each in numbers], kind))
