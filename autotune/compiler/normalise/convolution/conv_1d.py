"""Rewrite 1-D convolutions and pools as 2-D ones over planes of one row, so that rewrites of the latter apply.

    y[n, f, w] += x[n, c, s w + j] * k[f, c, j]
      ->   X[n, c, 0, w] = x[n, c, w];  Y[n, f, h, w] += X[n, c, h + i, s w + j] * K[f, c, i, j], one h and one i

Pads and element-wise operations between them are rewritten as well. Importers write some 1-D operations over planes of
one column; those are transposed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from mlir import ir
from mlir.dialects import linalg, tensor

from autotune.compiler.ir.module import every_op, run_passes
from autotune.compiler.ir.nests import dimensions, indexing_maps
from autotune.compiler.ir.values import fill_of, maker
from autotune.compiler.normalise.convolution.channels_last import DEPTHWISE, is_elementwise, is_whole, write_pad
from autotune.compiler.normalise.convolution.grouped import KERNELS, SPLIT
from autotune.compiler.normalise.convolution.windows import KERNEL_BACK, bias_of
from autotune.compiler.normalise.emit import copy_of_body, dims, filled, flat, generic, unflat

# 1-D operations: the 2-D operation, and the position of the unit dimension in its input and in its kernel.
LINES: dict[str, tuple[Callable[..., ir.Value], int, int]] = {
    "linalg.conv_1d_ncw_fcw": (linalg.conv_2d_nchw_fchw, 2, 2),
    "linalg.conv_1d_nwc_wcf": (linalg.conv_2d_nhwc_hwcf, 1, 0),
    "linalg.depthwise_conv_1d_ncw_cw": (linalg.depthwise_conv_2d_nchw_chw, 2, 1),
    "linalg.depthwise_conv_1d_nwc_wc": (linalg.depthwise_conv_2d_nhwc_hwc, 1, 0),
    "linalg.pooling_ncw_max": (linalg.pooling_nchw_max, 2, 0),
    "linalg.pooling_ncw_sum": (linalg.pooling_nchw_sum, 2, 0),
    "linalg.pooling_nwc_max": (linalg.pooling_nhwc_max, 1, 0),
    "linalg.pooling_nwc_sum": (linalg.pooling_nhwc_sum, 1, 0),
}
GROUPED = {name: getattr(linalg, name.partition(".")[2]) for name in KERNELS}
ROW = 2  # position of h in (n, c, h, w)
LINE_BACK = (2, 1, 0)  # a kernel (j, c, f) as (f, c, j)
RANK = 3  # rank of a 1-D input (n, c, w)
COLUMN = 4  # rank of a 1-D input that was written as a plane of one column, (n, c, w, 1)


def make_convolutions_2d(module: ir.Module) -> None:
    """Rewrite 1-D convolutions and pools, and operations between them, over planes of one row, in place."""
    if not any(op.name in LINES or is_on_column(op) for op in every_op(module)):
        return
    functions = [op for op in module.body.operations if op.operation.name == "func.func"]
    for block in (block for function in functions for block in function.regions[0].blocks):
        rows = Rows()
        for op in list(block.operations):
            rows.take(op.operation)
    run_passes(module, "builtin.module(canonicalize,cse)")


@dataclass
class Rows:
    """Rewrite of the 1-D operations of a block.

    Attributes:
        planes: Plane (n, c, 1, w) of every 1-D value that was rewritten.
    """

    planes: dict[ir.Value, ir.Value] = field(default_factory=dict)

    def take(self, op: ir.Operation) -> None:
        """Rewrite an operation if it is supported and worthwhile."""
        with ir.InsertionPoint(op), op.location:
            plane = self.convert(op)
            if plane is None:
                return
            back = without_one(plane, LINES[op.name][1] if op.name in LINES else ROW)
            if len(op.results[0].type.shape) == COLUMN:
                back = with_one(back, RANK)
            if op.name not in LINES or LINES[op.name][1] == ROW:
                self.planes[back] = plane
        op.results[0].replace_all_uses_with(back)
        op.erase()

    def convert(self, op: ir.Operation) -> ir.Value | None:
        """Build the result of an operation as a plane of one row; `None` if the operation is not rewritten."""
        if op.name in LINES:
            return self.convert_windows(op)
        if op.name == DEPTHWISE and is_on_column(op):
            kernel = with_one(without_one(op.operands[1], 2), 1)
            start = self.of(op.operands[2])
            return linalg.depthwise_conv_2d_nchw_chw(self.of(op.operands[0]), kernel, outs=[start], **steps(op))
        if op.name == "tensor.collapse_shape" and (conv := maker(op.operands[0])) is not None and is_on_column(conv):
            return self.convert_groups(conv) if conv.name in KERNELS and is_line_of_groups(op) else None
        if op.name == "tensor.pad" and (self.holds(op.operands[0]) or any(map(reads_line, users(op)))):
            return write_pad(op, self.of, partial(with_row, one=0)) if is_line(op.results[0]) else None
        if is_elementwise(op) and op.results[0].type.rank == RANK and any(v in self.planes for v in op.operands):
            return self.convert_elementwise(op)
        return None

    def holds(self, value: ir.Value) -> bool:
        """Return whether a value is available as a plane of one row, or is a column expanded from a 1-D value."""
        producer = maker(value)
        return value in self.planes or (producer is not None and is_column(producer))

    def of(self, value: ir.Value) -> ir.Value:
        """Return a 1-D value or column as a plane of one row."""
        if value in self.planes:
            return self.planes[value]
        producer, fill, bias = maker(value), fill_of(value), bias_of(value)
        if producer is not None and is_column(producer):
            return self.of(producer.operands[0])
        n, c, w, *_ = value.type.shape
        if fill is not None:
            return filled([n, c, 1, w], value.type.element_type, fill.operands[0])
        if bias is not None:
            loops = dims(COLUMN)
            maps = [ir.AffineMap.get(COLUMN, 0, [loops[1]]), ir.AffineMap.get_identity(COLUMN)]
            into = tensor.empty([n, c, 1, w], value.type.element_type)
            return generic([bias], into, maps, ["parallel"] * COLUMN)
        return with_one(without_one(value, RANK) if len(value.type.shape) == COLUMN else value, ROW)

    def convert_windows(self, op: ir.Operation) -> ir.Value:
        """Rewrite a convolution or pool."""
        write, axis, kernel_axis = LINES[op.name]
        x, kernel, start = op.operands
        as_plane = self.of if axis == ROW else partial(with_one, axis=axis)
        return write(as_plane(x), kernel_of(kernel, kernel_axis), outs=[as_plane(start)], **steps(op))

    def convert_groups(self, conv: ir.Operation) -> ir.Value | None:
        """Rewrite a grouped convolution over a column, and collapse its channels."""
        split, start = maker(conv.operands[0]), maker(conv.operands[2])
        if split is None or start is None or split.name != SPLIT or start.name not in (SPLIT, "linalg.fill"):
            return None
        n, groups, filters, w, _ = conv.results[0].type.shape
        x, joined = self.of(split.operands[0]), [[0], [1, 2], [3], [4]]
        parts = unflat(x, joined, [n, groups, x.type.shape[1] // groups, *x.type.shape[2:]])
        kernel = with_one(without_one(conv.operands[1], COLUMN), RANK)
        shape = [n, groups, filters, 1, w]
        dtype = conv.results[0].type.element_type
        is_fill = start.name == "linalg.fill"
        into = filled(shape, dtype, start.operands[0]) if is_fill else unflat(self.of(start.operands[0]), joined, shape)
        return flat(GROUPED[conv.name](parts, kernel, outs=[into], **steps(conv)), joined)

    def convert_elementwise(self, op: ir.Operation) -> ir.Value | None:
        """Rewrite an element-wise operation whose operands are read by identity maps or are broadcast."""
        *maps, _ = indexing_maps(op)
        *values, _ = op.operands
        shape, loops = with_row(op.results[0].type.shape), dims(COLUMN)
        layouts, inputs = [], []
        for amap, value in zip(maps, values, strict=True):
            if is_whole(amap, RANK):
                layouts.append(ir.AffineMap.get_identity(COLUMN))
                inputs.append(self.of(value))
                continue
            operand_dims, sizes = dimensions(amap), getattr(value.type, "shape", ())
            if any(d is None and size != 1 for d, size in zip(operand_dims, sizes, strict=True)):
                return None
            first = ir.AffineConstantExpr.get(0)
            results = [first if d is None else loops[d + (d >= ROW)] for d in operand_dims]
            layouts.append(ir.AffineMap.get(COLUMN, 0, results))
            inputs.append(value)
        into = tensor.empty(shape, op.results[0].type.element_type)
        layouts.append(ir.AffineMap.get_identity(COLUMN))
        return generic(inputs, into, layouts, ["parallel"] * COLUMN, copy_of_body(op))


def is_line_of_groups(collapse: ir.Operation) -> bool:
    """Return whether a reshape only collapses groups and channels."""
    n, groups, filters, w, _ = collapse.operands[0].type.shape
    line = [n, groups * filters, w]
    return list(collapse.results[0].type.shape) in (line, [*line, 1])


def with_row(sizes: Sequence[int], one: int = 1) -> list[int]:
    """Convert a sequence of one number per dimension from (n, c, w) or (n, c, w, 1) to (n, c, 1, w)."""
    n, c, w, *_ = sizes
    return [n, c, one, w]


def with_one(value: ir.Value, axis: int) -> ir.Value:
    """Insert a unit dimension into a tensor."""
    shape = list(value.type.shape)
    return unflat(value, joined_at(axis, len(shape)), [*shape[:axis], 1, *shape[axis:]])


def without_one(value: ir.Value, axis: int) -> ir.Value:
    """Drop a unit dimension of a tensor."""
    return flat(value, joined_at(axis, len(value.type.shape) - 1))


def joined_at(axis: int, rank: int) -> list[list[int]]:
    """Return the reassociation that inserts a unit dimension at a position."""
    with_it = min(axis, rank - 1)  # dimension that is expanded into itself and the unit dimension
    return [[d] if d < with_it else [d, d + 1] if d == with_it else [d + 1] for d in range(rank)]


def kernel_of(kernel: ir.Value, axis: int) -> ir.Value:
    """Return a 1-D kernel as a 2-D one; a transpose from (j, c, f) is rebuilt, so that other rewrites can match it."""
    producer = maker(kernel)
    if producer is None or producer.name != "linalg.transpose" or axis != ROW:
        return with_one(kernel, axis)
    if tuple(ir.DenseI64ArrayAttr(producer.attributes["permutation"])) != LINE_BACK:
        return with_one(kernel, axis)
    source = with_one(producer.operands[0], 0)
    into = tensor.empty(with_row(kernel.type.shape), kernel.type.element_type)
    return linalg.transpose(source, outs=[into], permutation=KERNEL_BACK[4])


def steps(op: ir.Operation) -> dict[str, ir.Attribute]:
    """Return the strides and dilations of a 1-D operation as those over planes of one row."""
    attributes = {}
    for name in ("strides", "dilations"):
        step = int(ir.DenseIntElementsAttr(op.attributes[name])[0]) if name in op.attributes else 1
        attributes[name] = ir.Attribute.parse(f"dense<[1, {step}]> : tensor<2xi64>")
    return attributes


def is_on_column(op: ir.Operation) -> bool:
    """Return whether an operation slides windows over planes of one column that were expanded from 1-D values."""
    if op.name not in (DEPTHWISE, *KERNELS) or any(value.type.shape[-1] != 1 for value in op.operands):
        return False
    producer = maker(op.operands[0])
    while producer is not None and producer.name in (SPLIT, "tensor.pad") and not is_column(producer):
        producer = maker(producer.operands[0])
    return producer is not None and is_column(producer)


def is_column(op: ir.Operation) -> bool:
    """Return whether an operation expands a 1-D value to a plane of one column."""
    if op.name != SPLIT or len(op.results[0].type.shape) != COLUMN or op.results[0].type.shape[-1] != 1:
        return False
    return list(op.operands[0].type.shape) == list(op.results[0].type.shape)[:RANK]


def is_line(value: ir.Value) -> bool:
    """Return whether a tensor has the rank of a 1-D value, or the shape of a column."""
    shape = value.type.shape
    return len(shape) == RANK or (len(shape) == COLUMN and shape[-1] == 1)


def users(op: ir.Operation) -> list[ir.Operation]:
    """Return the users of the only result of an operation."""
    return [use.owner.operation for use in op.results[0].uses]


def reads_line(op: ir.Operation) -> bool:
    """Return whether an operation is a 1-D convolution or pool, or the column that one is written over."""
    return op.name in LINES or (is_column(op) and any(map(is_on_column, users(op))))
