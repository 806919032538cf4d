"""Lower products of few rows with a block-quantized weight to f32 vectors, on buffers; the weight is read as stored.

    for step: sums[n] += scale[n, step] (sum over i of part i of the words of 64 bytes of column n  times  x[step, i])

A word of four bytes has four 8-bit parts or eight 4-bit parts. Activations are reordered to match once per call
(`FloatRows`), so that a shift turns 16 words into 16 lanes. Nibbles are converted by a 16-entry lookup table if there
is an instruction that uses only the low four bits of each lane; otherwise by arithmetic, with the same result.
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

WORD, BYTE = 4, 8  # bytes per word, bits per byte


def floats_of_step(steps: BlockSteps) -> int:
    """Return the number of elements per step of a row of activations."""
    return steps.vectors * BYTES


def floats_of_row(steps: BlockSteps) -> int:
    """Return the length of a row: the elements of all steps, then block sums for the minimums, padded to vectors."""
    return steps.steps * floats_of_step(steps) + (-(-steps.blocks // LANES) * LANES if steps.least else 0)


@dataclass(frozen=True)
class FloatRows(ActivationRows):
    """Activations in the order of a weight's words, ``(m, floats_of_row)`` of f32."""

    def step(self, row: ir.Value, step: ir.Value, blocks: int) -> None:
        """Write the elements of a step of `blocks` blocks, zero-padded."""
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
        """Store the sums of blocks after the elements of all steps."""
        sums_offset = index(self.steps.steps * floats_of_step(self.steps))
        for block, each in zip(indices, values, strict=True):
            total = vector.broadcast(vector_of(1, "f32"), block_sum(each))
            vector.store(total, self.buffer, [row, arith.addi(block, sums_offset)])


def every_fourth(lines: Sequence[ir.Value]) -> list[ir.Value]:
    """Deinterleave four vectors of 16 lanes into four, of which vector i has every fourth element from i on."""
    pairs = [vector.shuffle(*lines[at : at + 2], list(range(2 * LANES))) for at in (0, 2)]
    return [vector.shuffle(*pairs, list(range(first, WORD * LANES, WORD))) for first in range(WORD)]


@dataclass(frozen=True)
class FloatProduct(RowSums):
    """Product with f32 sums.

    Attributes:
        x: Activations in the layout of `FloatRows`.
        lookup: Whether nibbles are converted by a lookup table.
    """

    x: ir.Value
    lookup: bool

    def step(self, stored: StoredBytes, rows: list[ir.Value], step: RowStep, sums: Sums, part: StepPart) -> Sums:
        """Return the sums after one more step."""
        new_sums: dict[tuple[int, int], ir.Value] = {}
        start = step.times(floats_of_step(self.steps))
        for column in range(self.columns):
            words = vector.bitcast(vector_of(LANES, "i32"), stored.load(index(column), step, part.blocks))
            stored.fetch(index(column), step, self.ahead)
            totals: list[ir.Value | None] = [None] * len(rows)
            for number in range(WORD * self.steps.vectors):
                numbers, offset = self.widened(words, number), arith.addi(start, index(number * LANES))
                for row, x in enumerate(rows):
                    activations, previous = vector.load(vector_of(LANES, "f32"), self.x, [x, offset]), totals[row]
                    totals[row] = (
                        arith.mulf(numbers, activations)
                        if previous is None
                        else math.fma(numbers, activations, previous)
                    )
            for row, total in enumerate(totals):
                new_sums[row, column] = math.fma(total, part.scales[column], sums[row * self.columns + column])
        return [new_sums[element] for element in self.elements(rows)]

    def widened(self, words: ir.Value, number: int) -> ir.Value:
        """Return part `number` of every word in f32: bytes in order; low nibbles first, then high ones."""
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

    def activation_sums(self, row: ir.Value, first: ir.Value, count: int) -> ir.Value:
        """Return the sums of the activations of `count` blocks, which are stored after the elements of all steps."""
        offset = arith.addi(first, index(self.steps.steps * floats_of_step(self.steps)))
        return load_first(self.x, [row, offset], count, LANES)
