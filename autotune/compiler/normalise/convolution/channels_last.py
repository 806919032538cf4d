"""Convert 2-D convolutions and pooling from NCHW to NHWC, so that vectors of channels are contiguous.

    y[n, f, h, w] += x[n, c, s h + i, s w + j] * k[f, c, i, j]
      ->   X = x, channels last;  Y[n, h, w, f] += X[n, s h + i, s w + j, c] * K[i, j, c, f]

Element-wise operations, pads and concatenations between them are converted as well: a transposed value is propagated
until a user needs the original layout.
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
from autotune.compiler.normalise.convolution.grouped import KERNELS, SPLIT, Groups, groups_of
from autotune.compiler.normalise.convolution.phases import interleave_phases, spread_phases
from autotune.compiler.normalise.convolution.pointwise import product_of
from autotune.compiler.normalise.convolution.windows import attributes_of_steps, bias_of, last_of, with_bias
from autotune.compiler.normalise.emit import copy_of_body, dims, filled, generic, permuted

LAST, BACK = (0, 2, 3, 1), (0, 3, 1, 2)
NEW_POSITION = (0, 3, 1, 2)  # position of each loop over (n, c, h, w) among loops over (n, h, w, c)
PLAIN = ("arith.", "math.", "linalg.yield")
POOLS = {"linalg.pooling_nchw_max": linalg.pooling_nhwc_max, "linalg.pooling_nchw_sum": linalg.pooling_nhwc_sum}
PART = "tensor.extract_slice"
MOVES = (PART, "tensor.concat", "tensor.collapse_shape")
T = TypeVar("T")
CONV, DEPTHWISE = "linalg.conv_2d_nchw_fchw", "linalg.depthwise_conv_2d_nchw_chw"


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
    return any(op.name in (CONV, DEPTHWISE, *POOLS, *KERNELS) for op in every_op(module))


@dataclass
class ChannelsLast:
    """Layout conversion of a block.

    Attributes:
        last: NHWC version of every NCHW value that was converted.
    """

    last: dict[ir.Value, ir.Value] = field(default_factory=dict)

    def take(self, op: ir.Operation) -> None:
        """Convert an operation if it is supported and worthwhile."""
        with ir.InsertionPoint(op), op.location:
            back = write_planes(op) if self.stays(op) else spread_phases(op, self.last)
            if back is None and op.name == CONV and TOGETHER not in op.attributes and op.operands[0] not in self.last:
                back = product_of(op) or write_along_rows(op)
            if back is None and (result := self.convert(op)) is not None:
                back = permuted(result, BACK)
                self.last[back] = result
        if back is None:
            return
        op.results[0].replace_all_uses_with(back)
        op.erase()

    def stays(self, op: ir.Operation) -> bool:
        """Return whether an operation slides windows over planes that are kept in NCHW."""
        planes = planes_of(op)
        return planes is not None and planes.x not in self.last and op.operands[0] not in self.last

    def convert(self, op: ir.Operation) -> ir.Value | None:
        """Build the result of an operation with channels last; `None` if the operation is not converted."""
        if op.name in (CONV, DEPTHWISE, *POOLS):
            return self.convert_windows(op)
        if (groups := groups_of(op)) is not None:
            return self.convert_groups(groups)
        if op.name == "tensor.pad" and (op.operands[0] in self.last or is_for_windows(op)):
            return self.convert_pad(op)
        if op.name in MOVES:
            return self.convert_moved(op)
        if is_elementwise(op) and any(value in self.last for value in op.operands):
            return self.convert_elementwise(op)
        return None

    def of(self, value: ir.Value) -> ir.Value:
        """Return a value with channels last, transposing it if necessary."""
        if value in self.last:
            return self.last[value]
        fill = fill_of(value)
        if fill is not None:
            shape = [value.type.shape[d] for d in LAST]
            return filled(shape, value.type.element_type, fill.operands[0])
        return permuted(value, LAST)

    def convert_windows(self, op: ir.Operation) -> ir.Value | None:
        """Convert a convolution or pool."""
        x, attributes = self.of(op.operands[0]), attributes_of_steps(op)
        if op.name == CONV:
            return self.convert_convolution(op, x)
        if op.name == DEPTHWISE:
            zeros = self.of(op.operands[2])
            kernel = permuted(op.operands[1], (1, 2, 0))
            return linalg.depthwise_conv_2d_nhwc_hwc(x, kernel, outs=[zeros], **attributes)
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
        sums = linalg.conv_2d_nhwc_hwcf(x, last_of(op.operands[1]), outs=[initial], **attributes_of_steps(op))
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
        return write_pad(op, self.of, transposed) if len(op.results[0].type.shape) == len(LAST) else None

    def convert_moved(self, op: ir.Operation) -> ir.Value | None:
        """Convert a slice, a concatenation, or the interleaving of phases."""
        if op.name == PART:
            return self.convert_slice(op)
        return self.convert_concatenation(op) if op.name == "tensor.concat" else interleave_phases(op, self.last)

    def convert_concatenation(self, op: ir.Operation) -> ir.Value | None:
        """Convert a concatenation if at least half of its elements have channels last already."""
        result_type = op.results[0].type
        if len(result_type.shape) != len(LAST) or not all(value.type.has_static_shape for value in op.operands):
            return None
        if 2 * sum(prod(value.type.shape) for value in op.operands if value in self.last) < prod(result_type.shape):
            return None
        new_type = ir.RankedTensorType.get(transposed(result_type.shape), result_type.element_type)
        return tensor.concat(
            new_type, LAST.index(op.attributes["dim"].value), [self.of(value) for value in op.operands]
        )

    def convert_slice(self, op: ir.Operation) -> ir.Value | None:
        """Convert a static slice of the same rank as its source."""
        result_type, offsets_sizes_strides = op.results[0].type, static_slice(op)
        source = self.last.get(op.operands[0])
        if source is None or len(op.operands) > 1 or len(result_type.shape) != len(LAST):
            return None
        part = ir.RankedTensorType.get(transposed(result_type.shape), result_type.element_type)
        return tensor.extract_slice(part, source, [], [], [], *map(transposed, offsets_sizes_strides))

    def convert_elementwise(self, op: ir.Operation) -> ir.Value | None:
        """Convert an element-wise operation whose operands are read by identity maps or are broadcast."""
        *maps, _ = indexing_maps(op)
        *values, _ = op.operands
        shape = [op.results[0].type.shape[d] for d in LAST]
        layouts = [amap if is_whole(amap) else transposed_map(amap, v) for amap, v in zip(maps, values, strict=True)]
        if any(layout is None for layout in layouts):
            return None
        inputs = [self.of(value) if is_whole(amap) else value for value, amap in zip(values, maps, strict=True)]
        into = tensor.empty(shape, op.results[0].type.element_type)
        maps = [*(layout for layout in layouts if layout), ir.AffineMap.get_identity(len(shape))]
        return generic(inputs, into, maps, ["parallel"] * len(shape), copy_of_body(op))


def transposed(sizes: Sequence[T]) -> list[T]:
    """Permute a sequence from the order (n, c, h, w) to (n, h, w, c)."""
    return [sizes[d] for d in LAST]


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


def is_elementwise(op: ir.Operation, rank: int = len(LAST)) -> bool:
    """Return whether an operation computes each element of a tensor of the given rank by plain arithmetic."""
    if op.name != "linalg.generic" or len(op.results) != 1 or len(op.results[0].type.shape) != rank:
        return False
    names = [inner.operation.name for inner in op.regions[0].blocks[0].operations]
    return all(name.startswith(PLAIN) for name in names) and is_whole(indexing_maps(op)[-1], rank)


def is_for_windows(pad: ir.Operation) -> bool:
    """Return whether all users of a padded tensor are converted to NHWC."""
    users = [use.owner.operation for use in pad.results[0].uses]
    split = [use.owner.operation for op in users if op.name == SPLIT for use in op.results[0].uses]
    parts = [use.owner.operation for op in users if op.name == PART for use in op.results[0].uses]
    readers = [*(op for op in users if op.name not in (SPLIT, PART)), *split, *parts]
    return all(
        op.name in (CONV, DEPTHWISE, *POOLS, *KERNELS) and planes_of(op) is None and not goes_along_rows(op)
        for op in readers
    )


def is_whole(amap: ir.AffineMap, rank: int = len(LAST)) -> bool:
    """Return whether an indexing map is the identity of the given rank."""
    return bool(amap == ir.AffineMap.get_identity(rank))


def transposed_map(amap: ir.AffineMap, value: ir.Value) -> ir.AffineMap | None:
    """Convert an indexing map from loops (n, c, h, w) to (n, h, w, c); `None` if it is no projected permutation."""
    loops = dims(len(LAST))
    if amap.n_dims != len(LAST):
        return None
    results: list[ir.AffineExpr] = []
    for d, size in zip(dimensions(amap), getattr(value.type, "shape", ()), strict=True):
        if d is None and size != 1:
            return None
        results.append(ir.AffineConstantExpr.get(0) if d is None or size == 1 else loops[NEW_POSITION[d]])
    return ir.AffineMap.get(len(LAST), 0, results)
