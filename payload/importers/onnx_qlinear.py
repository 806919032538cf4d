"""Quantised ops of ONNX Runtime and ONNX, each as its definition says: dequantised, computed, quantised.

    QLinearAdd(a, b)   ->   QuantizeLinear(Add(DequantizeLinear(a), DequantizeLinear(b)))

`onnx_quantised.py` finds the products among them, and computes those in whole numbers.
"""

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from autotune.core.payload import Array
from payload.importers.onnx_nodes import KnownTensors, NodeWriter, Rewrite, of
from payload.importers.onnx_quantised_checks import not_quantised

if TYPE_CHECKING:
    from onnx import NodeProto

WHOLE_BITS = (4, 8)  # of weights in blocks
LEAST_BLOCK, MOST_SIZE = 16, 1 << 24  # of those
ZEROS, UINT8 = 3, 2  # input that is the zero points; ONNX's number of a type
OF_A_NUMBER = 3  # inputs that say what a quantised tensor is: it, its scale and its zero point


def real_of(writer: NodeWriter, given: Sequence[str], axis: int = 1) -> str:
    """The real numbers of a quantised tensor, its scale and its zero point."""
    inputs = [name for name in given if name]
    return writer.add("DequantizeLinear", *inputs, axis=axis)


def quantise(writer: NodeWriter, x: str, given: Sequence[str], into: str) -> bool:
    """Real numbers in a scale and beside a zero point; without one, unsigned."""
    writer.add("QuantizeLinear", x, *(name for name in given if name), into=into)
    return True


def elements(op: str) -> Rewrite:
    """An op of two quantised tensors, element by element."""

    def write(writer: NodeWriter, node: "NodeProto", _: KnownTensors) -> bool:
        a, b = real_of(writer, node.input[:3]), real_of(writer, node.input[3:6])
        return quantise(writer, writer.add(op, a, b), node.input[6:8], node.output[0])

    return write


def function(op: str, *kept: str) -> Rewrite:
    """An op of one quantised tensor that is standard of real numbers, with attributes of the same names."""

    def write(writer: NodeWriter, node: "NodeProto", _: KnownTensors) -> bool:
        attributes = {name: found for name in kept if (found := of(node, name, None)) is not None}
        y = writer.add(op, real_of(writer, node.input[:3]), **attributes)
        return quantise(writer, y, node.input[3:5], node.output[0])

    return write


def pool(op: str, *kept: str) -> Rewrite:
    """A pool; one of channels last is turned around it."""

    def write(writer: NodeWriter, node: "NodeProto", known: KnownTensors) -> bool:
        if node.input[0] not in known.shapes:
            return False
        rank, is_last = len(known.shapes[node.input[0]]), bool(of(node, "channels_last", 0))
        x = real_of(writer, node.input[:3])
        x = writer.add("Transpose", x, perm=[0, rank - 1, *range(1, rank - 1)]) if is_last else x
        y = writer.add(op, x, **{name: found for name in kept if (found := of(node, name, None)) is not None})
        y = writer.add("Transpose", y, perm=[0, *range(2, rank), 1]) if is_last else y
        return quantise(writer, y, node.input[3:5], node.output[0])

    return write


def softmax(writer: NodeWriter, node: "NodeProto", known: KnownTensors) -> bool:
    """QLinearSoftmax: of one axis, or as before version 13 of all from it on."""
    x = node.input[0]
    if x not in known.shapes:
        return False
    shape, is_flat = known.shapes[x], int(of(node, "opset", 13)) < 13
    axis = int(of(node, "axis", 1 if is_flat else -1)) % len(shape)
    y = real_of(writer, node.input[:3])
    if is_flat and axis < len(shape) - 1:
        flat = writer.add("Softmax", writer.reshape(y, int(np.prod(shape[:axis])), -1), axis=-1)
        y = writer.reshape(flat, *shape)
    else:
        y = writer.add("Softmax", y, axis=axis)
    return quantise(writer, y, node.input[3:5], node.output[0])


def concat(writer: NodeWriter, node: "NodeProto", _: KnownTensors) -> bool:
    """QLinearConcat: the scale and zero point of the result come first."""
    given = list(node.input[2:])
    parts = [real_of(writer, given[first : first + 3]) for first in range(0, len(given), OF_A_NUMBER)]
    return quantise(writer, writer.add("Concat", *parts, axis=of(node, "axis", 0)), node.input[:2], node.output[0])


def choose(writer: NodeWriter, node: "NodeProto", _: KnownTensors) -> bool:
    """QLinearWhere."""
    x, y = real_of(writer, node.input[1:4]), real_of(writer, node.input[4:7])
    return quantise(writer, writer.add("Where", node.input[0], x, y), node.input[7:9], node.output[0])


def gemm(writer: NodeWriter, node: "NodeProto", _: KnownTensors) -> bool:
    """QGemm: a bias is of whole numbers in the scale of the product; without a scale the result is real."""
    a, a_scale, a_zero, b, b_scale, b_zero, c, scale, zero = [*node.input, *[""] * 9][:9]
    if of(node, "transA", 0) or of(node, "alpha", 1.0) != 1.0:
        return False
    axis = 0 if of(node, "transB", 0) else 1
    x, w = real_of(writer, [a, a_scale, a_zero]), real_of(writer, [b, b_scale, b_zero], axis)
    bias = [real_of(writer, [c, writer.add("Mul", a_scale, b_scale)], -1)] if c else []
    is_real = not scale
    y = writer.add("Gemm", x, w, *bias, transB=of(node, "transB", 0), into=node.output[0] if is_real else "")
    return is_real or quantise(writer, y, [scale, zero], node.output[0])


def matmul(writer: NodeWriter, node: "NodeProto", known: KnownTensors) -> bool:
    """QLinearMatMul; scales of rows or columns are those of B's columns."""
    a, a_scale, a_zero, b, b_scale, b_zero, scale, zero = node.input
    if any(known.shapes.get(name, [0]) not in ([], [1]) for name in (a_scale, scale)) or b not in known.shapes:
        return False
    x, w = real_of(writer, [a, a_scale, a_zero]), real_of(writer, [b, b_scale, b_zero], len(known.shapes[b]) - 1)
    return quantise(writer, writer.add("MatMul", x, w), [scale, zero], node.output[0])


def convolve(writer: NodeWriter, node: "NodeProto", _: KnownTensors) -> bool:
    """QLinearConv: the bias is of whole numbers in the scale of the product."""
    x, x_scale, x_zero, w, w_scale, w_zero, scale, zero, bias = [*node.input, ""][:9]
    image, kernel = real_of(writer, [x, x_scale, x_zero]), real_of(writer, [w, w_scale, w_zero], 0)
    added = [real_of(writer, [bias, writer.add("Mul", x_scale, w_scale)], 0)] if bias else []
    kept = {attribute.name: of(node, attribute.name, None) for attribute in node.attribute}
    y = writer.add("Conv", image, kernel, *added, **kept)
    return quantise(writer, y, [scale, zero], node.output[0])


def dynamic_product(writer: NodeWriter, node: "NodeProto", _: KnownTensors) -> bool:
    """DynamicQuantizeMatMul: A is quantised in the call."""
    a, b, b_scale, b_zero, bias = [*node.input, "", ""][:5]
    stem = f"{writer.stem}_dynamic"
    names = [f"{stem}_{part}" for part in ("whole", "scale", "zero")]
    from onnx import helper  # noqa: PLC0415 - comes with an extra

    writer.nodes.append(helper.make_node("DynamicQuantizeLinear", [a], names))
    total = writer.add("MatMulInteger", names[0], b, names[2], *([b_zero] if b_zero else []))
    scaled = writer.add("Mul", writer.add("Cast", total, to=1), writer.add("Mul", names[1], b_scale))
    writer.add("Add", scaled, bias, into=node.output[0]) if bias else writer.add(
        "Identity", scaled, into=node.output[0]
    )
    return True


def product_of_blocks(writer: NodeWriter, node: "NodeProto", known: KnownTensors) -> bool:
    """MatMulNBits by a known weight of 4 or 8 bits: widened once, at import.

    Scales may be 0 and negative: ONNX Runtime's quantiser writes such for blocks of zeros, and for those whose largest
    element is the one of the other sign.
    """
    a, b, scales, zeros, order, bias = [*node.input, "", "", ""][:6]
    packed, points = known.constants.get(b), known.constants.get(zeros)
    n, k, bits, size = sizes_of_blocks(node, known)
    if packed is None or order or (zeros and points is None):
        return False
    if packed.dtype != np.uint8 or (points is not None and points.dtype != np.uint8):
        return False
    blocks = -(-k // size)
    whole = unpacked(packed, bits).reshape(n, blocks, size).astype(np.int16)
    middle = 1 << (bits - 1)
    at = unpacked(points.reshape(n, -1), bits)[:, :blocks, None] if points is not None else middle
    shifted = writer.constant((whole - middle).reshape(n * blocks, size).astype(np.int8))
    zero = np.broadcast_to(np.asarray(at, np.int16) - middle, (n, blocks, 1)).reshape(-1, 1).astype(np.float32)
    moved = writer.add("Sub", writer.add("Cast", shifted, to=1), writer.constant(zero))
    weight = writer.reshape(writer.add("Mul", moved, writer.reshape(scales, n * blocks, 1)), n, blocks * size)
    if k < blocks * size:
        weight = writer.add("Slice", weight, writer.numbers(0), writer.numbers(k), writer.numbers(1))
    turned = writer.add("Transpose", weight, perm=[1, 0])
    if not bias:
        writer.add("MatMul", a, turned, into=node.output[0])
        return True
    writer.add("Add", writer.add("MatMul", a, turned), bias, into=node.output[0])
    return True


def sizes_of_blocks(node: "NodeProto", known: KnownTensors) -> tuple[int, int, int, int]:
    """Sizes N and K of a weight in blocks, its bits and its elements a block.

    Raises:
        UnsupportedError: A size is none, or what the node reads has another.
    """
    n, k, bits, size = (int(of(node, name, 4 * (name == "bits"))) for name in ("N", "K", "bits", "block_size"))
    if bits not in WHOLE_BITS:
        raise not_quantised(node, f"bits must be 4 or 8, they are {bits}")
    if not (0 < n <= MOST_SIZE and 0 < k <= MOST_SIZE):
        raise not_quantised(node, f"N and K must be from 1 to {MOST_SIZE}, they are {n} and {k}")
    if size < LEAST_BLOCK or size & (size - 1) or size > MOST_SIZE:
        raise not_quantised(node, f"block_size must be a power of two from {LEAST_BLOCK} on, it is {size}")
    blocks = -(-k // size)
    packed = -(-blocks * bits // 8)
    wanted = {1: n * blocks * size * bits // 8, 2: n * blocks, 3: n * packed, 5: n}
    for number, what in ((1, "bytes of B"), (2, "scales"), (3, "bytes of zero points"), (5, "biases")):
        name = node.input[number] if number < len(node.input) else ""
        is_real = number == ZEROS and known.kinds.get(name) != UINT8  # zero points may be real numbers, one a block
        if name in known.shapes and not is_real and prod(known.shapes[name]) != wanted[number]:
            raise not_quantised(node, f"{what} must be {wanted[number]}, they are {prod(known.shapes[name])}")
    columns = known.shapes.get(node.input[0], [k])[-1]
    if columns != k:
        raise not_quantised(node, f"K must be the {columns} columns of A, it is {k}")
    return n, k, bits, size


def blocks_along_an_axis(writer: NodeWriter, node: "NodeProto", known: KnownTensors) -> bool:
    """DequantizeLinear of blocks, each with a scale: by other ops, so that what is known is widened at import."""
    size, (x, scale, zero) = int(of(node, "block_size", 0)), [*node.input, ""][:3]
    if not size or x not in known.shapes or scale not in known.shapes or scale not in known.kinds:
        return False
    shape, kind = known.shapes[x], known.kinds[scale]
    axis = int(of(node, "axis", 1)) % len(shape)
    apart = [*shape[:axis], shape[axis] // size, size, *shape[axis + 1 :]]
    of_blocks = [*apart[: axis + 1], 1, *apart[axis + 2 :]]
    whole = writer.reshape(writer.add("Cast", x, to=kind), *apart)
    if zero:
        whole = writer.add("Sub", whole, writer.reshape(writer.add("Cast", zero, to=kind), *of_blocks))
    scaled = writer.add("Mul", whole, writer.reshape(scale, *of_blocks))
    writer.add("Identity", writer.reshape(scaled, *shape), into=node.output[0])
    return True


def unpacked(packed: Array, bits: int) -> Array:
    """Whole numbers (.., n) of bytes that hold them, the lower bits first."""
    places = range(0, 8, bits)
    return np.stack([(packed >> place) & ((1 << bits) - 1) for place in places], axis=-1).reshape(
        *packed.shape[:-1], -1
    )


WINDOW = ("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides")
# Ops of ONNX Runtime's own domain, and of ONNX's.
QUANTISED: dict[str, Rewrite] = {
    "DynamicQuantizeMatMul": dynamic_product,
    "MatMulNBits": product_of_blocks,
    "QGemm": gemm,
    "QLinearAdd": elements("Add"),
    "QLinearAveragePool": pool("AveragePool", *WINDOW),
    "QLinearConcat": concat,
    "QLinearGlobalAveragePool": pool("GlobalAveragePool"),
    "QLinearLeakyRelu": function("LeakyRelu", "alpha"),
    "QLinearMul": elements("Mul"),
    "QLinearSigmoid": function("Sigmoid"),
    "QLinearSoftmax": softmax,
    "QLinearWhere": choose,
}
LINEAR: dict[str, Rewrite] = {
    "DequantizeLinear": blocks_along_an_axis,
    "QLinearConv": convolve,
    "QLinearMatMul": matmul,
}
