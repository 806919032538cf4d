"""The inputs of a convolution as words of rounded values, on buffers: those that windows share have one scale."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import scf

from autotune.compiler.ir.loops import counted
from autotune.compiler.ir.values import index
from autotune.compiler.passes.rounding import Rounding, shape_of, splat

Indices = dict[int, ir.Value]  # by dimension


@dataclass(frozen=True)
class SharedRounding:
    """All inputs of a convolution.

    Attributes:
        rows: The same as rows of channels.
        shared: Dimensions along which a scale is shared; channels share one always.
    """

    rows: Rounding
    shared: Sequence[int]

    def write(self) -> None:
        """All of it, at the insertion point."""
        dims = range(len(shape_of(self.rows.source)) - 1)
        self.for_each([d for d in dims if d not in self.shared], {}, self.write_shared)

    def write_shared(self, outer: Indices) -> None:
        """The inputs that share a scale."""
        rows = self.rows
        if not rows.precision.is_scaled:
            self.for_each(self.shared, outer, lambda indices: rows.round_row(position(indices), None))
            return
        largest = rows.largest(self.raised(self.shared, outer, splat(0, "i32")))
        scale, steps = rows.scale(largest), rows.steps(largest)

        def write(indices: Indices) -> None:
            rows.round_row(position(indices), steps)
            rows.store_scale(scale, position(indices))

        self.for_each(self.shared, outer, write)

    def raised(self, dims: Sequence[int], outer: Indices, found: ir.Value) -> ir.Value:
        """The bits of the largest magnitudes, with those of all positions along some dimensions."""
        if not dims:
            return self.rows.raised(found, position(outer))
        dim, *rest = dims
        loop = scf.ForOp(index(0), index(shape_of(self.rows.source)[dim]), index(1), [found])
        with ir.InsertionPoint(loop.body):
            scf.yield_([self.raised(rest, {**outer, dim: loop.induction_variable}, loop.inner_iter_args[0])])
        return loop.results[0]

    def for_each(self, dims: Sequence[int], outer: Indices, write: Callable[[Indices], None]) -> None:
        """Code for every position along some dimensions."""
        if not dims:
            write(outer)
            return
        dim, *rest = dims
        size = shape_of(self.rows.source)[dim]
        counted(size, lambda at: self.for_each(rest, {**outer, dim: at}, write))


def position(indices: Indices) -> list[ir.Value]:
    """Indices of a row, in the order of dimensions."""
    return [indices[dim] for dim in sorted(indices)]
