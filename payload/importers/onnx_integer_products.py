"""Products of quantised ONNX models: sums of whole numbers, and what is done to each in the end.

    (x - zx) (w - zw)   ->   x w' + c r - zx sums(w') ..     w' bytes without zero points, c = 0 where they fit

Sums of columns and the bias are one number a column, known before any call; of two activations, sums of rows and
columns are computed in it. Products are summed in 32 bits, which hold all of them, convolutions by groups in f32, where
it holds every sum exactly.
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
from payload.importers.onnx_integers import FLOAT, HIGH, LOW, Bytes, Ending, FixedWeight, centred, held_within, rounded
from payload.importers.onnx_nodes import NodeWriter, of

if TYPE_CHECKING:
    from onnx import NodeProto

EXACT = 2**24  # f32 holds every whole number up to here
SUMS = 2**31 - 1  # 32 bits hold every whole number up to here
PLANES = 4  # dimensions of an image
FEW = 64  # products of a sum that are written one by one: more are a product of matrices
Rows = str | WindowRows  # of bytes: the name of a matrix, or windows
CLOSE = 1e-5  # how far the scale of a bias may be from that of the product, relative


@dataclass(frozen=True)
class ProductWriter:
    """Writes the nodes of one product.

    Attributes:
        held: The model.
        writer: Takes the nodes.
    """

    held: IntegerWriter
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
        """Hold whole numbers in steps of a product as what follows a node has them, in a shape, or as an image."""
        ending = self.held.ending_of(node.output[0])
        return self.give(self.end(total, scale, ending, bias), ending, shape, image)

    def give(self, found: str, ending: Ending, shape: Sequence[int], image: Image | None = None) -> bool:
        """Hold a result in its shape; with channels last if it has an image's, which it then lies in."""
        y = ending.output
        self.held.done.update(node.output[0] for node in ending.nodes)
        if image is not None:
            placed = replace(image, name=found)
            if ending.scale is None:
                self.held.images[y] = placed
            else:
                self.held.bytes[y] = Bytes(f"{y}_bytes", ending.shift, placed)
        elif ending.scale is None:
            self.writer.reshape(found, *shape, into=y)
        else:
            self.held.bytes[y] = Bytes(self.writer.reshape(found, *shape, into=f"{y}_bytes"), ending.shift)
        return True

    def sums(self, rows: Rows, whole: Array, zero: int, bias: Array) -> str:
        """Sums (m, n) of bytes (m, k) less a zero point, times a weight, and a bias; of windows (n, h', w', n)."""
        k = whole.shape[0]
        middle = np.zeros(whole.shape[1], np.int64)
        if not in_bytes(whole):
            middle = whole.min(axis=0) - LOW
        stored = whole - middle
        name = self.held.add_weight(f"{self.writer.stem}_weight", stored.astype(np.int8))
        total = self.writer.add("MatMulInteger", rows if isinstance(rows, str) else rows.name, name)
        if isinstance(rows, WindowRows):  # in the shape of an image before what follows, which is done with windows
            total = self.writer.reshape(total, *rows.shape, whole.shape[1])
        fixed = bias - zero * stored.sum(axis=0) - middle * zero * k
        if middle.any():
            of_rows = sums_of_rows(self.writer, rows, 1) if isinstance(rows, str) else rows.sums(self.writer)
            columns = self.held.add_weight(f"{self.writer.stem}_middle", middle.astype(np.int32)[None])
            total = self.writer.add("Add", total, self.writer.add("Mul", of_rows, columns))
        if fixed.any():
            total = self.writer.add(
                "Add", total, self.held.add_weight(f"{self.writer.stem}_fixed", fixed.astype(np.int32))
            )
        return total

    def dynamic_sums(self, rows: Rows, whole: Array, zero: int | str, columns: Array) -> str:
        """Sums of bytes (m, k) less a zero point, perhaps one of the call, times a weight (k, n).

        Args:
            rows: The bytes.
            whole: The weight.
            zero: The zero point.
            columns: Sums of the weight that the zero point of the call is multiplied by, (n,); of windows with a
                number for each, (n, h', w', n).
        """
        nothing = np.zeros(whole.shape[1], np.int64)
        if isinstance(zero, int):
            return self.sums(rows, whole, zero, nothing)
        total = self.sums(rows, whole, 0, nothing)
        name = self.held.add_weight(f"{self.writer.stem}_columns", columns.astype(np.int32))
        return self.writer.add("Sub", total, self.writer.add("Mul", zero, name))

    def end(self, total: str, scale: Array, ending: Ending, bias: Array | None = None) -> str:
        """Whole numbers (.., n) in steps of a product, as what follows has them: real, or bytes."""
        real = self.writer.add("Cast", total, to=FLOAT)
        if ending.scale is not None and bias is None:
            steps = self.scaled(real, scale / ending.scale, "factor")
            return rounded(self.writer, steps, ending)
        found = self.scaled(real, scale, "scale")
        if bias is not None:
            found = self.writer.add("Add", found, self.held.add_weight(f"{self.writer.stem}_bias", bias))
        if ending.scale is not None:
            return rounded(self.writer, self.writer.add("Div", found, self.writer.real(ending.scale)), ending)
        return held_within(self.writer, found, ending)

    def scaled(self, real: str, factor: Array, what: str) -> str:
        """Real numbers times one factor, or one for each column."""
        if factor.size == 1:
            return self.writer.add("Mul", real, self.writer.real(np.float32(factor.reshape(()))))
        return self.writer.add(
            "Mul", real, self.held.add_weight(f"{self.writer.stem}_{what}", factor.astype(np.float32))
        )


def multiply(held: IntegerWriter, writer: NodeWriter, node: "NodeProto") -> bool:
    """MatMul of what is held in bytes, by a weight or by the same."""
    a, b = node.input
    if a not in held.scaled or a not in held.facts.shapes:
        return False
    if b in held.fixed and held.fixed[b].whole.ndim == 2 and len(held.facts.shapes[a]) > 0:
        return by_weight(held, writer, node, held.fixed[b])
    if b in held.scaled:
        return by_bytes(held, writer, node)
    return False


def gemm(held: IntegerWriter, writer: NodeWriter, node: "NodeProto") -> bool:
    """Gemm of what is held in bytes, by a weight."""
    a, b, *c = (name for name in node.input if name)
    if a not in held.scaled or b not in held.fixed or of(node, "transA", 0) or of(node, "alpha", 1.0) != 1.0:
        return False
    if c and of(node, "beta", 1.0) != 1.0:
        return False
    weight = held.fixed[b]
    if of(node, "transB", 0):
        axis = 1 - weight.axis % 2 if weight.scale.size > 1 else 1
        weight = FixedWeight(weight.whole.T, weight.scale, axis)
    return by_weight(held, writer, node, weight, c[0] if c else "")


def by_weight(held: IntegerWriter, writer: NodeWriter, node: "NodeProto", weight: FixedWeight, bias: str = "") -> bool:
    """A product of bytes by a weight (k, n)."""
    x, (k, n) = held.scaled[node.input[0]], weight.whole.shape
    added = bias_of(held, bias, x.scale * weight.scale, n)
    if not weight.along(1) or added is None or not fits(x.most, weight.whole, added):
        held.left.append(node.doc_string)
        return False
    shape = held.facts.shapes[node.input[0]]
    rows = held.natural(writer, x.bytes)
    flat = rows if len(shape) == 2 else writer.reshape(rows, prod(shape[:-1]), k)
    product = ProductWriter(held, writer)
    total = product.sums(flat, weight.whole, x.zero, added)
    return product.finish(node, total, x.scale * weight.scale, [*shape[:-1], n], real_bias(held, bias))


def bias_of(held: IntegerWriter, name: str, scale: Array, count: int) -> Array | None:
    """A bias in steps of the product, (n,); zeros where it is real or there is none, `None` where it is in others."""
    if not name or (name in held.known and held.known[name].dtype == np.float32):
        return np.zeros(count, np.int64)
    if name not in held.fixed:
        return None
    bias = held.fixed[name]
    if not np.allclose(bias.scale, scale, rtol=CLOSE, atol=0) or bias.whole.size not in (1, count):
        return None
    return np.broadcast_to(bias.whole.reshape(-1), (count,)).copy()


def real_bias(held: IntegerWriter, name: str, shape: Sequence[int] = (-1,)) -> Array | None:
    """A bias that is real, in a shape; `None` if there is none."""
    found = held.known.get(name)
    return found.reshape(shape) if name and found is not None and found.dtype == np.float32 else None


def fits(most: int, whole: Array, bias: Array) -> bool:
    """Tell whether 32 bits hold all sums of a product with a weight (k, n) and its bias, in any order of them."""
    return bool((np.abs(whole).sum(axis=0) * 2 * max(most, HIGH + 1) + np.abs(bias)).max(initial=0) < SUMS)


def by_bytes(held: IntegerWriter, writer: NodeWriter, node: "NodeProto") -> bool:
    """A product of two tensors in bytes: sums of bytes, less what their zero points add to rows and to columns."""
    a, b = (held.scaled[name] for name in node.input)
    shapes = [held.facts.shapes.get(name) for name in node.input]
    result = held.facts.shapes.get(node.output[0])
    if result is None or not all(shapes) or min(len(shape or []) for shape in shapes) < 2:
        return False
    k = (shapes[0] or [])[-1]
    if 4 * k * LOW * LOW > SUMS:
        held.left.append(node.doc_string)
        return False
    sides = [held.natural(writer, each.bytes) for each in (a, b)]
    total = writer.add("MatMulInteger", *sides)
    for side, axis, zero in zip(sides, (-1, -2), (b.zero, a.zero), strict=True):
        if zero:
            sums = sums_of_rows(writer, side, axis)
            total = writer.add("Sub", total, writer.add("Mul", sums, writer.number(zero, INT32)))
    if a.zero * b.zero:
        total = writer.add("Add", total, writer.number(k * a.zero * b.zero, INT32))
    return ProductWriter(held, writer).finish(node, total, np.array([a.scale * b.scale]), result)


def convolve(held: IntegerWriter, writer: NodeWriter, node: "NodeProto") -> bool:
    """Conv of what is held in bytes: windows as rows of a product; by groups, in f32 where it is exact."""
    x, w, *rest = node.input
    if x not in held.scaled or w not in held.fixed or x not in held.facts.shapes:
        return False
    source, weight, bias = held.scaled[x], held.fixed[w], next(iter(rest), "")
    scale, shape, count = source.scale * weight.scale, held.facts.shapes[x], weight.whole.shape[0]
    added = bias_of(held, bias, scale, count)
    columns = weight.whole.reshape(count, -1).T
    if added is None or not weight.along(0) or not fits(source.most, columns, added):
        held.left.append(node.doc_string)
        return False
    window = window_of(node, weight.whole.shape[2:], shape[2:])
    groups = of(node, "group", 1)
    if window is not None and len(shape) == PLANES and groups > 1 and in_bytes(columns) and len(columns) <= FEW:
        return convolve_by_groups(held, writer, node, window, added)
    if groups > 1 or len(shape) != PLANES or window is None:
        return convolve_exactly(held, writer, node, added)
    image = padded(writer, held.image_of(writer, source.bytes, shape), window, source.zero)
    rows = as_rows(writer, image, window)
    product = ProductWriter(held, writer)
    total = product.sums(rows, rows.in_order(weight.whole), source.zero, added)
    return product.finish(node, total, scale, [], real_bias(held, bias), Image("", (*rows.shape, count)))


def in_bytes(whole: Array) -> bool:
    """Tell whether signed bytes hold all numbers."""
    return bool(whole.min(initial=0) >= LOW and whole.max(initial=0) <= HIGH)


def convolve_by_groups(
    held: IntegerWriter, writer: NodeWriter, node: "NodeProto", window: PlaneWindow, bias: Array
) -> bool:
    """A convolution of few channels of a group: the taps of a kernel times their weights, in 32 bits.

    Images keep their order where each channel is a group of its own; else every channel of a group meets all filters of
    the group, (n, group, filter, h, w).
    """
    x, weight, groups = held.scaled[node.input[0]], held.fixed[node.input[1]], of(node, "group", 1)
    count, shape = weight.whole.shape[0], held.facts.shapes[node.input[0]]
    alone = groups == shape[1] == count
    image = held.any_image(writer, x.bytes, shape)
    if not alone and image.plane == PLANE:
        image = Image(held.natural(writer, x.bytes), tuple(shape), OWN_PLANE)
    image = padded(writer, image, window, x.zero)
    filters = () if alone else (groups, count // groups)
    column = (count,) if image.plane == PLANE else (*(filters or (count,)), 1, 1)
    counts, kernels = window.counts(shape[2:]), weight.whole.reshape(count, -1).T
    slices = channels_of_taps(writer, image, window, counts, 0 if alone else groups)
    total = ""
    for number, (tap, kernel) in enumerate(zip(slices, kernels, strict=True)):
        name = held.add_weight(f"{writer.stem}_weight{number}", kernel.astype(np.int8).reshape(column))
        one = writer.add("Mul", *(writer.add("Cast", each, to=INT32) for each in (tap, name)))
        total = writer.add("Add", total, one) if total else one
    fixed = bias - x.zero * kernels.sum(axis=0)
    if fixed.any():
        whole = fixed.astype(np.int32).reshape(column)
        total = writer.add("Add", total, held.add_weight(f"{writer.stem}_fixed", whole))
    scale = np.broadcast_to(x.scale * weight.scale, (count,)).reshape(column)
    real = real_bias(held, next(iter(node.input[2:]), ""), column)
    ordered = image.with_sides("", counts) if image.plane == PLANE else None
    return ProductWriter(held, writer).finish(node, total, scale, (shape[0], count, *counts), real, ordered)


def channels_of_taps(
    writer: NodeWriter, image: Image, window: PlaneWindow, counts: Sequence[int], groups: int
) -> Iterator[str]:
    """For each weight of a kernel, what all windows have there; of groups (n, group, 1, h', w') for each channel."""
    found = list(taps(writer, image, window, counts))
    if not groups:
        yield from found
        return
    n, channels = image.shape[0], image.shape[1]
    apart = [writer.reshape(each, n, groups, channels // groups, *counts) for each in found]
    for channel in range(channels // groups):
        for each in apart:
            yield writer.slice(each, channel, channel + 1, 2)


def convolve_exactly(held: IntegerWriter, writer: NodeWriter, node: "NodeProto", bias: Array) -> bool:
    """A convolution in f32, of numbers so small that all sums are exact."""
    x, weight = held.scaled[node.input[0]], held.fixed[node.input[1]]
    count, rank = weight.whole.shape[0], weight.whole.ndim
    most = x.most * np.abs(weight.whole.reshape(count, -1)).sum(axis=1) + np.abs(bias)
    if most.max(initial=0) > EXACT:
        held.left.append(node.doc_string)
        return False
    kernel = held.add_weight(f"{writer.stem}_weight", weight.whole.astype(np.float32))
    names = [centred(writer, x, held.natural(writer, x.bytes)), kernel]
    if bias.any():
        names.append(held.add_weight(f"{writer.stem}_fixed", bias.astype(np.float32)))
    kept = {attribute.name: of(node, attribute.name, None) for attribute in node.attribute}
    total, column = writer.add("Conv", *names, **kept), (count, *[1] * (rank - 2))
    scale = np.broadcast_to(x.scale * weight.scale, (count,)).reshape(column)
    real = real_bias(held, next(iter(node.input[2:]), ""), column)
    return ProductWriter(held, writer).finish(node, total, scale, held.facts.shapes[node.output[0]], real)


def average(held: IntegerWriter, writer: NodeWriter, node: "NodeProto") -> bool:
    """GlobalAveragePool: the sum of whole numbers, in 32 bits, times one factor."""
    name = node.input[0]
    shape = held.facts.shapes.get(name, [])
    if name not in held.scaled or len(shape) != PLANES:
        return False
    x, (n, c, h, w) = held.scaled[name], shape
    if h * w * max(x.most, HIGH + 1) > SUMS:
        return False
    image = held.any_image(writer, x.bytes, shape)
    flat = writer.reshape(image.name, *((n, h * w, c) if image.plane == PLANE else (n, c, h * w)))
    whole = writer.add("Cast", flat, to=INT32)
    total = writer.add("ReduceSum", whole, writer.numbers(image.plane[0]), keepdims=0)
    if x.zero:
        total = writer.add("Sub", total, writer.number(x.zero * h * w, INT32))
    return ProductWriter(held, writer).finish(node, total, np.array([x.scale / np.float32(h * w)]), [n, c, 1, 1])


def multiply_integers(held: IntegerWriter, writer: NodeWriter, node: "NodeProto") -> bool:
    """MatMulInteger by a weight; the zero point of A may be known in the call alone."""
    a, b, a_zero, b_zero = [*node.input, "", ""][:4]
    weight, shape = held.known.get(b), held.facts.shapes.get(a, [])
    if weight is None or weight.ndim != 2 or weight.dtype.itemsize > 1 or not shape:
        return False
    whole = without_zero(held, weight, b_zero, 1)
    zero = zero_of(held, a, a_zero)
    x = held.bytes_of(writer, a) if whole is not None and zero is not None else None
    if x is None or whole is None or zero is None or not fits(HIGH - LOW, whole, np.zeros(1, np.int64)):
        return False
    k, n = whole.shape
    flat = writer.reshape(held.natural(writer, x), prod(shape[:-1]), k)
    total = ProductWriter(held, writer).dynamic_sums(flat, whole, zero, whole.sum(axis=0))
    writer.reshape(total, *shape[:-1], n, into=node.output[0])
    return True


def convolve_integers(held: IntegerWriter, writer: NodeWriter, node: "NodeProto") -> bool:
    """ConvInteger by a weight; elements beyond the image count by the zero point, which the sums of weights tell."""
    x, w, x_zero, w_zero = [*node.input, "", ""][:4]
    weight, shape = held.known.get(w), held.facts.shapes.get(x, [])
    if weight is None or weight.dtype.itemsize > 1 or len(shape) != PLANES or of(node, "group", 1) > 1:
        return False
    whole, zero = without_zero(held, weight, w_zero, 0), zero_of(held, x, x_zero)
    window = window_of(node, weight.shape[2:], shape[2:])
    source = held.bytes_of(writer, x) if whole is not None and zero is not None and window is not None else None
    if source is None or whole is None or zero is None or window is None:
        return False
    count = weight.shape[0]
    columns = whole.transpose(2, 3, 1, 0).reshape(-1, count)
    if not fits(HIGH - LOW, columns, np.zeros(1, np.int64)):
        return False
    image = padded(writer, held.image_of(writer, source, shape), window, zero if isinstance(zero, int) else 0)
    rows = as_rows(writer, image, window)
    # Of what was padded by 0, no zero point is taken off.
    seen = np.tile(window.inside(shape[2:]), (rows.shape[0], 1)).astype(np.int64)
    of_columns = (seen @ columns.reshape(seen.shape[1], -1, count).sum(axis=1)).reshape(*rows.shape, count)
    total = ProductWriter(held, writer).dynamic_sums(rows, rows.in_order(whole), zero, of_columns)
    writer.add("Transpose", total, into=node.output[0], perm=[0, 3, 1, 2])
    return True


def without_zero(held: IntegerWriter, weight: Array, zero: str, axis: int) -> Array | None:
    """A weight less its zero points, one for all or one for each index of an axis; `None` if they are not known."""
    if zero and zero not in held.known:
        return None
    whole = weight.astype(np.int64)
    if not zero:
        return whole
    points, sizes = held.known[zero].astype(np.int64), [1] * weight.ndim
    if points.size > 1:
        sizes[axis] = points.size
    return np.asarray(whole - points.reshape(sizes))


def zero_of(held: IntegerWriter, name: str, zero: str) -> int | str | None:
    """The zero point of a tensor held in signed bytes: a number, or the name of one that is known in the call."""
    if zero in held.zeros:
        return held.zeros[zero]
    shift = 128 if held.facts.kinds.get(name) == 2 else 0
    if not zero:
        return -shift
    known = held.known.get(zero)
    return int(known.reshape(())) - shift if known is not None and known.size == 1 else None
