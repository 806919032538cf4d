"""Convert convolutions and pools from NCHW to NHWC, so that vectors of channels are contiguous.

    y[n, f, h, w] += x[n, c, s h + i, s w + j] * k[f, c, i, j]
      ->   X = x, channels last;  Y[n, h, w, f] += X[n, s h + i, s w + j, c] * K[i, j, c, f]

Those over volumes are converted from NCDHW to NDHWC. Element-wise operations, pads and concatenations between them are
converted as well: a transposed value is propagated until a user needs the original layout.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TypeVar

from mlir import ir
from mlir.dialects import arith, linalg, tensor

from autotune.compiler.ir.module import every_op, run_passes
from autotune.compiler.ir.nests import dimensions, indexing_maps
from autotune.compiler.ir.values import fill_of, static_slice
from autotune.compiler.normalise.convolution.along_rows import TOGETHER, goes_along_rows, write_along_rows
from autotune.compiler.normalise.convolution.channels_first import planes_of, write_planes
from autotune.compiler.normalise.convolution.grouped import SPLIT, Groups, groups_of, steps_of_groups
from autotune.compiler.normalise.convolution.phases import interleave_phases, spread_phases
from autotune.compiler.normalise.convolution.pointwise import PLANES, VOLUMES, product_of
from autotune.compiler.normalise.convolution.pools import axes_of, is_maximum_of, write_pool
from autotune.compiler.normalise.convolution.windows import (
    BACK,
    LAST,
    attributes_of_steps,
    bias_of,
    last_of,
    with_bias,
)
from autotune.compiler.normalise.emit import copy_of_body, dims, filled, generic, permuted

PLAIN = ("arith.", "math.", "linalg.yield")
POOLS = {"linalg.pooling_nchw_max": linalg.pooling_nhwc_max, "linalg.pooling_nchw_sum": linalg.pooling_nhwc_sum}
PART = "tensor.extract_slice"
MOVES = (PART, "tensor.concat", "tensor.collapse_shape")
DEPTHWISE = "linalg.depthwise_conv_2d_nchw_chw"
DEPTHWISES = {
    DEPTHWISE: linalg.depthwise_conv_2d_nhwc_hwc,
    "linalg.depthwise_conv_3d_ncdhw_cdhw": linalg.depthwise_conv_3d_ndhwc_dhwc,
}
CONVOLUTIONS = {PLANES: linalg.conv_2d_nhwc_hwcf, VOLUMES: linalg.conv_3d_ndhwc_dhwcf}
WINDOWS = (*CONVOLUTIONS, *DEPTHWISES, *POOLS)
T = TypeVar("T")


def use_channels_last(module: ir.Module) -> None:
    """Convert convolutions and pools of a module, and operations between them, to NHWC, in place."""
    functions = [op for op in module.body.operations if op.operation.name == "func.func"]
    if not has_channels_first(module):
        return
    for block in (block for function in functions for block in function.regions[0].blocks):
        channels_last = ChannelsLast()
        for op in list(block.operations):
            channels_last.take(op.operation)
    run_passes(module, "builtin.module(canonicalize,cse)")


def has_channels_first(module: ir.Module) -> bool:
    """Return whether a module has a convolution or pool with channels first."""
    return any(slides_windows(op) for op in every_op(module))


def slides_windows(op: ir.Operation) -> bool:
    """Return whether an operation is a convolution or pool with channels first."""
    return op.name in WINDOWS or steps_of_groups(op) is not None


@dataclass
class ChannelsLast:
    """Layout conversion of a block.

    Attributes:
        last: NHWC (NDHWC) version of every NCHW (NCDHW) value that was converted.
    """

    last: dict[ir.Value, ir.Value] = field(default_factory=dict)

    def take(self, op: ir.Operation) -> None:
        """Convert an operation if it is supported and worthwhile."""
        with ir.InsertionPoint(op), op.location:
            back = write_planes(op) if self.stays(op) else spread_phases(op, self.last)
            if back is None and self.may_stay_first(op):
                back = product_of(op) or write_along_rows(op)
            if back is None and (result := self.convert(op)) is not None:
                back = permuted(result, BACK[result.type.rank])
                self.last[back] = result
        if back is None:
            return
        op.results[0].replace_all_uses_with(back)
        op.erase()

    def stays(self, op: ir.Operation) -> bool:
        """Return whether an operation slides windows over planes that are kept in NCHW."""
        planes = planes_of(op)
        return planes is not None and planes.x not in self.last and op.operands[0] not in self.last

    def may_stay_first(self, op: ir.Operation) -> bool:
        """Return whether an operation is a convolution whose input has channels first."""
        return op.name in CONVOLUTIONS and TOGETHER not in op.attributes and op.operands[0] not in self.last

    def convert(self, op: ir.Operation) -> ir.Value | None:
        """Build the result of an operation with channels last; `None` if the operation is not converted."""
        if op.name in WINDOWS:
            return self.convert_windows(op)
        if (groups := groups_of(op)) is not None:
            return self.convert_groups(groups)
        if op.name == "tensor.pad" and (op.operands[0] in self.last or is_for_windows(op)):
            return self.convert_pad(op)
        if op.name in MOVES:
            return self.convert_moved(op)
        if not any(value in self.last for value in op.operands):
            return None
        return self.convert_elementwise(op) if is_elementwise(op) else self.convert_pool(op)

    def of(self, value: ir.Value) -> ir.Value:
        """Return a value with channels last, transposing it if necessary."""
        if value in self.last:
            return self.last[value]
        fill = fill_of(value)
        if fill is not None:
            return filled(transposed(value.type.shape), value.type.element_type, fill.operands[0])
        return permuted(value, LAST[value.type.rank])

    def convert_windows(self, op: ir.Operation) -> ir.Value | None:
        """Convert a convolution or pool."""
        x, attributes = self.of(op.operands[0]), attributes_of_steps(op)
        if op.name in CONVOLUTIONS:
            return self.convert_convolution(op, x)
        if op.name in DEPTHWISES:
            zeros, kernel = self.of(op.operands[2]), op.operands[1]
            kernel = permuted(kernel, (*range(1, kernel.type.rank), 0))
            return DEPTHWISES[op.name](x, kernel, outs=[zeros], **attributes)
        return POOLS[op.name](x, op.operands[1], outs=[self.of(op.operands[2])], **attributes)

    def convert_convolution(self, op: ir.Operation, x: ir.Value) -> ir.Value:
        """Convert a convolution; a bias that importers use as its initial value is added afterwards."""
        bias, result_type = bias_of(op.operands[2]), op.results[0].type
        if bias is None:
            initial = self.of(op.operands[2])
        else:
            initial = filled(
                transposed(result_type.shape), result_type.element_type, arith.constant(result_type.element_type, 0.0)
            )
        sums = CONVOLUTIONS[op.name](x, last_of(op.operands[1]), outs=[initial], **attributes_of_steps(op))
        return sums if bias is None else with_bias(sums, bias, -1)

    def convert_groups(self, groups: Groups) -> ir.Value | None:
        """Convert a grouped convolution and the collapse of its channels; a bias is added afterwards."""
        start = groups.start if groups.start is not None else groups.op.operands[2]
        bias, fill = bias_of(start), fill_of(start)
        if bias is not None:
            element_type = bias.type.element_type
            return with_bias(groups.convolve(self.of(groups.x), arith.constant(element_type, 0.0)), bias, -1)
        return groups.convolve(self.of(groups.x), fill.operands[0]) if fill is not None else None

    def convert_pad(self, op: ir.Operation) -> ir.Value | None:
        """Convert a pad with a constant value and static amounts."""
        return write_pad(op, self.of, transposed) if len(op.results[0].type.shape) in LAST else None

    def convert_pool(self, op: ir.Operation) -> ir.Value | None:
        """Convert a pool of volumes that is written as a generic operation; `None` for any other operation."""
        x, axes = self.last.get(op.operands[0]), axes_of(op)
        if x is None or not axes:
            return None
        return write_pool(op, x, transposed(axes), is_maximum=is_maximum_of(op))

    def convert_moved(self, op: ir.Operation) -> ir.Value | None:
        """Convert a slice, a concatenation, or the interleaving of phases."""
        if op.name == PART:
            return self.convert_slice(op)
        return self.convert_concatenation(op) if op.name == "tensor.concat" else interleave_phases(op, self.last)

    def convert_concatenation(self, op: ir.Operation) -> ir.Value | None:
        """Convert a concatenation if at least half of its elements have channels last already."""
        result_type = op.results[0].type
        if len(result_type.shape) not in LAST or not all(value.type.has_static_shape for value in op.operands):
            return None
        if 2 * sum(prod(value.type.shape) for value in op.operands if value in self.last) < prod(result_type.shape):
            return None
        new_type = ir.RankedTensorType.get(transposed(result_type.shape), result_type.element_type)
        axis = LAST[result_type.rank].index(op.attributes["dim"].value)
        return tensor.concat(new_type, axis, [self.of(value) for value in op.operands])

    def convert_slice(self, op: ir.Operation) -> ir.Value | None:
        """Convert a static slice of the same rank as its source."""
        result_type, offsets_sizes_strides = op.results[0].type, static_slice(op)
        source = self.last.get(op.operands[0])
        if source is None or len(op.operands) > 1 or len(result_type.shape) != source.type.rank:
            return None
        part = ir.RankedTensorType.get(transposed(result_type.shape), result_type.element_type)
        return tensor.extract_slice(part, source, [], [], [], *map(transposed, offsets_sizes_strides))

    def convert_elementwise(self, op: ir.Operation) -> ir.Value | None:
        """Convert an element-wise operation whose operands are read by identity maps or are broadcast."""
        *maps, _ = indexing_maps(op)
        *values, _ = op.operands
        shape = transposed(op.results[0].type.shape)
        whole = [is_whole(amap, len(shape)) for amap in maps]
        layouts = [
            amap if is_all else transposed_map(amap, value, len(shape))
            for amap, value, is_all in zip(maps, values, whole, strict=True)
        ]
        if any(layout is None for layout in layouts):
            return None
        inputs = [self.of(value) if is_all else value for value, is_all in zip(values, whole, strict=True)]
        into = tensor.empty(shape, op.results[0].type.element_type)
        maps = [*(layout for layout in layouts if layout), ir.AffineMap.get_identity(len(shape))]
        return generic(inputs, into, maps, ["parallel"] * len(shape), copy_of_body(op))


def transposed(sizes: Sequence[T]) -> list[T]:
    """Permute a sequence from the order (n, c, h, w) to (n, h, w, c), or (n, c, d, h, w) to (n, d, h, w, c)."""
    return [sizes[d] for d in LAST[len(sizes)]]


def write_pad(
    pad: ir.Operation, of: Callable[[ir.Value], ir.Value], arranged: Callable[[Sequence[int]], list[int]]
) -> ir.Value | None:
    """Build a pad with a constant value and static amounts in another layout; `None` if the pad does not match.

    Args:
        pad: Operation ``tensor.pad``.
        of: Function that returns a tensor in the new layout.
        arranged: Function that permutes a sequence of one number per dimension to the new layout; new dimensions get 0.
    """
    body = [inner.operation for inner in pad.regions[0].blocks[0].operations]
    if len(pad.operands) != 1 or len(body) != 1:
        return None
    low, high = (list(ir.DenseI64ArrayAttr(pad.attributes[f"static_{side}"])) for side in ("low", "high"))
    x = of(pad.operands[0])
    low, high = arranged(low), arranged(high)
    shape = [size + a + b for size, a, b in zip(x.type.shape, low, high, strict=True)]
    padded_type = ir.RankedTensorType.get(shape, x.type.element_type)
    padded = tensor.PadOp(padded_type, x, [], [], low, high)
    index_types = [ir.IndexType.get()] * len(shape)
    with ir.InsertionPoint(padded.regions[0].blocks.append(*index_types, arg_locs=[pad.location] * len(shape))):
        tensor.yield_(body[0].operands[0])
    return padded.result


def is_elementwise(op: ir.Operation) -> bool:
    """Return whether an operation computes each element of a single tensor by plain arithmetic."""
    if op.name != "linalg.generic" or len(op.results) != 1:
        return False
    names = [inner.operation.name for inner in op.regions[0].blocks[0].operations]
    return all(name.startswith(PLAIN) for name in names) and is_whole(indexing_maps(op)[-1], op.results[0].type.rank)


def is_for_windows(pad: ir.Operation) -> bool:
    """Return whether all users of a padded tensor are converted to NHWC."""
    users = [use.owner.operation for use in pad.results[0].uses]
    split = [use.owner.operation for op in users if op.name == SPLIT for use in op.results[0].uses]
    parts = [use.owner.operation for op in users if op.name == PART for use in op.results[0].uses]
    readers = [*(op for op in users if op.name not in (SPLIT, PART)), *split, *parts]
    return all(slides_windows(op) and planes_of(op) is None and not goes_along_rows(op) for op in readers)


def is_whole(amap: ir.AffineMap, rank: int) -> bool:
    """Return whether an indexing map is the identity of the given rank."""
    return bool(amap == ir.AffineMap.get_identity(rank))


def transposed_map(amap: ir.AffineMap, value: ir.Value, rank: int) -> ir.AffineMap | None:
    """Convert an indexing map from loops (n, c, h, w) to (n, h, w, c); `None` if it is no projected permutation."""
    loops = dims(rank)
    if amap.n_dims != rank:
        return None
    results: list[ir.AffineExpr] = []
    for d, size in zip(dimensions(amap), getattr(value.type, "shape", ()), strict=True):
        if d is None and size != 1:
            return None
        results.append(ir.AffineConstantExpr.get(0) if d is None or size == 1 else loops[BACK[rank][d]])
    return ir.AffineMap.get(rank, 0, results)
