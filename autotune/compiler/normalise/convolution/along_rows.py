"""Convolutions whose channels are first and stay so: vectors lie along rows, several filters share what they read.

    y[n, f, h, w] += K[f, c, i, j] * x[n, c, s h + d i, w + e j]

Nothing is transposed, on the way in or out. That pays where no window reads the result, where a result sums few
products or has few filters, and where rows are about whole vectors; volumes are not transposed anyway.
"""

from math import ceil, prod

from mlir import ir
from mlir.dialects import arith, tensor

from autotune.compiler.ir.module import CLEAN, every_op, replace_ops
from autotune.compiler.ir.values import fill_of, is_constant, maker, permutation_of, static_slice
from autotune.compiler.normalise.convolution.pointwise import PLANES, VOLUMES, reads
from autotune.compiler.normalise.convolution.window_sums import holds_f32, multiply_add
from autotune.compiler.normalise.convolution.windows import bias_of, steps_of, with_bias
from autotune.compiler.normalise.emit import dims, filled, flat, generic, part_read

LANES = 16  # of a vector: where there are fewer, more rows are whole vectors
MOVED = 4.0  # multiply-adds of vectors in the time in which an element is transposed: `docs/decisions/schedules.md`
COPIED = 24.0  # multiply-adds of a vector in the time in which one is written and read once more, beyond L1
ALONG_ROWS = 1.5  # of the time of a multiply-add of channels: there, a kernel is in panels
TOGETHER = "autotune.together"  # marks convolutions that have channels last together
PASSING = ("tensor.pad", "tensor.concat", "tensor.cast")
WINDOWS = ("linalg.conv_", "linalg.depthwise_conv_", "linalg.pooling_")


def write_volumes_along_rows(module: ir.Module) -> None:
    """Write convolutions over volumes, in steps of one along rows, as sums whose vectors lie there; in place."""
    found = [op for op in every_op(module) if op.name == VOLUMES and is_along_rows(op)]
    replace_ops(module, found, sums_along_rows, passes=CLEAN)


def write_along_rows(op: ir.Operation) -> ir.Value | None:
    """The result of a convolution over planes; `None` of an op that is none, or that had better be transposed."""
    return sums_along_rows(op) if goes_along_rows(op) else None


def goes_along_rows(op: ir.Operation) -> bool:
    """Tell whether an op is a convolution over planes that had better not be transposed, if what it reads is not."""
    if op.name != PLANES or TOGETHER in op.attributes or not is_along_rows(op):
        return False
    return is_cheaper_along_rows(op) and not is_read_by_windows(op.results[0])


def is_along_rows(op: ir.Operation) -> bool:
    """Tell whether neighbours in a row of a convolution's result read neighbours."""
    return all(map(holds_f32, op.operands)) and steps_of(op, "strides")[-1] == 1


def is_cheaper_along_rows(op: ir.Operation) -> bool:
    """Estimate whether vectors along rows take less time than those of channels and what they have transposed."""
    x, written = op.operands[0], op.results[0]
    along_rows, of_channels = times_of(op)
    moved = prod(written.type.shape) + (0 if is_constant(x) else prod(x.type.shape))
    return bool(along_rows < of_channels + MOVED * moved)


def times_of(op: ir.Operation) -> tuple[float, float]:
    """What a convolution takes by vectors along rows and by those of channels, in multiply-adds of vectors."""
    filters, *summed = op.operands[1].type.shape
    written = op.results[0].type.shape
    products = prod(written) * prod(summed) / LANES
    of_rows, of_channels = (ceil(size / LANES) * LANES / size for size in (written[-1], filters))
    return ALONG_ROWS * products * of_rows, products * of_channels


def is_read_by_windows(value: ir.Value) -> bool:
    """Tell whether convolutions or pools read a tensor, or what element-wise ops, pads and the like make of it."""
    waiting, seen = [value], set[ir.Operation]()
    while waiting:
        for use in waiting.pop().uses:
            user = use.owner.operation
            if user in seen:
                continue
            seen.add(user)
            if user.name.startswith(WINDOWS):
                return True
            if user.name in PASSING or user.name == "linalg.generic":
                waiting += user.results
    return False


def sums_along_rows(op: ir.Operation) -> ir.Value:
    """A convolution's sums with loops over (n, f, positions, c, window), and then its bias: importers start from it."""
    x, _, start = op.operands
    kind, bias = op.results[0].type.element_type, bias_of(start)
    whole = is_better_whole(op)
    shape = list(op.results[0].type.shape)
    pitch = pitch_of(x) if whole else 0
    made = [*shape[:-2], (shape[-2] - 1) * pitch + shape[-1]] if whole else shape
    fill = fill_of(start)
    zero = arith.constant(kind, 0.0) if fill is None else fill.operands[0]
    into = start if bias is None and not whole else filled(made, kind, zero)
    sums = window_sums(op, into, pitch)
    if whole:
        *outer, row, column = dims(len(shape))
        read = ir.AffineMap.get(len(shape), 0, [*outer, row * pitch + column])
        plain = ir.AffineMap.get_identity(len(shape))
        empty = tensor.empty(shape, kind)
        sums = generic([sums], empty, [read, plain], ["parallel"] * len(shape), lambda element, _: element)
    return sums if bias is None else with_bias(sums, bias, 1)


def window_sums(op: ir.Operation, into: ir.Value, pitch: int) -> ir.Value:
    """The sums of a convolution alone.

    Args:
        op: The convolution.
        into: What they are added to.
        pitch: Elements from one row of what is read to the next, where rows of the result follow each other likewise
            in one dimension; 0 where each stands alone.
    """
    x, kernel, _ = op.operands
    inner, made_by = len(x.type.shape) - 2, maker(kernel)
    rank = into.type.rank
    loops = dims(rank + 1 + inner)
    n, f, *positions = loops[:rank]
    c, *window = loops[rank:]
    steps, gaps = steps_of(op, "strides"), steps_of(op, "dilations")
    moved = [at * gap for at, gap in zip(window, gaps, strict=True)]
    if pitch:
        moved[-2:] = [moved[-2] * pitch + moved[-1]]
        x = in_one_dimension(x, pitch)
    read = [position * step + at for position, step, at in zip(positions, steps, moved, strict=False)]
    of_kernel, sizes = [f, c, *window], [*into.type.shape, *kernel.type.shape[1:]]
    if made_by is not None and made_by.name == "linalg.transpose":  # a weight is not transposed in every call
        order = permutation_of(made_by)
        kernel, of_kernel = made_by.operands[0], [of_kernel[order.index(d)] for d in range(len(order))]
    maps = reads(len(loops), of_kernel, [n, c, *read], [n, f, *positions])
    iterators = ["parallel"] * rank + ["reduction"] * (inner + 1)
    return generic([kernel, part_read(x, maps[1], sizes)], into, maps, iterators, multiply_add)


def source_of(x: ir.Value) -> tuple[ir.Value, tuple[int, int]]:
    """The planes that a tensor is a part of, and where it begins there; the tensor itself where it is a whole."""
    made_by = maker(x)
    if made_by is None or made_by.name != "tensor.extract_slice" or len(made_by.operands) != 1:
        return x, (0, 0)
    source = made_by.operands[0]
    offsets, sizes, strides = static_slice(made_by)
    is_plain = sizes == list(x.type.shape) and sizes[:-2] == list(source.type.shape)[:-2] and set(strides) == {1}
    return (source, (offsets[-2], offsets[-1])) if is_plain else (x, (0, 0))


def pitch_of(x: ir.Value) -> int:
    """Elements from one row of planes, or of a part of each, to the next as they lie."""
    return int(source_of(x)[0].type.shape[-1])


def in_one_dimension(x: ir.Value, pitch: int) -> ir.Value:
    """Planes, or a part of each, with rows one behind the other as they lie, and what is between them."""
    source, (row, column) = source_of(x)
    inner = len(x.type.shape) - 2
    whole = flat(source, [*([d] for d in range(inner)), [inner, inner + 1]])
    *outer, height, width = x.type.shape
    begin, size = row * pitch + column, (height - 1) * pitch + width
    if size == whole.type.shape[-1]:
        return whole
    kind = ir.RankedTensorType.get([*outer, size], x.type.element_type)
    return tensor.extract_slice(kind, whole, [], [], [], [*[0] * inner, begin], [*outer, size], [1] * (inner + 1))


def is_better_whole(op: ir.Operation) -> bool:
    """Tell whether rows of a plane's result had better follow each other as those that are read do.

        y[n, f, h, w] = z[n, f, h W + w];  z[n, f, p] += K[f, c, i, j] * x[n, c, p + i W + j]

    Where a row ends in a vector of few elements, those that lie between two rows are computed besides, and vectors are
    whole. What they take from there is copied once more, which sums of many products make up for.
    """
    x, kernel, start = op.operands
    height, width = op.results[0].type.shape[-2:]
    if steps_of(op, "strides")[-2] != 1 or (bias_of(start) is None and fill_of(start) is None):
        return False
    positions = (height - 1) * pitch_of(x) + width
    alone, whole = (ceil(size / LANES) * LANES * rows for size, rows in ((width, height), (positions, 1)))
    saved = (alone - whole) * prod(kernel.type.shape[1:]) / LANES
    return bool(saved > COPIED * height * width / LANES)
