"""The transforms of a tile along one of its dimensions, as vector code with few operations.

Two rows of B^T that belong to points p and -p are x q(x) + p q(x) and x q(x) - p q(x) for one odd polynomial q: both
are made of one sum of even positions and one of odd positions. Two columns of A^T differ likewise, by powers of -1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from mlir import ir
from mlir.dialects import arith, math, memref, vector

from autotune.compiler.ir.values import index
from autotune.contrib.winograd.transform import Filtering

Line = Sequence[ir.Value]
Terms = Sequence[tuple[Fraction, ir.Value]]


@dataclass(frozen=True)
class LineTransforms:
    """Vector code of the transforms of a size of tiles.

    Factors lie in memory. LLVM moves constants out of all loops, and keeps them in registers that sums need: it then
    spilled sums of the products between transforms (256 channels and filters of 14 x 14 took twice as long).

    Attributes:
        filtering: Size of a tile.
        buffer: Factors of the transforms.
    """

    filtering: Filtering
    buffer: ir.Value

    @classmethod
    def allocate(cls, filtering: Filtering) -> "LineTransforms":
        """Write the factors to memory, at the insertion point."""
        kind = ir.F32Type.get()
        buffer = memref.alloc(ir.MemRefType.get([len(filtering.factors) or 1], kind), [], [])
        for number, factor in enumerate(filtering.factors):
            memref.store(arith.constant(kind, float(factor)), buffer, [index(number)])
        return cls(filtering, buffer)

    def inputs(self, values: Line) -> list[ir.Value]:
        """B^T d, for vectors d of the inputs of a tile along one dimension."""
        first, *paired, last = [list(zip(row, values, strict=True)) for row in self.filtering.of_inputs]
        found = [self.total(first)]
        for row in paired[::2]:
            even, odd = self.total(row[::2]), self.total(row[1::2])
            found += [arith.addf(even, odd), arith.subf(even, odd)]
        return [*found, self.total(last)]

    def outputs(self, values: Line) -> list[ir.Value]:
        """A^T m, for vectors m of the products of a tile along one dimension."""
        first, *paired, last = values
        pairs = list(zip(paired[::2], paired[1::2], strict=True))
        sums = [arith.addf(*pair) for pair in pairs]
        differences = [arith.subf(*pair) for pair in pairs]
        found = []
        for power, (of_first, *of_paired, of_last) in enumerate(self.filtering.of_outputs):
            terms = zip(of_paired[::2], differences if power % 2 else sums, strict=True)
            found.append(self.total([(of_first, first), (of_last, last), *terms]))
        return found

    def total(self, terms: Terms) -> ir.Value:
        """A sum of products with factors; first come those that need no multiplication."""
        (factor, value), *rest = sorted(((f, v) for f, v in terms if f), key=lambda term: term[0] != 1)
        total = value if factor == 1 else arith.mulf(value, self.spread(factor, value))
        for factor, value in rest:
            if abs(factor) == 1:
                total = arith.addf(total, value) if factor == 1 else arith.subf(total, value)
            else:
                total = math.fma(value, self.spread(factor, value), total)
        return total

    def spread(self, factor: Fraction, like: ir.Value) -> ir.Value:
        """A factor in every lane of a vector like another."""
        return vector.broadcast(like.type, memref.load(self.buffer, [index(self.filtering.factors.index(factor))]))
