"""Payloads as ONNX models, the way exporters write them: standard operators, weights as initializers.

Heads ``(B, H, T, D)`` are ``(BH, T, D)`` here: a batch dimension of 1 costs (0.19 instead of 0.16 ms for nano). The
Attention operator of opset 23 is no faster than MatMul, Softmax and MatMul; a mask that is added is faster than Where.
"""

from collections.abc import Mapping

import numpy as np

from autotune.core.ops.graph import OpNode, Rules, translate
from autotune.core.payload import MASKED, Array, Payload
from payload.comparators.constants import fold_constants, weights_of
from payload.comparators.onnx_graph import OnnxGraph
from payload.convolution import steps_of

STEPS, FLOAT = 127, 1  # of int8 to the largest of a column; f32 in ONNX's numbering


def build(payload: Payload, inputs: Mapping[str, Array], rules: Rules | None = None) -> OnnxGraph:
    """Write a payload as a graph; what has role ``weight`` becomes an initializer, so that a session may prepack it.

    Args:
        payload: Payload to write.
        inputs: Every argument that is not an output, by name.
        rules: Rules by the names of ops; by default in the payload's own types.

    Raises:
        ComparatorError: The payload has no graph, or one with an op that is unknown here.
    """
    folded = fold_constants(payload, inputs, weights_of(payload), RULES, "onnxruntime")
    g = OnnxGraph(inputs, weights={name: np.ascontiguousarray(array) for name, array in folded.constants.items()})
    values = {name: name for name in (*inputs, *folded.constants)}
    translate(folded.nodes, values, rules or RULES, g)
    g.finish({values[argument.name]: argument.name for argument in payload.outputs})
    read = {name for node in g.nodes for name in node.inputs}
    g.weights = {name: array for name, array in g.weights.items() if name in read}
    return g


def matmul(g: OnnxGraph, node: OpNode, a: str, b: str) -> str:
    """A product, of B transposed where it is stored so."""
    order = [*range(len(node.shape) - 2), len(node.shape) - 1, len(node.shape) - 2]
    return g.op("MatMul", a, g.transpose(b, order) if node["transpose_b"] else b)


def attention(g: OnnxGraph, node: OpNode, q: str, k: str, v: str) -> str:
    """``softmax(q k^T / sqrt(D)) v``."""
    rows, depth = node.shape[-2:]
    scores = g.op("Mul", g.op("MatMul", q, g.transpose(k, [0, 2, 1])), g.constant(depth**-0.5))  # BH x T x n
    if node["causal"]:
        mask = np.where(np.tri(rows, dtype=bool), 0, MASKED).astype(np.float32)
        scores = g.op("Add", scores, g.constant(mask, f"mask_{rows}"))
    return g.op("MatMul", g.op("Softmax", scores, axis=-1), v)


def conv(g: OnnxGraph, node: OpNode, x: str, kernel: str, *bias: str) -> str:
    """A convolution; with channels last, between two transpositions, as the operator has them first."""
    steps = steps_of(node)
    if steps.channels_last:
        x, kernel = g.transpose(x, [0, 3, 1, 2]), g.transpose(kernel, [3, 2, 0, 1])
    pair = [steps.stride] * 2, [steps.dilation] * 2
    y = g.op("Conv", x, kernel, *bias, strides=pair[0], dilations=pair[1], pads=[steps.padding] * 4, group=steps.groups)
    return g.transpose(y, [0, 2, 3, 1]) if steps.channels_last else y


def split_heads(g: OnnxGraph, node: OpNode, qkv: str) -> list[str]:
    """Three ``(BH, T, D)``; one row of each sequence, or the rows of one sequence."""
    batch, heads, rows, depth = node.shape
    parts = g.ops("Split", (qkv,), 3, axis=1, num_outputs=3)
    if rows == 1:
        return [g.op("Reshape", part, g.constant([batch * heads, 1, depth])) for part in parts]
    return [g.transpose(g.op("Reshape", part, g.constant([rows, heads, depth])), [1, 0, 2]) for part in parts]


def merge_heads(g: OnnxGraph, node: OpNode, x: str) -> str:
    """``(BH, T, D) -> (BT, C)``, likewise."""
    transposed = x if node.shape[0] == node["batch"] else g.transpose(x, [1, 0, 2])
    return g.op("Reshape", transposed, g.constant(list(node.shape)))


def store_rows(g: OnnxGraph, node: OpNode, cache: str, rows: str, position: str = "") -> str:
    """Past rows of a cache come in, and are joined by the new ones; all go out."""
    batch, heads, count, depth = node.shape
    past = int(g.arguments[position][0]) if position else 0
    if past:  # a tensor has one row at least
        layer = int(node["layer"])
        rows = g.op("Concat", g.feed(f"{cache}_{layer}", g.arguments[cache][layer, :, :past]), rows, axis=1)
    return g.keep(rows, (batch * heads, past + 1 if position else count, depth))


RULES: Rules = {
    "matmul": matmul,
    "linear": lambda g, _, x, weight, bias: g.op("Add", g.op("MatMul", x, weight), bias),
    "add": lambda g, _, x, y: g.op("Add", x, y),
    "layer_norm": lambda g, node, *x: g.op("LayerNormalization", *x, axis=-1, epsilon=node["epsilon"]),
    "conv": conv,
    "relu": lambda g, _, x: g.op("Relu", x),
    "softmax": lambda g, _, x: g.op("Softmax", x, axis=-1),
    "gelu": lambda g, _, x: g.op("Gelu", x, approximate="tanh"),
    "embedding": lambda g, _, table, ids: g.op("Gather", table, ids),
    "attention": attention,
    "split_heads": split_heads,
    "merge_heads": merge_heads,
    "store_rows": store_rows,
    "row_before": lambda g, _, x, count: g.op("Gather", x, g.op("Sub", count, g.constant([1]))),
}


def quantised(g: OnnxGraph, x: str, weight: str, *, transposed: bool = False) -> str:
    """A product with a weight in int8: each column by its own scale, x by one of its own in the call."""
    columns = g.weights[weight].T if transposed else g.weights[weight]
    scale = np.maximum(np.abs(columns).max(axis=0), np.finfo(np.float32).tiny) / np.float32(STEPS)
    name = f"{weight}_int8{'_turned' * transposed}"
    g.weights[name] = np.ascontiguousarray(np.rint(columns / scale).astype(np.int8))
    rounded, step, zero = g.ops("DynamicQuantizeLinear", (x,), 3)
    product = g.op("MatMulInteger", rounded, name, zero, g.constant(np.zeros(len(scale), np.int8), f"{name}_zero"))
    scales = g.op("Mul", step, g.constant(scale.astype(np.float32), f"{name}_scale"))
    return g.op("Mul", g.op("Cast", product, to=FLOAT), scales)


def matmul_int8(g: OnnxGraph, node: OpNode, a: str, b: str) -> str:
    """A product, quantised where B is a weight of two dimensions."""
    if b not in g.weights or g.weights[b].ndim != 2:
        return matmul(g, node, a, b)
    return quantised(g, a, b, transposed=bool(node["transpose_b"]))


INT8_RULES: Rules = {
    **RULES,
    "matmul": matmul_int8,
    "linear": lambda g, _, x, weight, bias: g.op("Add", quantised(g, x, weight), bias),
}
