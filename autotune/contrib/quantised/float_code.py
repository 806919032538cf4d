"""Code for few rows by a weight in blocks, in f32, on buffers: marked ops read the weight as it is stored.

    for step: sums[n] += scale[n, step] (sum over i of part i of the words of 64 bytes of column n  times  x[step, i])

A word of four bytes has four parts of 8 bits or eight of 4; activations lie in that order, once a call
(`FloatRows`), so that 16 words become 16 lanes by a shift. Nibbles are widened by a table of 16 numbers where there is
an instruction for that, which looks at the last four bits of a lane alone; else by arithmetic, to the same numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, math, vector

from autotune.compiler.ir.values import index
from autotune.compiler.passes.rounding import splat, vector_of
from autotune.contrib.quantised.activation_rows import ActivationRows
from autotune.contrib.quantised.block_steps import BYTES, LANES, QUARTER, BlockSteps
from autotune.contrib.quantised.loads import load_first
from autotune.contrib.quantised.loops import RowStep
from autotune.contrib.quantised.rounded_rows import block_sum
from autotune.contrib.quantised.row_sums import RowSums, StepPart, Sums
from autotune.contrib.quantised.stored_bytes import StoredBytes
from autotune.contrib.quantised.widen import numbers_of_nibbles

WORD, BYTE = 4, 8  # bytes of a word, bits of a byte


def floats_of_step(steps: BlockSteps) -> int:
    """Numbers of a step of a row of activations."""
    return steps.vectors * BYTES


def floats_of_row(steps: BlockSteps) -> int:
    """Numbers of a row: those of all steps, then, where they are subtracted, sums of blocks, whole vectors."""
    return steps.steps * floats_of_step(steps) + (-(-steps.blocks // LANES) * LANES if steps.least else 0)


@dataclass(frozen=True)
class FloatRows(ActivationRows):
    """Rows in the order that words of a weight have, ``(m, floats_of_row)`` of f32."""

    def step(self, row: ir.Value, step: ir.Value, blocks: int) -> None:
        """A step's numbers, of so many blocks; what is beyond is zero."""
        layout, nothing = self.steps, splat(0, "f32")
        indices, values = self.load_blocks(row, step, blocks)
        start = arith.muli(step, index(floats_of_step(layout)))
        for number in range(layout.vectors):
            quarters = [(layout.block_of(each), layout.half_of(number, each)) for each in range(BYTES // QUARTER)]
            lines = [values[block][half] if block < blocks else nothing for block, half in quarters]
            for part, lanes in enumerate(every_fourth(lines)):
                offset = arith.addi(start, index(number * BYTES + part * LANES))
                vector.store(lanes, self.buffer, [row, offset])
        if layout.least:
            self.keep_sums(row, indices, values)

    def keep_sums(self, row: ir.Value, indices: Sequence[ir.Value], values: Sequence[Sequence[ir.Value]]) -> None:
        """Sums of blocks, behind all steps."""
        behind = index(self.steps.steps * floats_of_step(self.steps))
        for block, each in zip(indices, values, strict=True):
            total = vector.broadcast(vector_of(1, "f32"), block_sum(each))
            vector.store(total, self.buffer, [row, arith.addi(block, behind)])


def every_fourth(lines: Sequence[ir.Value]) -> list[ir.Value]:
    """Of four vectors of 16, one behind the other, four that have every fourth element, from each of the first on."""
    pairs = [vector.shuffle(*lines[at : at + 2], list(range(2 * LANES))) for at in (0, 2)]
    return [vector.shuffle(*pairs, list(range(first, WORD * LANES, WORD))) for first in range(WORD)]


@dataclass(frozen=True)
class FloatProduct(RowSums):
    """Sums in f32.

    Attributes:
        x: Activations, as `FloatRows` writes them.
        lookup: Whether nibbles are widened by a table.
    """

    x: ir.Value
    lookup: bool

    def step(self, stored: StoredBytes, rows: list[ir.Value], step: RowStep, sums: Sums, part: StepPart) -> Sums:
        """Sums with a step more."""
        found: dict[tuple[int, int], ir.Value] = {}
        start = step.times(floats_of_step(self.steps))
        for column in range(self.columns):
            words = vector.bitcast(vector_of(LANES, "i32"), stored.load(index(column), step, part.blocks))
            stored.fetch(index(column), step, self.ahead)
            totals: list[ir.Value | None] = [None] * len(rows)
            for number in range(WORD * self.steps.vectors):
                numbers, offset = self.widened(words, number), arith.addi(start, index(number * LANES))
                for row, x in enumerate(rows):
                    given, before = vector.load(vector_of(LANES, "f32"), self.x, [x, offset]), totals[row]
                    totals[row] = arith.mulf(numbers, given) if before is None else math.fma(numbers, given, before)
            for row, total in enumerate(totals):
                found[row, column] = math.fma(total, part.scales[column], sums[row * self.columns + column])
        return [found[element] for element in self.elements(rows)]

    def widened(self, words: ir.Value, number: int) -> ir.Value:
        """A part of every word in f32: bytes in their order, of nibbles first those below."""
        bits, lanes = self.steps.bits, vector_of(LANES, "f32")
        above, byte = divmod(number, WORD)
        lowest = byte * BYTE + above * bits
        if bits < BYTE and self.lookup:
            lowered = arith.shrui(words, splat(lowest, "i32")) if lowest else words
            return numbers_of_nibbles(lowered, signed=self.steps.signed)
        top = splat(32 - bits - lowest, "i32")
        raised = arith.shli(words, top) if lowest + bits < 32 else words
        shift = arith.shrsi if self.steps.signed else arith.shrui
        return arith.sitofp(lanes, shift(raised, splat(32 - bits, "i32")))

    def given_sums(self, row: ir.Value, first: ir.Value, count: int) -> ir.Value:
        """Sums of the activations of so many blocks, behind the numbers of all steps."""
        offset = arith.addi(first, index(self.steps.steps * floats_of_step(self.steps)))
        return load_first(self.x, [row, offset], count, LANES)
