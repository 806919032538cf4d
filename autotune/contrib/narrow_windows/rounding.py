"""Rounding of a convolution's inputs to words, on buffers, with one scale for all inputs that windows share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, memref, scf

from autotune.compiler.ir.loops import counted, split
from autotune.compiler.ir.values import index
from autotune.compiler.passes.rounding import Rounding, shape_of, splat

Indices = dict[int, ir.Value]  # by dimension


@dataclass(frozen=True)
class SharedRounding:
    """Rounding of all inputs of a convolution.

    Attributes:
        rows: Rounding of the inputs as rows of channels.
        shared: Dimensions along which a scale is shared, in addition to channels.
    """

    rows: Rounding
    shared: Sequence[int]

    @property
    def sizes(self) -> list[int]:
        """Sizes of the inputs without channels."""
        return shape_of(self.rows.source)[:-1]

    @property
    def apart(self) -> list[int]:
        """Dimensions of which every step has a scale of its own."""
        return [dim for dim in range(len(self.sizes)) if dim not in self.shared]

    @property
    def split(self) -> int | None:
        """Dimension that is split among threads: the outermost long one; `None` if there is none."""
        return next((dim for dim in (*self.apart, self.shared[0]) if self.rows.is_split(self.sizes[dim])), None)

    def write(self) -> None:
        """Emit the rounding at the insertion point."""
        self.for_each(self.apart, {}, self.write_shared)

    def write_shared(self, outer: Indices) -> None:
        """Round the inputs that share a scale."""
        rows = self.rows
        if not rows.precision.is_scaled:
            self.for_each(self.shared, outer, lambda indices: rows.round_row(position(indices), None))
            return
        largest = self.largest(outer)
        scale, steps = rows.scale(largest), rows.steps(largest)

        def write(indices: Indices) -> None:
            rows.round_row(position(indices), steps)
            rows.store_scale(scale, position(indices))

        self.for_each(self.shared, outer, write)

    def largest(self, outer: Indices) -> ir.Value:
        """Return the largest magnitude of the inputs that share a scale; with threads, reduced over parts first."""
        first, *rest = self.shared
        if first != self.split:
            return self.rows.largest(self.raised(self.shared, outer, splat(self.rows.least, "i32")))
        word = ir.IntegerType.get_signless(32)
        parts = memref.alloc(ir.MemRefType.get([self.sizes[first]], word), [], [])

        def write(at: ir.Value) -> None:
            lanes = self.raised(rest, {**outer, first: at}, splat(0, "i32"))
            memref.store(self.rows.largest_bits(lanes), parts, [at])

        split(self.sizes[first], write)
        loop = scf.ForOp(index(0), index(self.sizes[first]), index(1), [arith.constant(word, self.rows.least)])
        with ir.InsertionPoint(loop.body):
            part = memref.load(parts, [loop.induction_variable])
            scf.yield_([arith.maxsi(loop.inner_iter_args[0], part)])
        return arith.bitcast(ir.F32Type.get(), loop.results[0])

    def raised(self, dims: Sequence[int], outer: Indices, largest: ir.Value) -> ir.Value:
        """Return the bits of the largest magnitudes, including all positions along some dimensions."""
        if not dims:
            return self.rows.raised(largest, position(outer))
        dim, *rest = dims
        loop = scf.ForOp(index(0), index(self.sizes[dim]), index(1), [largest])
        with ir.InsertionPoint(loop.body):
            scf.yield_([self.raised(rest, {**outer, dim: loop.induction_variable}, loop.inner_iter_args[0])])
        return loop.results[0]

    def for_each(self, dims: Sequence[int], outer: Indices, write: Callable[[Indices], None]) -> None:
        """Emit code for every position along some dimensions."""
        if not dims:
            write(outer)
            return
        dim, *rest = dims
        loop = split if dim == self.split else counted
        loop(self.sizes[dim], lambda at: self.for_each(rest, {**outer, dim: at}, write))


def position(indices: Indices) -> list[ir.Value]:
    """Return the indices of a row in the order of dimensions."""
    return [indices[dim] for dim in sorted(indices)]
