"""Grouped convolutions with channels last, where a register tile covers the filters of a group.

    y[n, g, f, h, w] += x[n, g, c, s h + i, s w + j] * k[g, f, c, i, j]
      ->   Y[n, h, w, g, f] += X[n, s h + i, s w + j, g, c] * K[g, i, j, c, f]

Importers and payloads write them between an operation that expands channels into groups and one that collapses them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from autotune.compiler.ir.values import maker
from autotune.compiler.normalise.convolution.window_sums import holds_f32, multiply_add
from autotune.compiler.normalise.convolution.windows import before_transpose, steps_of
from autotune.compiler.normalise.emit import dims, filled, flat, generic, part_read, permuted, unflat

KERNELS = {  # names of operations, and the permutation of their kernels to (g, i, j, c, f)
    "linalg.conv_2d_ngchw_gfchw": (0, 3, 4, 2, 1),
    "linalg.conv_2d_ngchw_fgchw": (1, 3, 4, 2, 0),
}
JOINED = [[0], [1], [2], [3, 4]]  # reassociation of (n, h, w, g, f) that collapses groups and filters
RANK = 4
SPLIT = "tensor.expand_shape"


@dataclass(frozen=True)
class Groups:
    """Grouped convolution.

    Attributes:
        op: Convolution.
        x: Input, ``(n, c, h, w)``, before channels are expanded.
        start: Initial value, ``(n, f, h, w)``; `None` if it is not expanded from a tensor of rank 4.
    """

    op: ir.Operation
    x: ir.Value
    start: ir.Value | None

    @property
    def kernel(self) -> ir.Value:
        """Kernel transposed to ``(g, i, j, c, f)``; the source if it is the inverse transpose."""
        kernel, order = self.op.operands[1], KERNELS[self.op.name]
        before = before_transpose(kernel, sorted(range(len(order)), key=order.__getitem__))
        return before if before is not None else permuted(kernel, order)

    def convolve(self, x: ir.Value, number: ir.Value) -> ir.Value:
        """Build the convolution of an input with channels last, ``(n, h, w, f)``, starting from a scalar."""
        n, groups, filters, h, w = self.op.results[0].type.shape
        split = unflat(x, JOINED, [*x.type.shape[:-1], groups, x.type.shape[-1] // groups])
        if filters == 1:
            kernel = permuted(flat(self.kernel, [[0], [1], [2], [3, 4]]), (1, 2, 3, 0))
            into = filled([n, h, w, groups], x.type.element_type, number)
            return sum_channels(permuted(split, (0, 1, 2, 4, 3)), kernel, self.op, into)
        into = filled([n, h, w, groups, filters], x.type.element_type, number)
        return flat(sum_groups(split, self.kernel, self.op, into), JOINED)


def groups_of(op: ir.Operation) -> Groups | None:
    """Match an operation that collapses the channels of a grouped convolution; return `None` if it does not match."""
    conv = maker(op.operands[0]) if op.name == "tensor.collapse_shape" else None
    if conv is None or conv.name not in KERNELS or len(op.results[0].type.shape) != RANK:
        return None
    split, start = maker(conv.operands[0]), maker(conv.operands[2])
    if not is_split(split) or split is None or not all(map(holds_f32, conv.operands)):
        return None
    return Groups(conv, split.operands[0], start.operands[0] if start is not None and is_split(start) else None)


def is_split(op: ir.Operation | None) -> bool:
    """Return whether an operation expands a tensor of rank 4."""
    return op is not None and op.name == SPLIT and len(op.operands[0].type.shape) == RANK


def sum_channels(x: ir.Value, kernel: ir.Value, op: ir.Operation, into: ir.Value) -> ir.Value:
    """Build the convolution of ``(n, h, w, c, g)`` by a kernel ``(i, j, c, g)``, accumulated into ``(n, h, w, g)``."""
    n, h, w, g, i, j, c = dims(7)
    rows, columns = read_at(op, (h, w), (i, j))
    indices = ([n, rows, columns, c, g], [i, j, c, g], [n, h, w, g])
    return sum_products(x, kernel, into, indices, kernel.type.shape[:3])


def sum_groups(x: ir.Value, kernel: ir.Value, op: ir.Operation, into: ir.Value) -> ir.Value:
    """Build the convolution of ``(n, h, w, g, c)`` by ``(g, i, j, c, f)``, accumulated into ``(n, h, w, g, f)``."""
    n, h, w, g, f, i, j, c = dims(8)
    rows, columns = read_at(op, (h, w), (i, j))
    indices = ([n, rows, columns, g, c], [g, i, j, c, f], [n, h, w, g, f])
    return sum_products(x, kernel, into, indices, kernel.type.shape[1:4])


def read_at(op: ir.Operation, outputs: Sequence[ir.AffineExpr], inside: Sequence[ir.AffineExpr]) -> list[ir.AffineExpr]:
    """Return the input row and column for a row and column of the result and of the window."""
    sides = zip(outputs, inside, steps_of(op, "strides"), steps_of(op, "dilations"), strict=True)
    return [out * stride + at * dilation for out, at, stride, dilation in sides]


def sum_products(
    x: ir.Value, kernel: ir.Value, into: ir.Value, indices: Sequence[Sequence[ir.AffineExpr]], summed: Sequence[int]
) -> ir.Value:
    """Build a sum of products of two tensors, with reduction loops last, accumulated into a third.

    Args:
        x: First factor; sliced to the part that is read.
        kernel: Second factor.
        into: Initial value, whose dimensions are the parallel loops.
        indices: Index expressions of each of the three.
        summed: Sizes of the reduction loops.
    """
    rank = len(into.type.shape)
    maps = [ir.AffineMap.get(rank + len(summed), 0, list(each)) for each in indices]
    iterators = ["parallel"] * rank + ["reduction"] * len(summed)
    sizes = [*into.type.shape, *summed]
    return generic([part_read(x, maps[0], sizes), kernel], into, maps, iterators, multiply_add)
