"""Rewrites of quantized ops of ONNX Runtime and ONNX by their definition: dequantize, compute, quantize.

    QLinearAdd(a, b)   ->   QuantizeLinear(Add(DequantizeLinear(a), DequantizeLinear(b)))

`onnx_quantised.py` finds the products among them, and computes those in integers.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from payload.importers.onnx_block_ops import blocks_along_an_axis, product_of_blocks
from payload.importers.onnx_block_rows import gathered_blocks
from payload.importers.onnx_nodes import KnownTensors, NodeWriter, Rewrite, of

if TYPE_CHECKING:
    from onnx import NodeProto

OF_A_NUMBER = 3  # inputs per quantized tensor: values, scale and zero point


def real_of(writer: NodeWriter, quantized: Sequence[str], axis: int = 1) -> str:
    """Dequantize a tensor, given its values, scale and zero point."""
    inputs = [name for name in quantized if name]
    return writer.add("DequantizeLinear", *inputs, axis=axis)


def quantise(writer: NodeWriter, x: str, settings: Sequence[str], into: str) -> bool:
    """Quantize floats with a scale and an optional zero point, by default to u8."""
    writer.add("QuantizeLinear", x, *(name for name in settings if name), into=into)
    return True


def elements(op: str) -> Rewrite:
    """Return the rewrite of a binary elementwise op on quantized tensors."""

    def write(writer: NodeWriter, node: "NodeProto", _: KnownTensors) -> bool:
        a, b = real_of(writer, node.input[:3]), real_of(writer, node.input[3:6])
        return quantise(writer, writer.add(op, a, b), node.input[6:8], node.output[0])

    return write


def function(op: str, *names: str) -> Rewrite:
    """Return the rewrite of a unary op on a quantized tensor, with attributes of the same names."""

    def write(writer: NodeWriter, node: "NodeProto", _: KnownTensors) -> bool:
        attributes = {name: value for name in names if (value := of(node, name, None)) is not None}
        y = writer.add(op, real_of(writer, node.input[:3]), **attributes)
        return quantise(writer, y, node.input[3:5], node.output[0])

    return write


def pool(op: str, *names: str) -> Rewrite:
    """Return the rewrite of a pool, which is transposed to NCHW if its channels are last."""

    def write(writer: NodeWriter, node: "NodeProto", known: KnownTensors) -> bool:
        if node.input[0] not in known.shapes:
            return False
        rank, is_last = len(known.shapes[node.input[0]]), bool(of(node, "channels_last", 0))
        x = real_of(writer, node.input[:3])
        x = writer.add("Transpose", x, perm=[0, rank - 1, *range(1, rank - 1)]) if is_last else x
        y = writer.add(op, x, **{name: value for name in names if (value := of(node, name, None)) is not None})
        y = writer.add("Transpose", y, perm=[0, *range(2, rank), 1]) if is_last else y
        return quantise(writer, y, node.input[3:5], node.output[0])

    return write


def softmax(writer: NodeWriter, node: "NodeProto", known: KnownTensors) -> bool:
    """Rewrite QLinearSoftmax, along one axis, or over all from `axis` on before opset version 13."""
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
    """Rewrite QLinearConcat, whose first inputs are scale and zero point of the result."""
    parameters = list(node.input[2:])
    parts = [real_of(writer, parameters[first : first + 3]) for first in range(0, len(parameters), OF_A_NUMBER)]
    return quantise(writer, writer.add("Concat", *parts, axis=of(node, "axis", 0)), node.input[:2], node.output[0])


def choose(writer: NodeWriter, node: "NodeProto", _: KnownTensors) -> bool:
    """Rewrite QLinearWhere."""
    x, y = real_of(writer, node.input[1:4]), real_of(writer, node.input[4:7])
    return quantise(writer, writer.add("Where", node.input[0], x, y), node.input[7:9], node.output[0])


def gemm(writer: NodeWriter, node: "NodeProto", _: KnownTensors) -> bool:
    """Rewrite QGemm: the bias is an integer in the product's scale; without an output scale, the result is float."""
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
    """Rewrite QLinearMatMul with a scalar scale of A; scales of B may be per column."""
    a, a_scale, a_zero, b, b_scale, b_zero, scale, zero = node.input
    if any(known.shapes.get(name, [0]) not in ([], [1]) for name in (a_scale, scale)) or b not in known.shapes:
        return False
    x, w = real_of(writer, [a, a_scale, a_zero]), real_of(writer, [b, b_scale, b_zero], len(known.shapes[b]) - 1)
    return quantise(writer, writer.add("MatMul", x, w), [scale, zero], node.output[0])


def convolve(writer: NodeWriter, node: "NodeProto", _: KnownTensors) -> bool:
    """Rewrite QLinearConv: the bias is an integer in units of the product's scale."""
    x, x_scale, x_zero, w, w_scale, w_zero, scale, zero, bias = [*node.input, ""][:9]
    image, kernel = real_of(writer, [x, x_scale, x_zero]), real_of(writer, [w, w_scale, w_zero], 0)
    added = [real_of(writer, [bias, writer.add("Mul", x_scale, w_scale)], 0)] if bias else []
    attributes = {attribute.name: of(node, attribute.name, None) for attribute in node.attribute}
    y = writer.add("Conv", image, kernel, *added, **attributes)
    return quantise(writer, y, [scale, zero], node.output[0])


def dynamic_product(writer: NodeWriter, node: "NodeProto", _: KnownTensors) -> bool:
    """Rewrite DynamicQuantizeMatMul: A is quantized at run time."""
    a, b, b_scale, b_zero, bias = [*node.input, "", ""][:5]
    names = [f"{writer.stem}_dynamic_{part}" for part in ("whole", "scale", "zero")]
    writer.add("DynamicQuantizeLinear", a, into=names)
    total = writer.add("MatMulInteger", names[0], b, names[2], *([b_zero] if b_zero else []))
    scaled = writer.add("Mul", writer.add("Cast", total, to=1), writer.add("Mul", names[1], b_scale))
    added = ["Add", scaled, bias] if bias else ["Identity", scaled]
    writer.add(*added, into=node.output[0])
    return True


WINDOW = ("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides")
# Ops of ONNX Runtime's own domain, and of ONNX's.
QUANTISED: dict[str, Rewrite] = {
    "DynamicQuantizeMatMul": dynamic_product,
    "GatherBlockQuantized": gathered_blocks,
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
