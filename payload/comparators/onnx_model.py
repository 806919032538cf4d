"""Translation of payloads to ONNX models as exporters write them: standard operators, weights as initializers.

Heads ``(B, H, T, D)`` are ``(BH, T, D)`` here, because a batch dimension of 1 is slower (0.19 instead of 0.16 ms for
nano). The Attention operator of opset 23 is no faster than MatMul, Softmax and MatMul; an additive mask is faster than
Where.
"""

from collections.abc import Mapping

import numpy as np

from autotune.core.ops.graph import OpNode, Rules, translate
from autotune.core.payload import MASKED, Array, Payload
from payload.comparators.constants import fold_constants, weights_of
from payload.comparators.onnx_graph import OnnxGraph
from payload.convolution import steps_of

STEPS, FLOAT = 127, 1  # largest quantized weight; TensorProto.FLOAT


def build(payload: Payload, inputs: Mapping[str, Array], rules: Rules | None = None) -> OnnxGraph:
    """Translate a payload; arguments with role ``weight`` become initializers, so that a session may prepack them.

    Args:
        payload: Payload to translate.
        inputs: Arrays of all arguments that are not outputs, by name.
        rules: Translation rules by op name; by default `RULES`, in the payload's own types.

    Raises:
        ComparatorError: The payload has no graph, or its graph has an unknown op.
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
    """Add a MatMul, after a Transpose of B where B is stored transposed."""
    order = [*range(len(node.shape) - 2), len(node.shape) - 1, len(node.shape) - 2]
    return g.op("MatMul", a, g.transpose(b, order) if node["transpose_b"] else b)


def attention(g: OnnxGraph, node: OpNode, q: str, k: str, v: str) -> str:
    """Add ``softmax(q k^T / sqrt(D)) v``."""
    rows, depth = node.shape[-2:]
    scores = g.op("Mul", g.op("MatMul", q, g.transpose(k, [0, 2, 1])), g.constant(depth**-0.5))  # BH x T x n
    if node["causal"]:
        mask = np.where(np.tri(rows, dtype=bool), 0, MASKED).astype(np.float32)
        scores = g.op("Add", scores, g.constant(mask, f"mask_{rows}"))
    return g.op("MatMul", g.op("Softmax", scores, axis=-1), v)


def conv(g: OnnxGraph, node: OpNode, x: str, kernel: str, *bias: str) -> str:
    """Add a Conv; with channels last, between two Transposes, since the operator is NCHW."""
    steps = steps_of(node)
    if steps.channels_last:
        x, kernel = g.transpose(x, [0, 3, 1, 2]), g.transpose(kernel, [3, 2, 0, 1])
    pair = [steps.stride] * 2, [steps.dilation] * 2
    y = g.op("Conv", x, kernel, *bias, strides=pair[0], dilations=pair[1], pads=[steps.padding] * 4, group=steps.groups)
    return g.transpose(y, [0, 2, 3, 1]) if steps.channels_last else y


def split_heads(g: OnnxGraph, node: OpNode, qkv: str) -> list[str]:
    """Add the split into three ``(BH, T, D)``: one row of each sequence, or the rows of one sequence."""
    batch, heads, rows, depth = node.shape
    parts = g.ops("Split", (qkv,), 3, axis=1, num_outputs=3)
    if rows == 1:
        return [g.op("Reshape", part, g.constant([batch * heads, 1, depth])) for part in parts]
    return [g.transpose(g.op("Reshape", part, g.constant([rows, heads, depth])), [1, 0, 2]) for part in parts]


def merge_heads(g: OnnxGraph, node: OpNode, x: str) -> str:
    """Add the merge of heads, ``(BH, T, D) -> (BT, C)``: one row of each sequence, or the rows of one."""
    transposed = x if node.shape[0] == node["batch"] else g.transpose(x, [1, 0, 2])
    return g.op("Reshape", transposed, g.constant(list(node.shape)))


def store_rows(g: OnnxGraph, node: OpNode, cache: str, rows: str, position: str = "") -> str:
    """Concatenate the past rows of a cache, an additional input, with the new ones; make all an additional output."""
    batch, heads, count, depth = node.shape
    past = int(g.arguments[position][0]) if position else 0
    if past:  # an input cannot have zero rows
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
    """Add a product with an int8 weight: one scale per column, and one scale per call for x."""
    columns = g.weights[weight].T if transposed else g.weights[weight]
    scale = np.maximum(np.abs(columns).max(axis=0), np.finfo(np.float32).tiny) / np.float32(STEPS)
    name = f"{weight}_int8{'_turned' * transposed}"
    g.weights[name] = np.ascontiguousarray(np.rint(columns / scale).astype(np.int8))
    quantized, x_scale, x_zero = g.ops("DynamicQuantizeLinear", (x,), 3)
    product = g.op("MatMulInteger", quantized, name, x_zero, g.constant(np.zeros(len(scale), np.int8), f"{name}_zero"))
    scales = g.op("Mul", x_scale, g.constant(scale.astype(np.float32), f"{name}_scale"))
    return g.op("Mul", g.op("Cast", product, to=FLOAT), scales)


def matmul_int8(g: OnnxGraph, node: OpNode, a: str, b: str) -> str:
    """Add a product, dynamically quantized where B is a 2-D weight."""
    if b not in g.weights or g.weights[b].ndim != 2:
        return matmul(g, node, a, b)
    return quantised(g, a, b, transposed=bool(node["transpose_b"]))


INT8_RULES: Rules = {
    **RULES,
    "matmul": matmul_int8,
    "linear": lambda g, _, x, weight, bias: g.op("Add", quantised(g, x, weight), bias),
}
