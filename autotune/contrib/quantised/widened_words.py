"""Operands of bf16 matrix unit products, on buffers: activations in row order, columns of a weight transposed.

    X[m, w] = pair(x[m, 2 w], x[m, 2 w + 1])
    W[w, n] = pair(v[n, 2 w], v[n, 2 w + 1])      where v[n, k] = scale[n, k / block] q[n, k]

Scales are applied before rounding, so that sums over the whole of k stay in tiles.
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
PART = QUARTER // PAIR  # words per vector of elements
DEPTH = PAIR * LANES  # elements of k per tile


def words_of(values: ir.Value) -> ir.Value:
    """Round a vector of f32 to bf16 and pack it into half as many words."""
    rounded = arith.truncf(vector_of(QUARTER, "bf16"), values)
    return vector.bitcast(vector_of(PART, "i32"), rounded)


def line_of(parts: Sequence[ir.Value]) -> ir.Value:
    """Pack one or two vectors of elements into the words of a tile row, zero-padded."""
    words = [words_of(part) for part in parts]
    if len(words) < PAIR:
        words.append(vector.extract_strided_slice(words[0].type, splat(0, "i32"), [0], [PART], [1]))
    return vector.shuffle(*words, list(range(LANES)))


LineOfTile = Callable[[ir.Value, int], ir.Value]  # (tile along k, its vectors of elements) -> 16 words


def each_depth(quarters: int, write: Callable[[ir.Value, int], None]) -> None:
    """Emit code for every tile along k, given its index and the vectors of elements in one of its rows."""
    counted(quarters // PAIR, lambda depth: write(depth, PAIR))
    if quarters % PAIR:
        write(index(quarters // PAIR), 1)


def blocks_of(depth: ir.Value, halves: int, parts: int) -> list[ir.Value]:
    """Return the blocks in a tile along k: a single one of two halves, or one per vector of elements."""
    if halves == PAIR:
        return [depth]
    return [arith.addi(arith.muli(depth, index(PAIR)), index(part)) for part in range(parts)]


@dataclass(frozen=True)
class RowWords:
    """Activations as left operands of tiles.

    Attributes:
        halves: Activations ``(m, blocks, 16)``, f32, one buffer per half of a block.
        words: Words ``(m, words)``, padded to whole tiles; the row stride is an odd number of cache lines.
    """

    halves: Sequence[ir.Value]
    words: ir.Value

    @classmethod
    def allocate(cls, halves: Sequence[ir.Value]) -> "RowWords":
        """Allocate the buffer at the insertion point."""
        rows, blocks, _ = ir.MemRefType(halves[0].type).shape
        tiles, lines = -(-rows // LANES), -(-blocks * len(halves) * QUARTER // DEPTH)
        words_type = ir.MemRefType.get([tiles * LANES, (lines | 1) * LANES], ir.IntegerType.get_signless(32))
        return cls(halves, memref.alloc(words_type, [], []))

    @property
    def rows(self) -> int:
        """Number of rows of activations."""
        return int(ir.MemRefType(self.halves[0].type).shape[0])

    @property
    def quarters(self) -> int:
        """Vectors of elements per row."""
        return int(ir.MemRefType(self.halves[0].type).shape[1]) * len(self.halves)

    @property
    def depth_tiles(self) -> int:
        """Number of tiles along k."""
        return -(-self.quarters // PAIR)

    def write(self) -> None:
        """Emit the packing at the insertion point; rows that pad a tile are zero."""
        counted(self.rows, lambda row: self.write_row(row, lambda depth, parts: line_of(self.load(row, depth, parts))))
        beyond = ir.MemRefType(self.words.type).shape[0] - self.rows

        def write_beyond(number: ir.Value) -> None:
            self.write_row(arith.addi(number, index(self.rows)), lambda *_: splat(0, "i32"))

        counted(beyond, write_beyond)

    def write_row(self, row: ir.Value, line: LineOfTile) -> None:
        """Write the words of a row."""

        def write(depth: ir.Value, parts: int) -> None:
            vector.store(line(depth, parts), self.words, [row, arith.muli(depth, index(LANES))])

        each_depth(self.quarters, write)

    def load(self, row: ir.Value, depth: ir.Value, parts: int) -> list[ir.Value]:
        """Load the vectors of elements in a row of a tile."""
        element_vector = vector_of(QUARTER, "f32")
        blocks = blocks_of(depth, len(self.halves), parts)
        return [vector.load(element_vector, half, [row, block, index(0)]) for block in blocks for half in self.halves]


@dataclass(frozen=True)
class WidenedPanel:
    """Columns of a weight as right operands of tiles.

    Bytes are transposed before they are widened: the lanes of all later vectors are 16 columns, and a word of a column
    is four of its bytes or eight of its nibbles.

    Attributes:
        operands: Operands of the product.
        depth: Tiles along k in a row.
        capacity: Capacity in tiles along k: all of them, or a multiple of 16.
        words: Tiles ``(column tiles x capacity x 16, 16)``: row j has elements 2 j and 2 j + 1 of 16 columns.
        numbers: Scales, and minimums, of 16 columns, each repeated twice, ``(blocks, 32)``, f32.
    """

    operands: BlockOperands
    depth: int
    capacity: int
    words: ir.Value
    numbers: tuple[ir.Value, ...]

    @classmethod
    def allocate(cls, operands: BlockOperands, depth: int, capacity: int) -> "WidenedPanel":
        """Allocate the buffers at the insertion point."""
        words_type = ir.MemRefType.get([operands.columns * capacity, LANES], ir.IntegerType.get_signless(32))
        of_blocks = ir.MemRefType.get([operands.steps.blocks, PAIR * LANES], ir.F32Type.get())
        numbers = tuple(memref.alloc(of_blocks, [], []) for _ in operands.scales)
        return cls(operands, depth, capacity, memref.alloc(words_type, [], []), numbers)

    def write(self, first: ir.Value, end: ir.Value) -> None:
        """Write the tiles along k in the range [first, end); `first` is a multiple of the capacity."""
        stored = StoredBytes.open(self.operands)
        counted(self.operands.columns // LANES, lambda tile: self.write_tile(stored, tile, first, end))

    def write_tile(self, stored: StoredBytes, tile: ir.Value, first: ir.Value, end: ir.Value) -> None:
        """Write a tile of columns."""
        columns = [arith.addi(arith.muli(tile, index(LANES)), index(number)) for number in range(LANES)]
        self.in_blocks(first, end, LANES, lambda at, count: self.write_numbers(columns, at, count))

        def write_step(at: ir.Value, count: int) -> None:
            row = self.first_row(tile, arith.subi(arith.divui(at, index(self.blocks)), first))
            self.write_step(stored, row, columns, at, count)

        self.in_blocks(first, end, self.operands.steps.count, write_step)

    @property
    def blocks(self) -> int:
        """Blocks per row of a tile."""
        return PAIR // self.operands.steps.halves

    def in_blocks(self, first: ir.Value, end: ir.Value, length: int, write: Callable[[ir.Value, int], None]) -> None:
        """Emit code for the blocks in a range of tiles along k, `length` at a time; `write` takes first and count."""
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
        """Write the scales and minimums of `count` blocks."""
        f32_vector = vector_of(LANES, "f32")
        for target, source in zip(self.numbers, self.operands.scales, strict=True):
            rows = [source.several(column, first, count, LANES) for column in columns]
            lines = transposed([vector.bitcast(vector_of(LANES, "i32"), row) for row in rows])
            for number, line in enumerate(lines[:count]):
                for half, lanes in enumerate(twice(vector.bitcast(f32_vector, line))):
                    vector.store(lanes, target, [arith.addi(first, index(number)), index(half * LANES)])

    def write_step(
        self, stored: StoredBytes, row: ir.Value, columns: list[ir.Value], at: ir.Value, blocks: int
    ) -> None:
        """Write whole tiles of `blocks` blocks, which 64 bytes of every column hold, zero-padded."""
        steps, halves = self.operands.steps, [index(half * LANES) for half in range(PAIR)]
        step = arith.divui(at, index(steps.count))
        rows = [
            vector.bitcast(vector_of(LANES, "i32"), stored.load(column, RowStep(step), blocks)) for column in columns
        ]
        for column in columns:  # the next columns: hardware prefetchers do not detect this stride
            stored.fetch(arith.addi(column, index(LANES)), RowStep(step), 1)
        positions = [arith.addi(at, index(block)) for block in range(blocks)]
        vector_f32 = vector_of(LANES, "f32")
        numbers = [
            [[vector.load(vector_f32, each, [block, half]) for half in halves] for each in self.numbers]
            for block in positions
        ]
        total = -(-blocks * steps.halves * QUARTER // DEPTH) * DEPTH  # elements in these tiles
        for lane, words in enumerate(transposed(rows)):
            quarter, byte = divmod(WORD * lane, QUARTER)
            block, pairs = steps.block_of(quarter), twice(words)
            for number, pair in product(range(steps.vectors), range(0, WORD, PAIR)):
                element = (block * steps.halves + steps.half_of(number, quarter)) * QUARTER + byte + pair
                if element < total:
                    line = self.line(pairs, pair, number, numbers[block]) if block < blocks else splat(0, "i32")
                    vector.store(line, self.words, [arith.addi(row, index(element // PAIR)), index(0)])

    def line(self, words: list[ir.Value], byte: int, nibble: int, numbers: list[list[ir.Value]]) -> ir.Value:
        """Return the words of two consecutive bytes, or of the same nibble of each, scaled and rounded to bf16."""
        scales, *least = numbers
        first = [8 * (byte + lane % PAIR) + self.operands.steps.bits * nibble for lane in range(LANES)]
        values = [
            arith.mulf(self.whole_numbers(lanes, first), scale) for lanes, scale in zip(words, scales, strict=True)
        ]
        values = [arith.subf(*each) for each in zip(values, least[0], strict=True)] if least else values
        both = vector.shuffle(*values, list(range(DEPTH)))
        return vector.bitcast(vector_of(LANES, "i32"), arith.truncf(vector_of(DEPTH, "bf16"), both))

    def whole_numbers(self, words: ir.Value, first: list[int]) -> ir.Value:
        """Return a byte or nibble of every word in f32; `first` is its lowest bit in each lane."""
        lanes = vector_of(LANES, "f32")
        if self.operands.steps.bits == 4:
            return numbers_of_nibbles(arith.shrui(words, lanes_of(first)), signed=self.operands.steps.signed)
        upper = arith.shli(words, lanes_of([24 - each for each in first]))
        return arith.sitofp(lanes, arith.shrsi(upper, splat(24, "i32")))

    def first_row(self, tile: ir.Value, depth: ir.Value) -> ir.Value:
        """Return the first row of a tile in `words`."""
        return arith.muli(arith.addi(arith.muli(tile, index(self.capacity)), depth), index(LANES))


def twice(values: ir.Value) -> list[ir.Value]:
    """Repeat every lane twice, in place: one vector for the first eight lanes and one for the others."""
    halves = range(0, LANES, LANES // PAIR)
    return [vector.shuffle(values, values, [half + lane // PAIR for lane in range(LANES)]) for half in halves]


def lanes_of(numbers: list[int]) -> ir.Value:
    """Return a constant vector of i32."""
    vector_type = vector_of(LANES, "i32")
    word = ir.IntegerType.get_signless(32)
    return arith.constant(
        vector_type, ir.DenseElementsAttr.get([ir.IntegerAttr.get(word, each) for each in numbers], vector_type)
    )
