"""Lower products of few rows with a block-quantized weight to i8 dot products, on buffers.

    for step: sums[n] += (u[n, step] . x[step] + start[step]) scale_x[step] scale_w[n, step]      16 lanes each

Activations are rounded before the outermost loop in which they are invariant. The instruction is AVX-512's
``vpdpbusd``; without it, the same sums are emitted as multiplications.
"""

from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, math, vector

from autotune.compiler.ir.values import index
from autotune.compiler.passes.rounding import dot_bytes, splat, vector_of
from autotune.contrib.quantised.block_steps import LANES
from autotune.contrib.quantised.loads import load_first
from autotune.contrib.quantised.loops import RowStep
from autotune.contrib.quantised.rounded_rows import words_without_sign
from autotune.contrib.quantised.row_sums import RowSums, StepPart, Sums
from autotune.contrib.quantised.stored_bytes import StoredBytes


@dataclass(frozen=True)
class DotProduct(RowSums):
    """Product with integer sums.

    Attributes:
        words: Rounded rows of activations.
    """

    words: ir.Value

    def step(self, stored: StoredBytes, rows: list[ir.Value], step: RowStep, sums: Sums, part: StepPart) -> Sums:
        """Return the sums after one more step."""
        new_sums: dict[tuple[int, int], ir.Value] = {}
        start = step.times(self.steps.words)
        for column in range(self.columns):
            words = vector.bitcast(vector_of(LANES, "i32"), stored.load(index(column), step, part.blocks))
            weight = words_without_sign(words, self.steps)
            stored.fetch(index(column), step, self.ahead)
            scale = part.scales[column]
            for row, x in enumerate(rows):
                activations = [self.load_words(x, start, number) for number in range(self.steps.vectors)]
                total = self.load_words(x, start, self.steps.vectors) if self.steps.shift else splat(0, "i32")
                for weight_bytes, activation_bytes in zip(weight, activations, strict=True):
                    total = dot_bytes(total, weight_bytes, activation_bytes)
                lanes = arith.bitcast(vector_of(LANES, "f32"), self.load_words(x, start, self.steps.vectors + 1))
                scaled = arith.mulf(arith.sitofp(vector_of(LANES, "f32"), total), lanes)
                new_sums[row, column] = math.fma(scaled, scale, sums[row * self.columns + column])
        return [new_sums[element] for element in self.elements(rows)]

    def load_words(self, row: ir.Value, start: ir.Value, part: int) -> ir.Value:
        """Load a vector of words of a step."""
        return vector.load(vector_of(LANES, "i32"), self.words, [row, arith.addi(start, index(part * LANES))])

    def activation_sums(self, row: ir.Value, first: ir.Value, count: int) -> ir.Value:
        """Return the sums of the activations of `count` blocks, which are stored after the words of all steps."""
        offset = arith.addi(first, index(self.steps.steps * self.steps.words))
        return arith.bitcast(vector_of(LANES, "f32"), load_first(self.words, [row, offset], count, LANES))
