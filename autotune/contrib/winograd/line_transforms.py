"""Vector code for the transforms of a tile along one dimension, with few operations.

The two rows of B^T for points p and -p are x q(x) + p q(x) and x q(x) - p q(x) for one odd polynomial q: both are the
sum or difference of an even part and an odd part. Two columns of A^T likewise differ by powers of -1.
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
    """Vector code of the transforms for one tile size.

    Factors are loaded from memory. As constants, LLVM would hoist them out of all loops into registers that sums need:
    it then spilled sums of the products between transforms (256 channels and filters of 14 x 14 took twice as long).

    Attributes:
        filtering: Tile size.
        buffer: Factors of the transforms.
    """

    filtering: Filtering
    buffer: ir.Value

    @classmethod
    def allocate(cls, filtering: Filtering) -> "LineTransforms":
        """Store the factors in a buffer at the insertion point."""
        f32 = ir.F32Type.get()
        buffer = memref.alloc(ir.MemRefType.get([len(filtering.factors) or 1], f32), [], [])
        for number, factor in enumerate(filtering.factors):
            memref.store(arith.constant(f32, float(factor)), buffer, [index(number)])
        return cls(filtering, buffer)

    def inputs(self, values: Line) -> list[ir.Value]:
        """Return B^T d for vectors d of a tile's inputs along one dimension."""
        first, *paired, last = [list(zip(row, values, strict=True)) for row in self.filtering.of_inputs]
        results = [self.total(first)]
        for row in paired[::2]:
            even, odd = self.total(row[::2]), self.total(row[1::2])
            results += [arith.addf(even, odd), arith.subf(even, odd)]
        return [*results, self.total(last)]

    def outputs(self, values: Line) -> list[ir.Value]:
        """Return A^T m for vectors m of a tile's products along one dimension."""
        first, *paired, last = values
        pairs = list(zip(paired[::2], paired[1::2], strict=True))
        sums = [arith.addf(*pair) for pair in pairs]
        differences = [arith.subf(*pair) for pair in pairs]
        results = []
        for power, (of_first, *of_paired, of_last) in enumerate(self.filtering.of_outputs):
            terms = zip(of_paired[::2], differences if power % 2 else sums, strict=True)
            results.append(self.total([(of_first, first), (of_last, last), *terms]))
        return results

    def total(self, terms: Terms) -> ir.Value:
        """Return a sum of products with factors, starting with terms that need no multiplication."""
        (factor, value), *rest = sorted(((f, v) for f, v in terms if f), key=lambda term: term[0] != 1)
        total = value if factor == 1 else arith.mulf(value, self.spread(factor, value))
        for factor, value in rest:
            if abs(factor) == 1:
                total = arith.addf(total, value) if factor == 1 else arith.subf(total, value)
            else:
                total = math.fma(value, self.spread(factor, value), total)
        return total

    def spread(self, factor: Fraction, like: ir.Value) -> ir.Value:
        """Broadcast a factor to a vector of the type of another."""
        return vector.broadcast(like.type, memref.load(self.buffer, [index(self.filtering.factors.index(factor))]))
