"""Convolutions that are computed in NCHW with vectors along rows, which several filters share.

    y[n, f, h, w] += K[f, c, i, j] * x[n, c, s h + d i, w + e j]

Nothing is transposed. This is faster if no other window reads the result, if an element sums few products or there are
few filters, and if rows are close to a multiple of the vector length. Volumes, (n, c, d, h, w), likewise.
"""

from math import ceil, prod

from mlir import ir
from mlir.dialects import arith, tensor

from autotune.compiler.ir.values import fill_of, is_constant, maker, permutation_of, static_slice
from autotune.compiler.normalise.convolution.pointwise import PLANES, VOLUMES, reads
from autotune.compiler.normalise.convolution.window_sums import holds_f32, multiply_add
from autotune.compiler.normalise.convolution.windows import WindowAxis, bias_of, steps_of, with_bias
from autotune.compiler.normalise.emit import dims, filled, flat, generic, part_read
from autotune.compiler.normalise.shapes.slices import amounts, is_plain_pad

LANES = 16  # assumed vector length; on machines with shorter vectors, more rows are whole vectors
MOVED = 4.0  # cost of transposing an element, in vector multiply-adds: `docs/decisions/schedules.md`
COPIED = 24.0  # cost of writing and reading a vector beyond L1, in vector multiply-adds
ALONG_ROWS = 1.5  # cost of a multiply-add along rows relative to one of channels, where the kernel is in panels
TOGETHER = "autotune.together"  # marks convolutions that are converted to NHWC together
PASSING = ("tensor.pad", "tensor.concat", "tensor.cast")
WINDOWS = ("linalg.conv_", "linalg.depthwise_conv_", "linalg.pooling_")


def write_along_rows(op: ir.Operation) -> ir.Value | None:
    """Build a convolution along rows; `None` for any other operation, or if channels last is estimated faster."""
    return sums_along_rows(op) if goes_along_rows(op) else None


def goes_along_rows(op: ir.Operation) -> bool:
    """Return whether an operation is a convolution that is faster along rows, if its input is not transposed."""
    if op.name not in (PLANES, VOLUMES) or TOGETHER in op.attributes or not is_along_rows(op):
        return False
    return is_cheaper_along_rows(op) and not is_read_by_windows(op.results[0])


def is_along_rows(op: ir.Operation) -> bool:
    """Return whether a convolution of f32 has unit stride along rows, so that vectors along rows are contiguous."""
    return all(map(holds_f32, op.operands)) and steps_of(op, "strides")[-1] == 1


def is_cheaper_along_rows(op: ir.Operation) -> bool:
    """Estimate whether vectors along rows are faster than vectors of channels, including transposes."""
    x, written = source_of_pad(op), op.results[0]
    along_rows, of_channels = times_of(op)
    transposed_elements = prod(written.type.shape) + (0 if is_constant(x) else prod(x.type.shape))
    return bool(along_rows < of_channels + MOVED * transposed_elements)


def times_of(op: ir.Operation) -> tuple[float, float]:
    """Return the estimated cost of a convolution along rows and along channels, in vector multiply-adds.

    Vectors of channels skip the products with padding beside a row (``passes/skip_pads.py``).
    """
    filters, *reduced_sizes = op.operands[1].type.shape
    written = op.results[0].type.shape
    products = prod(written) * prod(reduced_sizes) / LANES
    of_rows, of_channels = (ceil(size / LANES) * LANES / size for size in (written[-1], filters))
    return ALONG_ROWS * products * of_rows, products * of_channels * share_inside(op)


def pad_of(op: ir.Operation) -> ir.Operation | None:
    """Return the constant pad of spatial dimensions that a convolution reads; `None` if there is none."""
    producer = maker(op.operands[0])
    if producer is None or producer.name != "tensor.pad" or not is_plain_pad(producer):
        return None
    return producer if not any(side[d] for side in amounts(producer) for d in (0, 1)) else None


def source_of_pad(op: ir.Operation) -> ir.Value:
    """Return the input of a convolution before it is padded."""
    pad = pad_of(op)
    return op.operands[0] if pad is None else pad.operands[0]


def share_inside(op: ir.Operation) -> float:
    """Return the share of products along rows that are not with padding."""
    pad, side, windows = pad_of(op), op.operands[1].type.shape[-1], op.results[0].type.shape[-1]
    if pad is None:
        return 1.0
    stride, dilation, before = steps_of(op, "strides")[-1], steps_of(op, "dilations")[-1], amounts(pad)[0][-1]
    row = WindowAxis(pad.operands[0].type.shape[-1], windows, side, stride, dilation, before)
    return float(sum(len(row.inside(window)) for window in range(windows)) / (windows * side))


def is_read_by_windows(value: ir.Value) -> bool:
    """Return whether a convolution or pool uses a tensor, directly or through element-wise operations and pads."""
    worklist, seen = [value], set[ir.Operation]()
    while worklist:
        for use in worklist.pop().uses:
            user = use.owner.operation
            if user in seen:
                continue
            seen.add(user)
            if user.name.startswith(WINDOWS):
                return True
            if user.name in PASSING or user.name == "linalg.generic":
                worklist += user.results
    return False


def sums_along_rows(op: ir.Operation) -> ir.Value:
    """Build a convolution with loops over (n, f, positions, c, window); a bias is added afterwards."""
    x, _, start = op.operands
    element_type, bias = op.results[0].type.element_type, bias_of(start)
    is_flat = is_better_whole(op)
    shape = list(op.results[0].type.shape)
    pitch = pitch_of(x) if is_flat else 0
    padded_shape = [*shape[:-2], (shape[-2] - 1) * pitch + shape[-1]] if is_flat else shape
    fill = fill_of(start)
    zero = arith.constant(element_type, 0.0) if fill is None else fill.operands[0]
    into = start if bias is None and not is_flat else filled(padded_shape, element_type, zero)
    sums = window_sums(op, into, pitch)
    if is_flat:
        *outer, row, column = dims(len(shape))
        read = ir.AffineMap.get(len(shape), 0, [*outer, row * pitch + column])
        identity = ir.AffineMap.get_identity(len(shape))
        empty = tensor.empty(shape, element_type)
        sums = generic([sums], empty, [read, identity], ["parallel"] * len(shape), lambda element, _: element)
    return sums if bias is None else with_bias(sums, bias, 1)


def window_sums(op: ir.Operation, into: ir.Value, pitch: int) -> ir.Value:
    """Build the sums of a convolution, without bias.

    Args:
        op: Convolution.
        into: Initial value.
        pitch: Row pitch of the input in elements if rows of the result are flattened with the same pitch; 0 if they
            are not.
    """
    x, kernel, _ = op.operands
    inner, producer = len(x.type.shape) - 2, maker(kernel)
    rank = into.type.rank
    loops = dims(rank + 1 + inner)
    n, f, *positions = loops[:rank]
    c, *window = loops[rank:]
    strides, dilations = steps_of(op, "strides"), steps_of(op, "dilations")
    offsets = [at * gap for at, gap in zip(window, dilations, strict=True)]
    if pitch:
        offsets[-2:] = [offsets[-2] * pitch + offsets[-1]]
        x = in_one_dimension(x, pitch)
    positions_read = [position * step + at for position, step, at in zip(positions, strides, offsets, strict=False)]
    of_kernel, sizes = [f, c, *window], [*into.type.shape, *kernel.type.shape[1:]]
    if producer is not None and producer.name == "linalg.transpose":  # a weight is not transposed in every call
        order = permutation_of(producer)
        kernel, of_kernel = producer.operands[0], [of_kernel[order.index(d)] for d in range(len(order))]
    maps = reads(len(loops), of_kernel, [n, c, *positions_read], [n, f, *positions])
    iterators = ["parallel"] * rank + ["reduction"] * (inner + 1)
    return generic([kernel, part_read(x, maps[1], sizes)], into, maps, iterators, multiply_add)


def source_of(x: ir.Value) -> tuple[ir.Value, tuple[int, int]]:
    """Return the planes that a tensor is a slice of, and its row and column offset; the tensor itself if it is none."""
    producer = maker(x)
    if producer is None or producer.name != "tensor.extract_slice" or len(producer.operands) != 1:
        return x, (0, 0)
    source = producer.operands[0]
    offsets, sizes, strides = static_slice(producer)
    is_plain = sizes == list(x.type.shape) and sizes[:-2] == list(source.type.shape)[:-2] and set(strides) == {1}
    return (source, (offsets[-2], offsets[-1])) if is_plain else (x, (0, 0))


def pitch_of(x: ir.Value) -> int:
    """Return the row pitch of planes, or of slices of planes, in elements."""
    return int(source_of(x)[0].type.shape[-1])


def in_one_dimension(x: ir.Value, pitch: int) -> ir.Value:
    """Collapse rows of planes, or of slices of planes, to one dimension, including elements between sliced rows."""
    source, (row, column) = source_of(x)
    inner = len(x.type.shape) - 2
    flattened = flat(source, [*([d] for d in range(inner)), [inner, inner + 1]])
    *outer, height, width = x.type.shape
    begin, size = row * pitch + column, (height - 1) * pitch + width
    if size == flattened.type.shape[-1]:
        return flattened
    slice_type = ir.RankedTensorType.get([*outer, size], x.type.element_type)
    return tensor.extract_slice(
        slice_type, flattened, [], [], [], [*[0] * inner, begin], [*outer, size], [1] * (inner + 1)
    )


def is_better_whole(op: ir.Operation) -> bool:
    """Return whether rows of the result should be computed flattened with the row pitch of the input.

        y[n, f, h, w] = z[n, f, h W + w];  z[n, f, p] += K[f, c, i, j] * x[n, c, p + i W + j]

    This avoids partial vectors at row ends by computing the elements between rows as well. The result must be copied
    once more, which is amortized if an element sums many products.
    """
    x, kernel, start = op.operands
    height, width = op.results[0].type.shape[-2:]
    if steps_of(op, "strides")[-2] != 1 or (bias_of(start) is None and fill_of(start) is None):
        return False
    positions = (height - 1) * pitch_of(x) + width
    separate_rows, flat_rows = (ceil(size / LANES) * LANES * rows for size, rows in ((width, height), (positions, 1)))
    saved = (separate_rows - flat_rows) * prod(kernel.type.shape[1:]) / LANES
    return bool(saved > COPIED * height * width / LANES)
