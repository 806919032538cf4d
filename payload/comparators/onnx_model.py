"""Payloads as ONNX models, the way exporters write them: standard operators, weights as initializers.

Values have the payload's own dimensions: a batch dimension of 1 costs (0.19 instead of 0.16 ms for nano). The Attention
operator of opset 23 is no faster than MatMul, Softmax and MatMul; a mask that is added is faster than Where.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from autotune.core.errors import ComparatorError
from autotune.core.payload import DTYPES, Argument, Array, Payload
from payload.comparators.onnx_graph import Graph
from payload.config import GPTConfig, config_of
from payload.reference import LAYER_NORM_EPSILON

OPSET = 20  # the first with Gelu
IR_VERSION = 10
MASKED = -1e30
WHOLE = ("tokens", "position", "length", "keys", "values", "wte", "wpe", "ln_f_gain", "ln_f_bias")  # not of a layer
Sizes = Mapping[str, int]
Inputs = Mapping[str, Array]


def build(payload: Payload, inputs: Inputs) -> Graph:
    """Write a payload as a graph; what has role ``weight`` becomes an initializer, so that a session may prepack it.

    Raises:
        ComparatorError: There is no way to write this kind of payload.
    """
    if payload.kind not in KERNELS:
        raise ComparatorError(f"there is no ONNX model of {payload.name}, only of {', '.join(KERNELS)}")
    g = Graph()
    if not payload.kind.startswith("gpt"):  # which adds its weights layer by layer
        for argument in payload.arguments:
            if argument.role == "weight":
                g.weight(argument.name, inputs[argument.name])
    KERNELS[payload.kind](g, dict(payload.sizes), inputs)
    return g


def serialize(g: Graph, payload: Payload) -> bytes:
    """The graph as a model file; weights are external data, so that any size stays below protobuf's 2 GB."""
    from onnx import TensorProto, helper, numpy_helper  # noqa: PLC0415 - comes with an extra

    def declare(argument: Argument) -> Any:  # noqa: ANN401 - protobuf's own class
        kind = helper.np_dtype_to_tensor_dtype(DTYPES[argument.dtype])
        return helper.make_tensor_value_info(argument.name, kind, argument.shape)

    def external(name: str, array: Array) -> Any:  # noqa: ANN401
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        tensor = TensorProto(name=name, dims=array.shape, data_type=kind, data_location=TensorProto.EXTERNAL)
        for key, value in (("location", name), ("offset", "0"), ("length", str(array.nbytes))):
            tensor.external_data.add(key=key, value=value)
        return tensor

    (output,) = payload.outputs
    taken = [argument for argument in payload.arguments if argument.role == "input"]
    nodes = [helper.make_node(n.kind, n.inputs, n.outputs, **n.attributes) for n in g.nodes]
    nodes[-1].output[0] = output.name
    graph = helper.make_graph(
        nodes,
        payload.kind,
        [*map(declare, taken), *(declare(Argument(n, "input", array.shape)) for n, array in g.fed.items())],
        [declare(output), *(declare(Argument(n, "output", shape)) for n, shape in g.kept.items())],
        [
            *(numpy_helper.from_array(array, name) for name, array in g.constants.items()),
            *(external(name, array) for name, array in g.weights.items()),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    return bytes(model.SerializeToString())


def matmul(g: Graph, sizes: Sizes, inputs: Inputs) -> str:
    """``(M, K) x (K, N)``, or with B transposed."""
    del inputs
    return g.op("MatMul", "a", g.op("Transpose", "b", perm=[1, 0]) if sizes["transpose_b"] else "b")


def batch_matmul(g: Graph, sizes: Sizes, inputs: Inputs) -> str:
    """``(B, M, K) x (B, K, N)``, or with B transposed."""
    del inputs
    return g.op("MatMul", "a", g.op("Transpose", "b", perm=[0, 2, 1]) if sizes["transpose_b"] else "b")


def attention(g: Graph, sizes: Sizes, inputs: Inputs) -> str:
    """Attention of every head: three ``(H, T, D) -> (H, T, D)``."""
    del inputs
    turned = g.op("Transpose", "k", perm=[0, 2, 1])
    mask = causal_mask(g, sizes["seq"]) if sizes["causal"] else None
    return attend(g, "q", turned, "v", depth=sizes["d"], mask=mask)


def layer_norm(g: Graph, sizes: Sizes, inputs: Inputs) -> str:
    """Layer norm of every row."""
    del sizes, inputs
    return normalize(g, "x", "gain", "bias")


def softmax(g: Graph, sizes: Sizes, inputs: Inputs) -> str:
    """Softmax of every row."""
    del sizes, inputs
    return g.op("Softmax", "x", axis=-1)


def gelu(g: Graph, sizes: Sizes, inputs: Inputs) -> str:
    """GELU, tanh form."""
    del sizes, inputs
    return g.op("Gelu", "x", approximate="tanh")


def embedding(g: Graph, sizes: Sizes, inputs: Inputs) -> str:
    """Rows of a table at ids."""
    del sizes, inputs
    return g.op("Gather", "table", "ids")


def gpt(g: Graph, sizes: Sizes, inputs: Inputs) -> str:
    """Logits of a GPT."""
    table = g.weight("wte", inputs["wte"])
    return predict(g, read_text(g, config_of(sizes), table, inputs, keep=False), table, inputs)  # T x V


def prefill(g: Graph, sizes: Sizes, inputs: Inputs) -> str:
    """Logits of a GPT behind a prompt; keys and values of every layer are outputs besides."""
    table = g.weight("wte", inputs["wte"])
    x = read_text(g, config_of(sizes), table, inputs, keep=True)  # T x C
    last = g.op("Sub", "length", g.constant([1]))
    return predict(g, g.op("Gather", x, last), table, inputs)  # 1 x V


def read_text(g: Graph, config: GPTConfig, table: str, inputs: Inputs, *, keep: bool) -> str:
    """All blocks on tokens from position 0 on, ``(T, C)``."""
    x = g.op("Add", g.op("Gather", table, "tokens"), g.weight("wpe", inputs["wpe"][: config.seq]))  # T x C
    mask = causal_mask(g, config.seq)
    for layer in range(config.layers):
        stacked = (name for name in inputs if name not in WHOLE)
        w = {name: g.weight(f"{name}_{layer}", inputs[name][layer]) for name in stacked}
        x = block(g, x, w, config, mask, keep=keep)
    return x


def predict(g: Graph, x: str, table: str, inputs: Inputs) -> str:
    """Final norm and head."""
    gain, bias = (g.weight(name, inputs[name]) for name in ("ln_f_gain", "ln_f_bias"))
    return g.op("MatMul", normalize(g, x, gain, bias), g.op("Transpose", table, perm=[1, 0]))


def decode(g: Graph, sizes: Sizes, inputs: Inputs) -> str:
    """Logits of a GPT behind one token: past rows of a cache come in, each layer joins its own, all go out."""
    config, position = config_of(sizes), int(inputs["position"][0])
    table = g.weight("wte", inputs["wte"])
    x = g.op(
        "Add", g.op("Gather", table, "tokens"), g.op("Gather", g.weight("wpe", inputs["wpe"]), "position")
    )  # B x C
    stacked = [name for name in inputs if name not in WHOLE]
    for layer in range(config.layers):
        w = {name: g.weight(f"{name}_{layer}", inputs[name][layer]) for name in stacked}
        caches = ("keys", "values") if position else ()  # a tensor has one row at least
        past = [g.feed(f"{name}_{layer}", inputs[name][layer, :, :position]) for name in caches]
        x = step_block(g, x, w, config, past)
    return predict(g, x, table, inputs)  # B x V


KERNELS: dict[str, Callable[[Graph, Sizes, Inputs], str]] = {
    "matmul": matmul,
    "batch_matmul": batch_matmul,
    "attention": attention,
    "layer_norm": layer_norm,
    "softmax": softmax,
    "gelu": gelu,
    "embedding": embedding,
    "gpt": gpt,
    "gpt-prefill": prefill,
    "gpt-decode": decode,
}


def causal_mask(g: Graph, rows: int) -> str:
    """``(T, T)`` to be added to scores: 0 where column <= row."""
    return g.constant(np.where(np.tri(rows, dtype=bool), 0, MASKED).astype(np.float32))


def attend(g: Graph, q: str, turned_k: str, v: str, *, depth: int, mask: str | None) -> str:
    """``softmax(q k^T / sqrt(D)) v``, k given as ``(H, D, T)``."""
    scores = g.op("Mul", g.op("MatMul", q, turned_k), g.constant(depth**-0.5))  # H x T x T
    if mask is not None:
        scores = g.op("Add", scores, mask)
    return g.op("MatMul", g.op("Softmax", scores, axis=-1), v)


def normalize(g: Graph, x: str, gain: str, bias: str) -> str:
    """Layer norm over the last dimension."""
    return g.op("LayerNormalization", x, gain, bias, axis=-1, epsilon=LAYER_NORM_EPSILON)


def linear(g: Graph, x: str, weight: str, bias: str) -> str:
    """``(T, K) x (K, N) + (N)``."""
    return g.op("Add", g.op("MatMul", x, weight), bias)


def block(g: Graph, x: str, w: dict[str, str], config: GPTConfig, mask: str, *, keep: bool) -> str:
    """One pre-norm transformer block, ``(T, C) -> (T, C)``; keys and values ``(H, T, D)`` are kept where asked for."""
    rows, width, heads = config.seq, config.d_model, config.heads
    qkv = linear(g, normalize(g, x, w["ln_1_gain"], w["ln_1_bias"]), w["qkv_weight"], w["qkv_bias"])  # T x 3C
    by_head = g.constant([rows, heads, width // heads])
    parts = [g.op("Reshape", part, by_head) for part in g.ops("Split", (qkv,), 3, axis=1, num_outputs=3)]
    q, v = (g.op("Transpose", part, perm=[1, 0, 2]) for part in (parts[0], parts[2]))  # H x T x D
    if keep:
        for part in (g.op("Transpose", parts[1], perm=[1, 0, 2]), v):
            g.keep(part, (heads, rows, width // heads))
    mixed = attend(g, q, g.op("Transpose", parts[1], perm=[1, 2, 0]), v, depth=width // heads, mask=mask)  # H x T x D
    merged = g.op("Reshape", g.op("Transpose", mixed, perm=[1, 0, 2]), g.constant([rows, width]))  # T x C
    return finish_block(g, x, merged, w)


def step_block(g: Graph, x: str, w: dict[str, str], config: GPTConfig, past: list[str]) -> str:
    """One block for a token of every sequence, ``(B, C) -> (B, C)``; `past` is empty, or two of ``(BH, p, D)``."""
    qkv = linear(g, normalize(g, x, w["ln_1_gain"], w["ln_1_bias"]), w["qkv_weight"], w["qkv_bias"])  # B x 3C
    by_head = g.constant([config.batch * config.heads, 1, config.depth])
    q, *rows = (g.op("Reshape", part, by_head) for part in g.ops("Split", (qkv,), 3, axis=1, num_outputs=3))
    filled = 1
    if past:
        filled += g.fed[past[0]].shape[1]
        rows = [g.op("Concat", cache, row, axis=1) for cache, row in zip(past, rows, strict=True)]
    k, v = (g.keep(row, (config.batch * config.heads, filled, config.depth)) for row in rows)  # BH x p+1 x D
    mixed = attend(g, q, g.op("Transpose", k, perm=[0, 2, 1]), v, depth=config.depth, mask=None)  # BH x 1 x D
    return finish_block(g, x, g.op("Reshape", mixed, g.constant([config.batch, config.d_model])), w)


def finish_block(g: Graph, x: str, merged: str, w: dict[str, str]) -> str:
    """What follows attention in a block, ``(T, C) -> (T, C)``."""
    x = g.op("Add", x, linear(g, merged, w["mix_weight"], w["mix_bias"]))
    hidden = linear(g, normalize(g, x, w["ln_2_gain"], w["ln_2_bias"]), w["up_weight"], w["up_bias"])  # T x F
    hidden = g.op("Gelu", hidden, approximate="tanh")
    return g.op("Add", x, linear(g, hidden, w["down_weight"], w["down_bias"]))
