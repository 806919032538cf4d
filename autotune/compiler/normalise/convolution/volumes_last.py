"""Convert 3-D convolutions to NDHWC where skipping products with padding makes it faster.

    y[n, f, d, h, w] += K[f, c, i, j, k] * p[n, c, d + i, h + j, w + k],  p = pad x
      ->   Y[n, d, h, w, f] += K[i, j, k, c, f] * P[n, d + i, h + j, w + k, c],  P = pad X

Vectors along rows multiply the zeros on both sides of each row; with vectors of channels these products are skipped
(``passes/skip_pads.py``). Transposed convolutions have wide padding: for 16x16x16 and a kernel of 3x5x7, half of the
products are with zeros.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import ceil, prod

from mlir import ir
from mlir.dialects import arith, linalg

from autotune.compiler.ir.module import CLEAN, every_op, replace_ops
from autotune.compiler.ir.values import fill_of, is_constant, maker
from autotune.compiler.normalise.convolution.along_rows import LANES, is_better_whole, pitch_of
from autotune.compiler.normalise.convolution.channels_last import write_pad
from autotune.compiler.normalise.convolution.pointwise import VOLUMES, is_pointwise
from autotune.compiler.normalise.convolution.window_sums import holds_f32
from autotune.compiler.normalise.convolution.windows import WindowAxis, bias_of, steps_of, with_bias
from autotune.compiler.normalise.emit import filled, permuted
from autotune.compiler.normalise.shapes.slices import amounts, is_plain_pad

LAST, BACK, KERNEL = (0, 2, 3, 4, 1), (0, 4, 1, 2, 3), (2, 3, 4, 1, 0)
REGISTERS = 28  # accumulators of a register tile: positions of a row times vectors of channels
MOVED, FAR = 1.0, 4.0  # cost of transposing an element, in vector multiply-adds: within a cache, and beyond it
CACHE = 1 << 18  # elements that an L2 cache surely holds


def use_channels_last_in_volumes(module: ir.Module) -> None:
    """Convert 3-D convolutions that are estimated to be faster with channels last, in place."""
    convolutions = [op for op in every_op(module) if op.name == VOLUMES and is_faster_last(op)]
    replace_ops(module, convolutions, lambda op: permuted(with_channels_last(op), BACK), passes=CLEAN)


def is_faster_last(op: ir.Operation) -> bool:
    """Estimate whether a convolution is faster with channels last, including transposes."""
    start = op.operands[2]
    if not all(map(holds_f32, op.operands)) or is_pointwise(op) or (bias_of(start) is None and fill_of(start) is None):
        return False
    shape = op.results[0].type.shape
    transposed_elements = prod(shape) + sum(
        prod(value.type.shape) for value in (source_of(op), op.operands[1]) if not is_constant(value)
    )
    moved = FAR if transposed_elements > CACHE else MOVED
    return bool(products_of_channels(op) + moved * transposed_elements < products_along_rows(op))


def products_along_rows(op: ir.Operation) -> float:
    """Return the number of multiply-adds of vectors along rows."""
    *outer, height, width = op.results[0].type.shape
    rows = height * ceil(width / LANES)
    if steps_of(op, "strides")[-1] != 1:
        rows *= 2  # strided elements are gathered first
    elif is_better_whole(op):
        rows = ceil(((height - 1) * pitch_of(op.operands[0]) + width) / LANES)
    return float(prod(outer) * rows * prod(op.operands[1].type.shape[1:]))


def products_of_channels(op: ir.Operation) -> float:
    """Return the number of multiply-adds of vectors of channels, without products with padding."""
    batch, filters = op.results[0].type.shape[:2]
    channels, vectors = op.operands[1].type.shape[1], ceil(filters / LANES)
    *outer, row = axes_of(op)
    if row.windows * min(vectors, 2) > REGISTERS:
        row = replace(row, size=row.size + 2 * row.before, before=0)
    taps = prod(sum(len(axis.inside(window)) for window in range(axis.windows)) for axis in (*outer, row))
    return float(batch * vectors * channels * taps)


def axes_of(op: ir.Operation) -> Iterator[WindowAxis]:
    """Yield the windows of a convolution along each spatial dimension, over the unpadded input."""
    source, before = source_of(op).type.shape, pads_of(op)
    strides, dilations = steps_of(op, "strides"), steps_of(op, "dilations")
    windows, sides = op.results[0].type.shape[2:], op.operands[1].type.shape[2:]
    for each in zip(source[2:], windows, sides, strides, dilations, before, strict=True):
        yield WindowAxis(*each)


def pad_of(op: ir.Operation) -> ir.Operation | None:
    """Return the constant pad of spatial dimensions that a convolution reads; `None` if there is none."""
    producer = maker(op.operands[0])
    if producer is None or producer.name != "tensor.pad" or not is_plain_pad(producer):
        return None
    return producer if not any(side[d] for side in amounts(producer) for d in (0, 1)) else None


def source_of(op: ir.Operation) -> ir.Value:
    """Return the unpadded input of a convolution."""
    pad = pad_of(op)
    return op.operands[0] if pad is None else pad.operands[0]


def pads_of(op: ir.Operation) -> Sequence[int]:
    """Return the low padding along each spatial dimension."""
    pad = pad_of(op)
    return [0, 0, 0] if pad is None else amounts(pad)[0][2:]


def with_channels_last(op: ir.Operation) -> ir.Value:
    """Build a convolution with channels last, (n, d, h, w, f); a bias is added afterwards."""
    x, kernel, start = op.operands
    pad, bias, fill = pad_of(op), bias_of(start), fill_of(start)
    padded = None if pad is None else write_pad(pad, lambda value: permuted(value, LAST), transposed)
    result_type = op.results[0].type
    zero = arith.constant(result_type.element_type, 0.0) if fill is None else fill.operands[0]
    into = filled(transposed(result_type.shape), result_type.element_type, zero)
    attributes = {name: op.attributes[name] for name in ("strides", "dilations") if name in op.attributes}
    read = permuted(x, LAST) if padded is None else padded
    sums = linalg.conv_3d_ndhwc_dhwcf(read, permuted(kernel, KERNEL), outs=[into], **attributes)
    return sums if bias is None else with_bias(sums, bias, -1)


def transposed(sizes: Sequence[int]) -> list[int]:
    """Permute a sequence from the order (n, c, d, h, w) to (n, d, h, w, c)."""
    return [sizes[d] for d in LAST]
