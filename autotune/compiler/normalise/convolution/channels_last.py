"""Convolutions and pooling with channels last: what a vector reads lies side by side, positions follow each other.

    y[n, f, h, w] += x[n, c, s h + i, s w + j] * k[f, c, i, j]
      ->   X = x, channels last;  Y[n, h, w, f] += X[n, s h + i, s w + j, c] * K[i, j, c, f]

Element-wise ops between them follow, as do pads and concatenations: what is transposed stays so, up to where somebody
wants it otherwise.
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
NEW_POSITION = (0, 3, 1, 2)  # of loops over (n, c, h, w) among those over (n, h, w, c)
PLAIN = ("arith.", "math.", "linalg.yield")
POOLS = {"linalg.pooling_nchw_max": linalg.pooling_nhwc_max, "linalg.pooling_nchw_sum": linalg.pooling_nhwc_sum}
PART = "tensor.extract_slice"
MOVES = (PART, "tensor.concat", "tensor.collapse_shape")
T = TypeVar("T")
CONV, DEPTHWISE = "linalg.conv_2d_nchw_fchw", "linalg.depthwise_conv_2d_nchw_chw"


def turn_channels_last(module: ir.Module) -> None:
    """Turn convolutions and pools of a module, and what lies between them, in place."""
    functions = [op for op in module.body.operations if op.operation.name == "func.func"]
    if not has_channels_first(module):
        return
    for block in (block for function in functions for block in function.regions[0].blocks):
        channels_last = ChannelsLast()
        for op in list(block.operations):
            channels_last.take(op.operation)
    run_passes(module, "builtin.module(canonicalize,cse)")


def has_channels_first(module: ir.Module) -> bool:
    """Tell whether a module has a convolution or a pool with channels first."""
    return any(op.name in (CONV, DEPTHWISE, *POOLS, *KERNELS) for op in every_op(module))


@dataclass
class ChannelsLast:
    """Values of a block that there are with channels last.

    Attributes:
        last: The value with channels last, for every value that was made of one.
    """

    last: dict[ir.Value, ir.Value] = field(default_factory=dict)

    def take(self, op: ir.Operation) -> None:
        """Turn an op, if it is one that can be and that should."""
        with ir.InsertionPoint(op), op.location:
            back = write_planes(op) if self.stays(op) else spread_phases(op, self.last)
            if back is None and op.name == CONV and TOGETHER not in op.attributes and op.operands[0] not in self.last:
                back = product_of(op) or write_along_rows(op)
            if back is None and (result := self.turn(op)) is not None:
                back = permuted(result, BACK)
                self.last[back] = result
        if back is None:
            return
        op.results[0].replace_all_uses_with(back)
        op.erase()

    def stays(self, op: ir.Operation) -> bool:
        """Tell whether an op reads windows of planes that nobody has transposed."""
        planes = planes_of(op)
        return planes is not None and planes.x not in self.last and op.operands[0] not in self.last

    def turn(self, op: ir.Operation) -> ir.Value | None:
        """An op's result with channels last; `None` where the op stays."""
        if op.name in (CONV, DEPTHWISE, *POOLS):
            return self.turn_windows(op)
        if (groups := groups_of(op)) is not None:
            return self.turn_groups(groups)
        if op.name == "tensor.pad" and (op.operands[0] in self.last or is_for_windows(op)):
            return self.turn_pad(op)
        if op.name in MOVES:
            return self.turn_moved(op)
        if is_elementwise(op) and any(value in self.last for value in op.operands):
            return self.turn_elementwise(op)
        return None

    def of(self, value: ir.Value) -> ir.Value:
        """A value with channels last."""
        if value in self.last:
            return self.last[value]
        fill = fill_of(value)
        if fill is not None:
            shape = [value.type.shape[d] for d in LAST]
            return filled(shape, value.type.element_type, fill.operands[0])
        return permuted(value, LAST)

    def turn_windows(self, op: ir.Operation) -> ir.Value | None:
        """A convolution, or a pool."""
        x, attributes = self.of(op.operands[0]), attributes_of_steps(op)
        if op.name == CONV:
            return self.turn_convolution(op, x)
        if op.name == DEPTHWISE:
            zeros = self.of(op.operands[2])
            kernel = permuted(op.operands[1], (1, 2, 0))
            return linalg.depthwise_conv_2d_nhwc_hwc(x, kernel, outs=[zeros], **attributes)
        return POOLS[op.name](x, op.operands[1], outs=[self.of(op.operands[2])], **attributes)

    def turn_convolution(self, op: ir.Operation, x: ir.Value) -> ir.Value:
        """A convolution, and then its bias: importers start from it."""
        bias, kind = bias_of(op.operands[2]), op.results[0].type
        if bias is None:
            start = self.of(op.operands[2])
        else:
            start = filled(transposed(kind.shape), kind.element_type, arith.constant(kind.element_type, 0.0))
        sums = linalg.conv_2d_nhwc_hwcf(x, last_of(op.operands[1]), outs=[start], **attributes_of_steps(op))
        return sums if bias is None else with_bias(sums, bias, -1)

    def turn_groups(self, groups: Groups) -> ir.Value | None:
        """A grouped convolution, with channels in one dimension again, and then its bias."""
        start = groups.start if groups.start is not None else groups.op.operands[2]
        bias, fill = bias_of(start), fill_of(start)
        if bias is not None:
            kind = bias.type.element_type
            return with_bias(groups.convolve(self.of(groups.x), arith.constant(kind, 0.0)), bias, -1)
        return groups.convolve(self.of(groups.x), fill.operands[0]) if fill is not None else None

    def turn_pad(self, op: ir.Operation) -> ir.Value | None:
        """A pad with one constant number, by constant amounts."""
        return write_pad(op, self.of, transposed) if len(op.results[0].type.shape) == len(LAST) else None

    def turn_moved(self, op: ir.Operation) -> ir.Value | None:
        """A part of a tensor, several in one, or phases that are spread."""
        if op.name == PART:
            return self.turn_slice(op)
        return self.turn_concatenation(op) if op.name == "tensor.concat" else interleave_phases(op, self.last)

    def turn_concatenation(self, op: ir.Operation) -> ir.Value | None:
        """A concatenation of which no more has to be transposed for it than was transposed before it."""
        whole = op.results[0].type
        if len(whole.shape) != len(LAST) or not all(value.type.has_static_shape for value in op.operands):
            return None
        if 2 * sum(prod(value.type.shape) for value in op.operands if value in self.last) < prod(whole.shape):
            return None
        kind = ir.RankedTensorType.get(transposed(whole.shape), whole.element_type)
        return tensor.concat(kind, LAST.index(op.attributes["dim"].value), [self.of(value) for value in op.operands])

    def turn_slice(self, op: ir.Operation) -> ir.Value | None:
        """A part of known size of a tensor, in as many dimensions."""
        kind, offsets_sizes_strides = op.results[0].type, static_slice(op)
        whole = self.last.get(op.operands[0])
        if whole is None or len(op.operands) > 1 or len(kind.shape) != len(LAST):
            return None
        part = ir.RankedTensorType.get(transposed(kind.shape), kind.element_type)
        return tensor.extract_slice(part, whole, [], [], [], *map(transposed, offsets_sizes_strides))

    def turn_elementwise(self, op: ir.Operation) -> ir.Value | None:
        """An element-wise op, where each operand is read along its loops or always at its first position."""
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
    """What there is of the dimensions (n, c, h, w), of (n, h, w, c)."""
    return [sizes[d] for d in LAST]


def write_pad(
    pad: ir.Operation, of: Callable[[ir.Value], ir.Value], arranged: Callable[[Sequence[int]], list[int]]
) -> ir.Value | None:
    """A pad with one constant number, by constant amounts, of a tensor in another layout; `None` if it is no such pad.

    Args:
        pad: The pad.
        of: Gives a tensor in that layout.
        arranged: Gives a number of each dimension in that layout; those of new dimensions are 0.
    """
    body = [inner.operation for inner in pad.regions[0].blocks[0].operations]
    if len(pad.operands) != 1 or len(body) != 1:
        return None
    low, high = (list(ir.DenseI64ArrayAttr(pad.attributes[f"static_{side}"])) for side in ("low", "high"))
    x = of(pad.operands[0])
    low, high = arranged(low), arranged(high)
    shape = [size + a + b for size, a, b in zip(x.type.shape, low, high, strict=True)]
    kind = ir.RankedTensorType.get(shape, x.type.element_type)
    padded = tensor.PadOp(kind, x, [], [], low, high)
    index_types = [ir.IndexType.get()] * len(shape)
    with ir.InsertionPoint(padded.regions[0].blocks.append(*index_types, arg_locs=[pad.location] * len(shape))):
        tensor.yield_(body[0].operands[0])
    return padded.result


def is_elementwise(op: ir.Operation, rank: int = len(LAST)) -> bool:
    """Tell whether an op computes each element of a tensor of so many dimensions by plain arithmetic."""
    if op.name != "linalg.generic" or len(op.results) != 1 or len(op.results[0].type.shape) != rank:
        return False
    names = [inner.operation.name for inner in op.regions[0].blocks[0].operations]
    return all(name.startswith(PLAIN) for name in names) and is_whole(indexing_maps(op)[-1], rank)


def is_for_windows(pad: ir.Operation) -> bool:
    """Tell whether all that reads a padded tensor turns it."""
    users = [use.owner.operation for use in pad.results[0].uses]
    split = [use.owner.operation for op in users if op.name == SPLIT for use in op.results[0].uses]
    parts = [use.owner.operation for op in users if op.name == PART for use in op.results[0].uses]
    readers = [*(op for op in users if op.name not in (SPLIT, PART)), *split, *parts]
    return all(
        op.name in (CONV, DEPTHWISE, *POOLS, *KERNELS) and planes_of(op) is None and not goes_along_rows(op)
        for op in readers
    )


def is_whole(amap: ir.AffineMap, rank: int = len(LAST)) -> bool:
    """Tell whether an operand of so many dimensions is read at the position that is written."""
    return bool(amap == ir.AffineMap.get_identity(rank))


def transposed_map(amap: ir.AffineMap, value: ir.Value) -> ir.AffineMap | None:
    """How an operand of an op over (n, c, h, w) is read by one over (n, h, w, c); `None` where that is not plain."""
    loops = dims(len(LAST))
    if amap.n_dims != len(LAST):
        return None
    results: list[ir.AffineExpr] = []
    for d, size in zip(dimensions(amap), getattr(value.type, "shape", ()), strict=True):
        if d is None and size != 1:
            return None
        results.append(ir.AffineConstantExpr.get(0) if d is None or size == 1 else loops[NEW_POSITION[d]])
    return ir.AffineMap.get(len(LAST), 0, results)
