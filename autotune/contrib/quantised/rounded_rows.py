"""Rounding of activations to 8 bits with one scale per block, into rows of words in the layout of `block_steps`."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from mlir import ir
from mlir.dialects import arith, math, memref, vector

from autotune.compiler.ir.values import index
from autotune.compiler.passes.rounding import ROUND, dot_bytes, splat, vector_of
from autotune.contrib.quantised.activation_rows import ActivationRows
from autotune.contrib.quantised.block_steps import BYTES, LANES, QUARTER, BlockSteps
from autotune.core.precision import MOST_STEPS

MOST = 127  # integer of the largest activation of a block
LEAST = int(np.float32(MOST / MOST_STEPS).view(np.int32))  # bits of the smallest maximum that a scale is based on
SIGN = 2**31 - 1
NIBBLE = 0x0F0F0F0F


def word_of_bytes(byte: int) -> int:
    """Return a word of four equal bytes as a signed integer."""
    return int.from_bytes(bytes([byte] * 4), "little", signed=True)


def words_without_sign(stored: ir.Value, steps: BlockSteps) -> list[ir.Value]:
    """Convert words of a weight as stored to words of unsigned integers; words of nibbles give two each."""
    parts = [stored]
    if steps.bits != 8:
        parts = [arith.andi(part, splat(NIBBLE, "i32")) for part in (stored, arith.shrui(stored, splat(4, "i32")))]
    if not steps.shift:
        return parts
    return [arith.xori(part, splat(word_of_bytes(steps.shift), "i32")) for part in parts]


def block_scale(values: Sequence[ir.Value]) -> tuple[ir.Value, ir.Value]:
    """Return the scale of a block and its inverse; NaN if an element is NaN."""
    word, f32 = ir.IntegerType.get_signless(32), ir.F32Type.get()
    bits = [arith.andi(arith.bitcast(vector_of(LANES, "i32"), v), splat(SIGN, "i32")) for v in values]
    most = arith.maxsi(splat(LEAST, "i32"), bits[0])
    if len(bits) > 1:
        most = arith.maxsi(most, bits[1])
    largest = arith.bitcast(f32, vector.reduction(word, vector.CombiningKind.MAXSI, most))
    inverse = arith.divf(arith.constant(f32, float(MOST)), largest)
    return arith.mulf(largest, arith.constant(f32, 1 / MOST)), inverse


def block_sum(values: Sequence[ir.Value]) -> ir.Value:
    """Return the sum of a block's elements."""
    total = values[0] if len(values) == 1 else arith.addf(*values)
    add = vector.CombiningKind.ADD
    return vector.reduction(ir.F32Type.get(), add, total, fastmath=arith.FastMathFlags.reassoc)


def in_steps(values: ir.Value, inverse: ir.Value) -> ir.Value:
    """Quantize elements to i8, given the inverse of the scale."""
    spread = vector.broadcast(vector_of(LANES, "f32"), inverse)
    summed = math.fma(values, spread, splat(ROUND, "f32"))
    return arith.trunci(vector_of(QUARTER, "i8"), arith.bitcast(vector_of(LANES, "i32"), summed))


def joined(quarters: Sequence[ir.Value]) -> ir.Value:
    """Concatenate four vectors of 16 bytes and return them as words."""
    first, second = (vector.shuffle(*quarters[i : i + 2], list(range(2 * QUARTER))) for i in (0, 2))
    whole = vector.shuffle(first, second, list(range(BYTES)))
    return vector.bitcast(vector_of(LANES, "i32"), whole)


@dataclass(frozen=True)
class RoundedRows(ActivationRows):
    """Rounded activations as words of bytes, ``(m, words)``."""

    def step(self, row: ir.Value, step: ir.Value, blocks: int) -> None:
        """Write the words of a step of `blocks` blocks, zero-padded."""
        layout = self.steps
        scales: list[ir.Value] = []
        rounded: dict[tuple[int, int], ir.Value] = {}
        for block, (position, values) in enumerate(zip(*self.load_blocks(row, step, blocks), strict=True)):
            scale, inverse = block_scale(values)
            scales.append(scale)
            for half, each in enumerate(values):
                rounded[block, half] = in_steps(each, inverse)
            if layout.least:
                self.keep_sum(row, position, values)
        start = arith.muli(step, index(layout.words))
        vectors = [self.bytes_of(rounded, number) for number in range(layout.vectors)]
        for number, each in enumerate(vectors):
            vector.store(each, self.buffer, [row, self.first_word(start, number)])
        if layout.shift:
            sums = splat(0, "i32")
            for each in vectors:
                sums = dot_bytes(sums, splat(word_of_bytes(layout.shift), "i32"), each)
            below = arith.subi(splat(0, "i32"), sums)
            vector.store(below, self.buffer, [row, self.first_word(start, layout.vectors)])
        zero = arith.constant(ir.F32Type.get(), 0.0)
        by_block = [*scales, *[zero] * (layout.count - blocks)]
        lanes = vector.from_elements(vector_of(LANES, "f32"), [by_block[block] for block in layout.lane_blocks])
        bits = arith.bitcast(vector_of(LANES, "i32"), lanes)
        vector.store(bits, self.buffer, [row, self.first_word(start, layout.vectors + 1)])

    def first_word(self, start: ir.Value, number: int) -> ir.Value:
        """Return the index of the first word of a vector of a step."""
        return arith.addi(start, index(number * LANES))

    def bytes_of(self, rounded: dict[tuple[int, int], ir.Value], number: int) -> ir.Value:
        """Return a vector of bytes of a step as words."""
        nothing = splat(0, "i8", QUARTER)
        keys = [(self.steps.block_of(each), self.steps.half_of(number, each)) for each in range(BYTES // QUARTER)]
        return joined([rounded.get(key, nothing) for key in keys])

    def keep_sum(self, row: ir.Value, block: ir.Value, values: Sequence[ir.Value]) -> None:
        """Store the sum of a block's elements after all steps."""
        offset = arith.addi(block, index(self.steps.steps * self.steps.words))
        word = ir.IntegerType.get_signless(32)
        memref.store(arith.bitcast(word, block_sum(values)), self.buffer, [row, offset])
