"""Rewrite pools with channels first, of any rank, as element-wise operations that read every tap of a window.

    y[n, c, d, h, w] = max over e, i, j of x[n, c, 2 d + e, 2 h + i, 2 w + j]
      ->   p[n, c, d, h, w] = max(x[n, c, 2 d, h, w], x[n, c, 2 d + 1, h, w], ...), then likewise along h and w

Upstream has no named operation for these in 3-D; importers write them as `linalg.generic`, whose second operand has the
shape of the window and is not read. Outer dimensions of a window are reduced one by one, combining whole rows, and as
many inner ones together as keep the number of taps small.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product

from mlir import ir
from mlir.dialects import arith, tensor

from autotune.compiler.ir.module import every_op
from autotune.compiler.ir.nests import dimensions, indexing_maps, loop_nest, read_index
from autotune.compiler.ir.values import fill_of, permutation_of
from autotune.compiler.normalise.convolution.channels_first import (
    MOST_SIDE,
    MOST_TAPS,
    is_neutral,
    maximum,
    read_by,
)
from autotune.compiler.normalise.convolution.window_sums import holds_f32
from autotune.compiler.normalise.convolution.windows import BACK, LAST, before_transpose, steps_of
from autotune.compiler.normalise.emit import dims, generic, permuted

VOLUMES = {"linalg.pooling_ndhwc_max": "arith.maximumf", "linalg.pooling_ndhwc_sum": "arith.addf"}
COMBINED = {"arith.maximumf": True, "arith.addf": False}  # combiners, and whether each is a maximum


@dataclass(frozen=True)
class PoolAxis:
    """Windows along a dimension.

    Attributes:
        windows: Number of windows.
        stride: Distance between consecutive windows.
        loop: Reduction loop over the taps; -1 if the dimension is not reduced.
        side: Number of taps.
        dilation: Distance between consecutive taps.
    """

    windows: int
    stride: int
    loop: int = -1
    side: int = 1
    dilation: int = 1


def write_pools(module: ir.Module) -> None:
    """Rewrite pools of f32 with channels first, and those over transposed volumes, as element-wise ops, in place."""
    pools = [op for op in every_op(module) if op.name in ("linalg.generic", *VOLUMES)]  # transposes may be erased
    for op in pools:
        if axes := axes_of(op):
            op.results[0].replace_all_uses_with(write_pool(op, op.operands[0], axes, is_maximum=is_maximum_of(op)))
            op.erase()
        elif axes := axes_of_volumes(op):
            source = before_transpose(op.operands[0], LAST[5])
            write_volumes_first(op, write_pool(op, source, axes, is_maximum=COMBINED[VOLUMES[op.name]]))


def write_pool(op: ir.Operation, x: ir.Value, axes: Sequence[PoolAxis], *, is_maximum: bool) -> ir.Value:
    """Build the pool of a tensor with channels first, before an operation."""
    with ir.InsertionPoint(op), op.location:
        for parts in parts_of(axes):
            x = write_along(x, axes, parts, is_maximum=is_maximum)
    return x


def axes_of_volumes(op: ir.Operation) -> list[PoolAxis]:
    """Return the windows along (n, c, d, h, w) of a pool of volumes that were transposed from that; empty otherwise.

    Importers transpose volumes for the named pools of upstream, which have channels last.
    """
    if (
        op.name not in VOLUMES
        or before_transpose(op.operands[0], LAST[5]) is None
        or not all(map(holds_f32, op.operands))
    ):
        return []
    start = fill_of(op.operands[2])
    if start is None or not is_neutral(start.operands[0], COMBINED[VOLUMES[op.name]]):
        return []
    batch, *windows, channels = op.results[0].type.shape
    steps = zip(windows, steps_of(op, "strides"), op.operands[1].type.shape, steps_of(op, "dilations"), strict=True)
    axes = [PoolAxis(size, stride, side=side, dilation=dilation) for size, stride, side, dilation in steps]
    return [PoolAxis(batch, 1), PoolAxis(channels, 1), *axes] if max(axis.side for axis in axes) <= MOST_SIDE else []


def write_volumes_first(op: ir.Operation, value: ir.Value) -> None:
    """Replace the result of a pool with channels last by a tensor with channels first; erases the pool."""
    users = [use.owner.operation for use in op.results[0].uses]
    backward = [user for user in users if permutation_of(user) == list(BACK[5])]
    for user in backward:
        user.results[0].replace_all_uses_with(value)
        user.erase()
    if len(backward) < len(users):
        with ir.InsertionPoint(op), op.location:
            op.results[0].replace_all_uses_with(permuted(value, LAST[5]))
    op.erase()


def axes_of(op: ir.Operation) -> list[PoolAxis]:
    """Return the windows along each dimension of the input of a pool; empty for any other operation."""
    if op.name != "linalg.generic" or len(op.results) != 1 or len(op.operands) == 1:
        return []
    if not all(map(holds_f32, op.operands)):
        return []
    nest, start = loop_nest(op), fill_of(op.operands[-1])
    body = [inner.operation for inner in op.regions[0].blocks[0].operations]
    elements = op.regions[0].blocks[0].arguments
    read, *_, written = indexing_maps(op)
    loops = len(written.results)
    if (
        nest is None
        or start is None
        or len(body) != 2
        or body[0].name not in COMBINED
        or set(body[0].operands) != {elements[0], elements[-1]}
        or not is_neutral(start.operands[0], COMBINED[body[0].name])
        or dimensions(written) != list(range(loops))
        or len(read.results) != loops
    ):
        return []
    axes = [axis_of(expr, loop, nest.sizes) for loop, expr in enumerate(read.results)]
    whole = [axis for axis in axes if axis is not None]
    along = [axis.loop for axis in whole if axis.loop >= 0]
    if len(whole) < loops or whole[-1].loop < 0 or sorted(along) != list(range(loops, len(nest.sizes))):
        return []
    return whole if max(axis.side for axis in whole) <= MOST_SIDE else []


def axis_of(expr: ir.AffineExpr, loop: int, sizes: Sequence[int]) -> PoolAxis | None:
    """Match the index expression of a dimension, ``loop * stride + tap * dilation``; `None` if it does not match."""
    steps = read_index(expr).moving
    total = sum((ir.AffineExpr.get_dim(each) * step for each, step in steps), ir.AffineExpr.get_constant(0))
    if total != expr or [loop] != [each for each, _ in steps[:1]] or len(steps) > 2 or min(steps)[1] < 1:
        return None
    (_, stride), *inner = steps
    if not inner:
        return PoolAxis(sizes[loop], stride)
    ((reduced, dilation),) = inner
    return PoolAxis(sizes[loop], stride, reduced, sizes[reduced], dilation) if dilation > 0 else None


def is_maximum_of(op: ir.Operation) -> bool:
    """Return whether a pool is a maximum; else it is a sum."""
    return COMBINED[op.regions[0].blocks[0].operations[0].operation.name]


def parts_of(axes: Sequence[PoolAxis]) -> list[list[int]]:
    """Return the groups of dimensions that are reduced together, outer ones first."""
    parts: list[list[int]] = [[]]
    count = 1
    for number in reversed([number for number, axis in enumerate(axes) if axis.side > 1 or axis.stride > 1]):
        if parts[0] and count * axes[number].side > MOST_TAPS:
            parts.insert(0, [])
            count = 1
        parts[0].insert(0, number)
        count *= axes[number].side
    return parts


def write_along(x: ir.Value, axes: Sequence[PoolAxis], along: Sequence[int], *, is_maximum: bool) -> ir.Value:
    """Build the reduction of windows along some dimensions."""
    shape = [axes[d].windows if d in along else size for d, size in enumerate(x.type.shape)]
    loops, maps = dims(len(shape)), []
    for offsets in product(*(range(axes[d].side) for d in along)):
        results = list(loops)
        for d, offset in zip(along, offsets, strict=True):
            results[d] = loops[d] * axes[d].stride + offset * axes[d].dilation
        maps.append(ir.AffineMap.get(len(shape), 0, results))
    inputs = [read_by(x, amap, shape) for amap in maps]

    def write(*elements: ir.Value) -> ir.Value:
        return maximum(elements[:-1]) if is_maximum else reduce(arith.addf, elements[:-1])

    into = tensor.empty(shape, x.type.element_type)
    return generic(inputs, into, [*maps, ir.AffineMap.get_identity(len(shape))], ["parallel"] * len(shape), write)
