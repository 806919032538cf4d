"""Code for products of bytes in blocks, on buffers: marked ops multiply activations in 8 bits.

    for step: sums[n] += (u[n, step] . x[step] + start[step]) scale_x[step] scale_w[n, step]      16 lanes each

Activations are rounded before the outermost loop around the op. The instruction is AVX-512's ``vpdpbusd``; without it,
the same sums are written as multiplications.
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
    """Sums in whole numbers.

    Attributes:
        words: Rounded rows of activations.
    """

    words: ir.Value

    def step(self, stored: StoredBytes, rows: list[ir.Value], step: RowStep, sums: Sums, part: StepPart) -> Sums:
        """Sums with a step more."""
        found: dict[tuple[int, int], ir.Value] = {}
        start = step.times(self.steps.words)
        for column in range(self.columns):
            words = vector.bitcast(vector_of(LANES, "i32"), stored.load(index(column), step, part.blocks))
            weight = words_without_sign(words, self.steps)
            stored.fetch(index(column), step, self.ahead)
            scale = part.scales[column]
            for row, x in enumerate(rows):
                given = [self.load_words(x, start, number) for number in range(self.steps.vectors)]
                total = self.load_words(x, start, self.steps.vectors) if self.steps.shift else splat(0, "i32")
                for ours, theirs in zip(weight, given, strict=True):
                    total = dot_bytes(total, ours, theirs)
                lanes = arith.bitcast(vector_of(LANES, "f32"), self.load_words(x, start, self.steps.vectors + 1))
                scaled = arith.mulf(arith.sitofp(vector_of(LANES, "f32"), total), lanes)
                found[row, column] = math.fma(scaled, scale, sums[row * self.columns + column])
        return [found[element] for element in self.elements(rows)]

    def load_words(self, row: ir.Value, start: ir.Value, part: int) -> ir.Value:
        """A vector of words of a step."""
        return vector.load(vector_of(LANES, "i32"), self.words, [row, arith.addi(start, index(part * LANES))])

    def given_sums(self, row: ir.Value, first: ir.Value, count: int) -> ir.Value:
        """Sums of the activations of so many blocks, behind the words of all steps."""
        offset = arith.addi(first, index(self.steps.steps * self.steps.words))
        return arith.bitcast(vector_of(LANES, "f32"), load_first(self.words, [row, offset], count, LANES))
