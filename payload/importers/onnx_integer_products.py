"""Integer products of quantized ONNX models: i32 accumulation, zero-point corrections, and requantization.

    (x - zx) (w - zw)   ->   x w' + c r - zx sums(w') ..     w' i8 without zero points, c = 0 where they fit i8

The column sums of a weight and the bias are constants, one number per column; for a product of two activations, row and
column sums are computed in the call. Accumulators are i32, and the products are checked not to overflow. Grouped
convolutions may be computed in f32 where every sum is exact.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from autotune.core.payload import Array
from payload.importers.onnx_integer_windows import (
    INT32,
    OWN_PLANE,
    PLANE,
    Image,
    PlaneWindow,
    WindowRows,
    as_rows,
    padded,
    sums_of_rows,
    taps,
    window_of,
)
from payload.importers.onnx_integer_writer import IntegerWriter
from payload.importers.onnx_integers import FLOAT, HIGH, LOW, Bytes, Ending, FixedWeight, centred, clip_to, rounded
from payload.importers.onnx_nodes import NodeWriter, of

if TYPE_CHECKING:
    from onnx import NodeProto

EXACT = 2**24  # largest bound of integers that are exact in f32
SUMS = 2**31 - 1  # largest i32
PLANES = 4  # rank of an image
FEW = 64  # maximum number of products of a sum that are unrolled; longer sums are not
Rows = str | WindowRows  # i8 left-hand side: the name of a matrix, or windows
CLOSE = 1e-5  # relative tolerance between the scale of a bias and the scale of the product


@dataclass(frozen=True)
class ProductWriter:
    """Writer of the nodes of one product.

    Attributes:
        integers: State of the model's integer rewrite.
        writer: Node writer of the product.
    """

    integers: IntegerWriter
    writer: NodeWriter

    def finish(  # noqa: PLR0917 - each is of another kind
        self,
        node: "NodeProto",
        total: str,
        scale: Array,
        shape: Sequence[int],
        bias: Array | None = None,
        image: Image | None = None,
    ) -> bool:
        """Rescale i32 sums, apply the ending that follows the node, and record the result."""
        ending = self.integers.ending_of(node.output[0])
        return self.give(self.end(total, scale, ending, bias), ending, shape, image)

    def give(self, name: str, ending: Ending, shape: Sequence[int], image: Image | None = None) -> bool:
        """Record a result, reshaped to `shape`, or as it is with channels last where `image` is given."""
        y = ending.output
        self.integers.done.update(node.output[0] for node in ending.nodes)
        if image is not None:
            placed = replace(image, name=name)
            if ending.scale is None:
                self.integers.images[y] = placed
            else:
                self.integers.bytes[y] = Bytes(f"{y}_bytes", ending.shift, placed)
        elif ending.scale is None:
            self.writer.reshape(name, *shape, into=y)
        else:
            self.integers.bytes[y] = Bytes(self.writer.reshape(name, *shape, into=f"{y}_bytes"), ending.shift)
        return True

    def sums(self, rows: Rows, whole: Array, zero: int, bias: Array) -> str:
        """Compute i32 sums (m, n) of i8 rows (m, k) minus a zero point, times a weight, plus a bias.

        The sums of windows have shape (n, h', w', n).
        """
        k = whole.shape[0]
        shift = np.zeros(whole.shape[1], np.int64)
        if not in_bytes(whole):
            shift = whole.min(axis=0) - LOW
        stored = whole - shift
        name = self.integers.add_weight(f"{self.writer.stem}_weight", stored.astype(np.int8))
        total = self.writer.add("MatMulInteger", rows if isinstance(rows, str) else rows.name, name)
        if isinstance(rows, WindowRows):  # reshape first: the corrections below are computed per window
            total = self.writer.reshape(total, *rows.shape, whole.shape[1])
        constant = bias - zero * stored.sum(axis=0) - shift * zero * k
        if shift.any():
            row_sums = sums_of_rows(self.writer, rows, 1) if isinstance(rows, str) else rows.sums(self.writer)
            columns = self.integers.add_weight(f"{self.writer.stem}_middle", shift.astype(np.int32)[None])
            total = self.writer.add("Add", total, self.writer.add("Mul", row_sums, columns))
        if constant.any():
            total = self.writer.add(
                "Add", total, self.integers.add_weight(f"{self.writer.stem}_fixed", constant.astype(np.int32))
            )
        return total

    def dynamic_sums(self, rows: Rows, whole: Array, zero: int | str, columns: Array) -> str:
        """Compute i32 sums of i8 rows (m, k) minus a constant or run-time zero point, times a weight (k, n).

        Args:
            rows: Left-hand side in i8.
            whole: Weight.
            zero: Zero point: a constant, or the name of one computed at run time.
            columns: Column sums of the weight, (n,), which a run-time zero point is multiplied by; (n, h', w', n) for
                windows, whose padding differs.
        """
        nothing = np.zeros(whole.shape[1], np.int64)
        if isinstance(zero, int):
            return self.sums(rows, whole, zero, nothing)
        total = self.sums(rows, whole, 0, nothing)
        name = self.integers.add_weight(f"{self.writer.stem}_columns", columns.astype(np.int32))
        return self.writer.add("Sub", total, self.writer.add("Mul", zero, name))

    def end(self, total: str, scale: Array, ending: Ending, bias: Array | None = None) -> str:
        """Rescale i32 sums (.., n) to what follows the product: float or i8."""
        real = self.writer.add("Cast", total, to=FLOAT)
        if ending.scale is not None and bias is None:
            steps = self.scaled(real, scale / ending.scale, "factor")
            return rounded(self.writer, steps, ending)
        scaled = self.scaled(real, scale, "scale")
        if bias is not None:
            scaled = self.writer.add("Add", scaled, self.integers.add_weight(f"{self.writer.stem}_bias", bias))
        if ending.scale is not None:
            return rounded(self.writer, self.writer.add("Div", scaled, self.writer.real(ending.scale)), ending)
        return clip_to(self.writer, scaled, ending)

    def scaled(self, real: str, factor: Array, suffix: str) -> str:
        """Multiply floats by one factor, or by one factor per column."""
        if factor.size == 1:
            return self.writer.add("Mul", real, self.writer.real(np.float32(factor.reshape(()))))
        return self.writer.add(
            "Mul", real, self.integers.add_weight(f"{self.writer.stem}_{suffix}", factor.astype(np.float32))
        )


def multiply(integers: IntegerWriter, writer: NodeWriter, node: "NodeProto") -> bool:
    """Rewrite MatMul of an i8 tensor by a weight or by another i8 tensor."""
    a, b = node.input
    if a not in integers.scaled or a not in integers.facts.shapes:
        return False
    if b in integers.fixed and integers.fixed[b].whole.ndim == 2 and len(integers.facts.shapes[a]) > 0:
        return by_weight(integers, writer, node, integers.fixed[b])
    if b in integers.scaled:
        return by_bytes(integers, writer, node)
    return False


def gemm(integers: IntegerWriter, writer: NodeWriter, node: "NodeProto") -> bool:
    """Rewrite Gemm of an i8 tensor by a weight."""
    a, b, *c = (name for name in node.input if name)
    if a not in integers.scaled or b not in integers.fixed or of(node, "transA", 0) or of(node, "alpha", 1.0) != 1.0:
        return False
    if c and of(node, "beta", 1.0) != 1.0:
        return False
    weight = integers.fixed[b]
    if of(node, "transB", 0):
        axis = 1 - weight.axis % 2 if weight.scale.size > 1 else 1
        weight = FixedWeight(weight.whole.T, weight.scale, axis)
    return by_weight(integers, writer, node, weight, c[0] if c else "")


def by_weight(
    integers: IntegerWriter, writer: NodeWriter, node: "NodeProto", weight: FixedWeight, bias: str = ""
) -> bool:
    """Rewrite the product of an i8 tensor by a weight (k, n)."""
    x, (k, n) = integers.scaled[node.input[0]], weight.whole.shape
    integer_bias = bias_of(integers, bias, x.scale * weight.scale, n)
    if not weight.along(1) or integer_bias is None or not fits(x.most, weight.whole, integer_bias):
        integers.left.append(node.doc_string)
        return False
    shape = integers.facts.shapes[node.input[0]]
    rows = integers.natural(writer, x.bytes)
    flat = rows if len(shape) == 2 else writer.reshape(rows, prod(shape[:-1]), k)
    product = ProductWriter(integers, writer)
    total = product.sums(flat, weight.whole, x.zero, integer_bias)
    return product.finish(node, total, x.scale * weight.scale, [*shape[:-1], n], real_bias(integers, bias))


def bias_of(integers: IntegerWriter, name: str, scale: Array, count: int) -> Array | None:
    """Return a bias in i32 units of the product, (n,): zeros if it is float or absent, `None` if its scale differs."""
    if not name or (name in integers.known and integers.known[name].dtype == np.float32):
        return np.zeros(count, np.int64)
    if name not in integers.fixed:
        return None
    bias = integers.fixed[name]
    if not np.allclose(bias.scale, scale, rtol=CLOSE, atol=0) or bias.whole.size not in (1, count):
        return None
    return np.broadcast_to(bias.whole.reshape(-1), (count,)).copy()


def real_bias(integers: IntegerWriter, name: str, shape: Sequence[int] = (-1,)) -> Array | None:
    """Return a float bias in the given shape; `None` if there is none."""
    bias = integers.known.get(name)
    return bias.reshape(shape) if name and bias is not None and bias.dtype == np.float32 else None


def fits(most: int, whole: Array, bias: Array) -> bool:
    """Return whether i32 accumulators hold every partial sum of a product with a weight (k, n) and its bias."""
    return bool((np.abs(whole).sum(axis=0) * 2 * max(most, HIGH + 1) + np.abs(bias)).max(initial=0) < SUMS)


def by_bytes(integers: IntegerWriter, writer: NodeWriter, node: "NodeProto") -> bool:
    """Rewrite the product of two i8 tensors: i32 sums, minus the zero-point terms of rows and columns."""
    a, b = (integers.scaled[name] for name in node.input)
    shapes = [integers.facts.shapes.get(name) for name in node.input]
    result = integers.facts.shapes.get(node.output[0])
    if result is None or not all(shapes) or min(len(shape or []) for shape in shapes) < 2:
        return False
    k = (shapes[0] or [])[-1]
    if 4 * k * LOW * LOW > SUMS:
        integers.left.append(node.doc_string)
        return False
    sides = [integers.natural(writer, each.bytes) for each in (a, b)]
    total = writer.add("MatMulInteger", *sides)
    for side, axis, zero in zip(sides, (-1, -2), (b.zero, a.zero), strict=True):
        if zero:
            sums = sums_of_rows(writer, side, axis)
            total = writer.add("Sub", total, writer.add("Mul", sums, writer.number(zero, INT32)))
    if a.zero * b.zero:
        total = writer.add("Add", total, writer.number(k * a.zero * b.zero, INT32))
    return ProductWriter(integers, writer).finish(node, total, np.array([a.scale * b.scale]), result)


def convolve(integers: IntegerWriter, writer: NodeWriter, node: "NodeProto") -> bool:
    """Rewrite Conv of an i8 tensor as a product of window rows; a grouped one by taps in i32, or in exact f32."""
    x, w, *rest = node.input
    if x not in integers.scaled or w not in integers.fixed or x not in integers.facts.shapes:
        return False
    source, weight, bias = integers.scaled[x], integers.fixed[w], next(iter(rest), "")
    scale, shape, count = source.scale * weight.scale, integers.facts.shapes[x], weight.whole.shape[0]
    integer_bias = bias_of(integers, bias, scale, count)
    columns = weight.whole.reshape(count, -1).T
    if integer_bias is None or not weight.along(0) or not fits(source.most, columns, integer_bias):
        integers.left.append(node.doc_string)
        return False
    window = window_of(node, weight.whole.shape[2:], shape[2:])
    groups = of(node, "group", 1)
    if window is not None and len(shape) == PLANES and groups > 1 and in_bytes(columns) and len(columns) <= FEW:
        return convolve_by_groups(integers, writer, node, window, integer_bias)
    if groups > 1 or len(shape) != PLANES or window is None:
        return convolve_exactly(integers, writer, node, integer_bias)
    image = padded(writer, integers.image_of(writer, source.bytes, shape), window, source.zero)
    rows = as_rows(writer, image, window)
    product = ProductWriter(integers, writer)
    total = product.sums(rows, rows.in_order(weight.whole), source.zero, integer_bias)
    return product.finish(node, total, scale, [], real_bias(integers, bias), Image("", (*rows.shape, count)))


def in_bytes(whole: Array) -> bool:
    """Return whether all values fit i8."""
    return bool(whole.min(initial=0) >= LOW and whole.max(initial=0) <= HIGH)


def convolve_by_groups(
    integers: IntegerWriter, writer: NodeWriter, node: "NodeProto", window: PlaneWindow, bias: Array
) -> bool:
    """Rewrite a grouped convolution with few channels per group: a sum of taps times their weights in i32.

    A depthwise convolution keeps the layout of the image; otherwise every channel of a group is multiplied by all
    filters of the group, (n, group, filter, h, w).
    """
    x, weight, groups = integers.scaled[node.input[0]], integers.fixed[node.input[1]], of(node, "group", 1)
    count, shape = weight.whole.shape[0], integers.facts.shapes[node.input[0]]
    alone = groups == shape[1] == count
    image = integers.any_image(writer, x.bytes, shape)
    if not alone and image.plane == PLANE:
        image = Image(integers.natural(writer, x.bytes), tuple(shape), OWN_PLANE)
    image = padded(writer, image, window, x.zero)
    filters = () if alone else (groups, count // groups)
    column = (count,) if image.plane == PLANE else (*(filters or (count,)), 1, 1)
    counts, kernels = window.counts(shape[2:]), weight.whole.reshape(count, -1).T
    slices = channels_of_taps(writer, image, window, counts, 0 if alone else groups)
    total = ""
    for number, (tap, kernel) in enumerate(zip(slices, kernels, strict=True)):
        name = integers.add_weight(f"{writer.stem}_weight{number}", kernel.astype(np.int8).reshape(column))
        term = writer.add("Mul", *(writer.add("Cast", each, to=INT32) for each in (tap, name)))
        total = writer.add("Add", total, term) if total else term
    fixed = bias - x.zero * kernels.sum(axis=0)
    if fixed.any():
        whole = fixed.astype(np.int32).reshape(column)
        total = writer.add("Add", total, integers.add_weight(f"{writer.stem}_fixed", whole))
    scale = np.broadcast_to(x.scale * weight.scale, (count,)).reshape(column)
    real = real_bias(integers, next(iter(node.input[2:]), ""), column)
    ordered = image.with_sides("", counts) if image.plane == PLANE else None
    return ProductWriter(integers, writer).finish(node, total, scale, (shape[0], count, *counts), real, ordered)


def channels_of_taps(
    writer: NodeWriter, image: Image, window: PlaneWindow, counts: Sequence[int], groups: int
) -> Iterator[str]:
    """Yield, for each weight of a kernel, its tap of all windows; for groups, (n, group, 1, h', w') per channel."""
    tap_names = list(taps(writer, image, window, counts))
    if not groups:
        yield from tap_names
        return
    n, channels = image.shape[0], image.shape[1]
    apart = [writer.reshape(each, n, groups, channels // groups, *counts) for each in tap_names]
    for channel in range(channels // groups):
        for each in apart:
            yield writer.slice(each, channel, channel + 1, 2)


def convolve_exactly(integers: IntegerWriter, writer: NodeWriter, node: "NodeProto", bias: Array) -> bool:
    """Rewrite a convolution in f32, where all sums of the integers are exact."""
    x, weight = integers.scaled[node.input[0]], integers.fixed[node.input[1]]
    count, rank = weight.whole.shape[0], weight.whole.ndim
    most = x.most * np.abs(weight.whole.reshape(count, -1)).sum(axis=1) + np.abs(bias)
    if most.max(initial=0) > EXACT:
        integers.left.append(node.doc_string)
        return False
    kernel = integers.add_weight(f"{writer.stem}_weight", weight.whole.astype(np.float32))
    names = [centred(writer, x, integers.natural(writer, x.bytes)), kernel]
    if bias.any():
        names.append(integers.add_weight(f"{writer.stem}_fixed", bias.astype(np.float32)))
    attributes = {attribute.name: of(node, attribute.name, None) for attribute in node.attribute}
    total, column = writer.add("Conv", *names, **attributes), (count, *[1] * (rank - 2))
    scale = np.broadcast_to(x.scale * weight.scale, (count,)).reshape(column)
    real = real_bias(integers, next(iter(node.input[2:]), ""), column)
    return ProductWriter(integers, writer).finish(node, total, scale, integers.facts.shapes[node.output[0]], real)


def average(integers: IntegerWriter, writer: NodeWriter, node: "NodeProto") -> bool:
    """Rewrite GlobalAveragePool as an i32 sum times one factor."""
    name = node.input[0]
    shape = integers.facts.shapes.get(name, [])
    if name not in integers.scaled or len(shape) != PLANES:
        return False
    x, (n, c, h, w) = integers.scaled[name], shape
    if h * w * max(x.most, HIGH + 1) > SUMS:
        return False
    image = integers.any_image(writer, x.bytes, shape)
    flat = writer.reshape(image.name, *((n, h * w, c) if image.plane == PLANE else (n, c, h * w)))
    whole = writer.add("Cast", flat, to=INT32)
    total = writer.add("ReduceSum", whole, writer.numbers(image.plane[0]), keepdims=0)
    if x.zero:
        total = writer.add("Sub", total, writer.number(x.zero * h * w, INT32))
    return ProductWriter(integers, writer).finish(node, total, np.array([x.scale / np.float32(h * w)]), [n, c, 1, 1])


def multiply_integers(integers: IntegerWriter, writer: NodeWriter, node: "NodeProto") -> bool:
    """Rewrite MatMulInteger by a weight; the zero point of A may be known at run time only."""
    a, b, a_zero, b_zero = [*node.input, "", ""][:4]
    weight, shape = integers.known.get(b), integers.facts.shapes.get(a, [])
    if weight is None or weight.ndim != 2 or weight.dtype.itemsize > 1 or not shape:
        return False
    whole = without_zero(integers, weight, b_zero, 1)
    zero = zero_of(integers, a, a_zero)
    x = integers.bytes_of(writer, a) if whole is not None and zero is not None else None
    if x is None or whole is None or zero is None or not fits(HIGH - LOW, whole, np.zeros(1, np.int64)):
        return False
    k, n = whole.shape
    flat = writer.reshape(integers.natural(writer, x), prod(shape[:-1]), k)
    total = ProductWriter(integers, writer).dynamic_sums(flat, whole, zero, whole.sum(axis=0))
    writer.reshape(total, *shape[:-1], n, into=node.output[0])
    return True


def convolve_integers(integers: IntegerWriter, writer: NodeWriter, node: "NodeProto") -> bool:
    """Rewrite ConvInteger by a weight; the zero-point correction counts only the taps inside the image."""
    x, w, x_zero, w_zero = [*node.input, "", ""][:4]
    weight, shape = integers.known.get(w), integers.facts.shapes.get(x, [])
    if weight is None or weight.dtype.itemsize > 1 or len(shape) != PLANES or of(node, "group", 1) > 1:
        return False
    whole, zero = without_zero(integers, weight, w_zero, 0), zero_of(integers, x, x_zero)
    window = window_of(node, weight.shape[2:], shape[2:])
    source = integers.bytes_of(writer, x) if whole is not None and zero is not None and window is not None else None
    if source is None or whole is None or zero is None or window is None:
        return False
    count = weight.shape[0]
    columns = whole.transpose(2, 3, 1, 0).reshape(-1, count)
    if not fits(HIGH - LOW, columns, np.zeros(1, np.int64)):
        return False
    image = padded(writer, integers.image_of(writer, source, shape), window, zero if isinstance(zero, int) else 0)
    rows = as_rows(writer, image, window)
    # Padded elements are 0, so that no zero point is subtracted for them.
    inside = np.tile(window.inside(shape[2:]), (rows.shape[0], 1)).astype(np.int64)
    column_sums = (inside @ columns.reshape(inside.shape[1], -1, count).sum(axis=1)).reshape(*rows.shape, count)
    total = ProductWriter(integers, writer).dynamic_sums(rows, rows.in_order(whole), zero, column_sums)
    writer.add("Transpose", total, into=node.output[0], perm=[0, 3, 1, 2])
    return True


def without_zero(integers: IntegerWriter, weight: Array, zero: str, axis: int) -> Array | None:
    """Subtract the zero points from a weight, one for all or one per index of an axis; `None` if they are unknown."""
    if zero and zero not in integers.known:
        return None
    whole = weight.astype(np.int64)
    if not zero:
        return whole
    points, sizes = integers.known[zero].astype(np.int64), [1] * weight.ndim
    if points.size > 1:
        sizes[axis] = points.size
    return np.asarray(whole - points.reshape(sizes))


def zero_of(integers: IntegerWriter, name: str, zero: str) -> int | str | None:
    """Return the zero point of a tensor held in i8: a constant, or the name of one that is computed at run time."""
    if zero in integers.zeros:
        return integers.zeros[zero]
    shift = 128 if integers.facts.kinds.get(name) == 2 else 0
    if not zero:
        return -shift
    known = integers.known.get(zero)
    return int(known.reshape(())) - shift if known is not None and known.size == 1 else None
