"""Grouped convolutions with channels last, where a register tile covers the filters of a group.

    y[n, g, f, h, w] += x[n, g, c, s h + i, s w + j] * k[g, f, c, i, j]
      ->   Y[n, h, w, g, f] += X[n, s h + i, s w + j, g, c] * K[g, i, j, c, f]

Importers and payloads write them between an operation that expands channels into groups and one that collapses them.
Over volumes they are `linalg.generic`, for which upstream has no named operation.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from autotune.compiler.ir.nests import dimensions, indexing_maps, loop_nest
from autotune.compiler.ir.values import maker
from autotune.compiler.normalise.convolution.pools import axis_of
from autotune.compiler.normalise.convolution.window_sums import holds_f32, multiply_add
from autotune.compiler.normalise.convolution.windows import LAST, before_transpose, steps_of
from autotune.compiler.normalise.emit import dims, filled, flat, generic, part_read, permuted, unflat

KERNELS = {  # names of operations, and the permutation of their kernels to (g, i, j, c, f)
    "linalg.conv_2d_ngchw_gfchw": (0, 3, 4, 2, 1),
    "linalg.conv_2d_ngchw_fgchw": (1, 3, 4, 2, 0),
}
VOLUME_KERNEL = (0, 3, 4, 5, 2, 1)  # permutation of a kernel (g, f, c, e, i, j) to (g, e, i, j, c, f)
SPLIT = "tensor.expand_shape"
SUM_OF_PRODUCTS = ["arith.mulf", "arith.addf", "linalg.yield"]
Steps = Sequence[tuple[int, int]]  # stride and dilation along each spatial dimension


@dataclass(frozen=True)
class Groups:
    """Grouped convolution.

    Attributes:
        op: Convolution.
        x: Input, ``(n, c, h, w)`` or ``(n, c, d, h, w)``, before channels are expanded.
        start: Initial value, ``(n, f, h, w)`` or likewise; `None` if it is not expanded from one of that rank.
        steps: Stride and dilation along each spatial dimension.
    """

    op: ir.Operation
    x: ir.Value
    start: ir.Value | None
    steps: Steps

    @property
    def kernel(self) -> ir.Value:
        """Kernel transposed to ``(g, i, j, c, f)``; the source if it is the inverse transpose."""
        kernel, order = self.op.operands[1], KERNELS.get(self.op.name, VOLUME_KERNEL)
        before = before_transpose(kernel, sorted(range(len(order)), key=order.__getitem__))
        return before if before is not None else permuted(kernel, order)

    def convolve(self, x: ir.Value, number: ir.Value) -> ir.Value:
        """Build the convolution of an input with channels last, ``(n, h, w, f)``, starting from a scalar."""
        n, groups, filters, *sides = self.op.results[0].type.shape
        rank = len(sides)
        joined = [*([d] for d in range(rank + 1)), [rank + 1, rank + 2]]
        split = unflat(x, joined, [*x.type.shape[:-1], groups, x.type.shape[-1] // groups])
        if filters == 1:
            kernel = permuted(flat(self.kernel, joined), (*range(1, rank + 2), 0))
            into = filled([n, *sides, groups], x.type.element_type, number)
            return sum_channels(permuted(split, (*range(rank + 1), rank + 2, rank + 1)), kernel, self.steps, into)
        into = filled([n, *sides, groups, filters], x.type.element_type, number)
        return flat(sum_groups(split, self.kernel, self.steps, into), joined)


def groups_of(op: ir.Operation) -> Groups | None:
    """Match an operation that collapses the channels of a grouped convolution; return `None` if it does not match."""
    conv = maker(op.operands[0]) if op.name == "tensor.collapse_shape" else None
    steps = steps_of_groups(conv) if conv is not None and op.results[0].type.rank in LAST else None
    if conv is None or steps is None or not all(map(holds_f32, conv.operands)):
        return None
    split, start = maker(conv.operands[0]), maker(conv.operands[2])
    if not is_split(split) or split is None:
        return None
    return Groups(conv, split.operands[0], start.operands[0] if start is not None and is_split(start) else None, steps)


def is_split(op: ir.Operation | None) -> bool:
    """Return whether an operation expands a tensor of the rank of images or volumes."""
    return op is not None and op.name == SPLIT and op.operands[0].type.rank in LAST


def steps_of_groups(op: ir.Operation) -> Steps | None:
    """Return the stride and dilation along each spatial dimension of a grouped convolution; `None` for any other."""
    return named_steps(op) if op.name in KERNELS else steps_of_volumes(op)


def named_steps(op: ir.Operation) -> Steps:
    """Return the stride and dilation along each spatial dimension of a named convolution."""
    return list(zip(steps_of(op, "strides"), steps_of(op, "dilations"), strict=True))


def steps_of_volumes(op: ir.Operation) -> Steps | None:
    """Match a grouped convolution over volumes, with loops (n, g, f, d, h, w, c, e, i, j); `None` if it is none."""
    if op.name != "linalg.generic" or len(op.operands) != 3 or len(op.results) != 1 or op.results[0].type.rank != 6:
        return None
    nest = loop_nest(op)
    if nest is None or len(nest.sizes) != 10 or not sums_products(op):
        return None
    read, kernel, written = indexing_maps(op)
    if dimensions(written) != [*range(6)] or dimensions(kernel) != [1, 2, 6, 7, 8, 9]:
        return None
    if len(read.results) != 6 or dimensions(read)[:3] != [0, 1, 6]:
        return None
    axes = [axis_of(expr, 3 + d, nest.sizes) for d, expr in enumerate(list(read.results)[3:])]
    matched = [axis for d, axis in enumerate(axes) if axis is not None and axis.loop == 7 + d]
    return [(axis.stride, axis.dilation) for axis in matched] if len(matched) == len(axes) else None


def sums_products(op: ir.Operation) -> bool:
    """Return whether the body of an operation adds the product of its two inputs to the accumulator."""
    block = op.regions[0].blocks[0]
    body = [inner.operation for inner in block.operations]
    if [inner.name for inner in body] != SUM_OF_PRODUCTS:
        return False
    product, total, _ = body
    x, kernel, there = block.arguments
    return {*product.operands} == {x, kernel} and {*total.operands} == {product.results[0], there}


def sum_channels(x: ir.Value, kernel: ir.Value, steps: Steps, into: ir.Value) -> ir.Value:
    """Build the convolution of ``(n, h, w, c, g)`` by a kernel ``(i, j, c, g)``, accumulated into ``(n, h, w, g)``."""
    rank = len(steps)
    n, *loops = dims(2 * rank + 3)
    sides, g, window, c = loops[:rank], loops[rank], loops[rank + 1 : -1], loops[-1]
    indices = ([n, *read_at(steps, sides, window), c, g], [*window, c, g], [n, *sides, g])
    return sum_products(x, kernel, into, indices, kernel.type.shape[: rank + 1])


def sum_groups(x: ir.Value, kernel: ir.Value, steps: Steps, into: ir.Value) -> ir.Value:
    """Build the convolution of ``(n, h, w, g, c)`` by ``(g, i, j, c, f)``, accumulated into ``(n, h, w, g, f)``."""
    rank = len(steps)
    n, *loops = dims(2 * rank + 4)
    sides, g, f, window, c = loops[:rank], loops[rank], loops[rank + 1], loops[rank + 2 : -1], loops[-1]
    indices = ([n, *read_at(steps, sides, window), g, c], [g, *window, c, f], [n, *sides, g, f])
    return sum_products(x, kernel, into, indices, kernel.type.shape[1 : rank + 2])


def read_at(steps: Steps, outputs: Sequence[ir.AffineExpr], inside: Sequence[ir.AffineExpr]) -> list[ir.AffineExpr]:
    """Return the input position along each spatial dimension, for a position of the result and of the window."""
    sides = zip(outputs, inside, steps, strict=True)
    return [out * stride + at * dilation for out, at, (stride, dilation) in sides]


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
