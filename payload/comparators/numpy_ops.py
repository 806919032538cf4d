"""Ops of a graph in NumPy: f32 throughout, products by its BLAS, everything else as whole-array expressions.

Sizes: T rows, B sequences, C width, H heads, D = C / H, L layers, P rows of a cache; n of them are filled.
"""

import numpy as np
import numpy.typing as npt

from autotune.core.ops.graph import OpNode, Rules
from autotune.core.payload import MASKED, Array
from payload.convolution import steps_of

Floats = npt.NDArray[np.float32]


def matmul(node: OpNode, a: Floats, b: Floats) -> Floats:
    """Multiply ``(..., M, K) x (..., K, N) -> (..., M, N)``; with `transpose_b`, b is stored ``(..., N, K)``."""
    product: Floats = np.matmul(a, b.swapaxes(-1, -2) if node["transpose_b"] else b)
    return product


def linear(_: OpNode, x: Floats, weight: Floats, bias: Floats) -> Floats:
    """Compute ``(T, K) x (K, N) + (N) -> (T, N)``."""
    product: Floats = x @ weight + bias
    return product


def add(_: OpNode, x: Floats, y: Floats) -> Floats:
    """Compute ``x + y`` of equal shapes, or with the single row of y added to every row of x."""
    return x + y


def layer_norm(node: OpNode, x: Floats, gain: Floats, bias: Floats) -> Floats:
    """Compute ``(x - mean) / sqrt(variance + epsilon) * gain + bias`` over the last dimension."""
    centered: Floats = x - x.mean(axis=-1, keepdims=True)
    variance = np.mean(centered * centered, axis=-1, keepdims=True)
    centered *= 1 / np.sqrt(variance + np.float32(node["epsilon"]))
    centered *= gain
    centered += bias
    return centered


def softmax(_: OpNode, x: Floats) -> Floats:
    """Compute ``exp(x - max) / sum(exp(x - max))`` over the last dimension."""
    return exponentiate(x.copy())


def exponentiate(x: Floats) -> Floats:
    """Compute softmax in place."""
    x -= x.max(axis=-1, keepdims=True)
    np.exp(x, out=x)
    x /= x.sum(axis=-1, keepdims=True)
    return x


def gelu(_: OpNode, x: Floats) -> Floats:
    """Compute GELU in its tanh form; the cube is two products, which are much faster than a power."""
    inner = x * x
    inner *= np.float32(0.044715)
    inner += 1
    inner *= x
    inner *= np.float32(np.sqrt(2 / np.pi))
    np.tanh(inner, out=inner)
    inner += 1
    inner *= x
    inner *= np.float32(0.5)
    return inner


def embedding(_: OpNode, table: Floats, ids: Array) -> Floats:
    """Gather rows of a table ``(V, C)`` at ids ``(T)``: ``(T, C)``."""
    return table[ids]


def attention(node: OpNode, q: Floats, k: Floats, v: Floats) -> Floats:
    """Compute ``softmax(q k^T / sqrt(D)) v`` of heads: ``(..., T, D)`` and two ``(..., n, D)`` to ``(..., T, D)``.

    With `causal`, row i attends to columns 0 to i.
    """
    scores = np.matmul(q, k.swapaxes(-1, -2))  # ... T x n
    scores *= np.float32(1 / np.sqrt(q.shape[-1]))
    if node["causal"]:
        scores = np.where(np.tri(scores.shape[-1], dtype=bool), scores, np.float32(MASKED))
    mixed: Floats = np.matmul(exponentiate(scores), v)
    return mixed


def conv(node: OpNode, x: Floats, kernel: Floats, *bias: Floats) -> Floats:
    """Compute a convolution as products over its windows, one per group; see `payload.convolution` for the layouts."""
    steps = steps_of(node)
    if not steps.channels_last:
        x, kernel = np.ascontiguousarray(x.transpose(0, 2, 3, 1)), kernel.transpose(2, 3, 1, 0)
    padding, reach = (steps.padding, steps.padding), steps.dilation * (kernel.shape[0] - 1) + 1
    padded = np.pad(x, ((0, 0), padding, padding, (0, 0)))
    every = np.lib.stride_tricks.sliding_window_view(padded, (reach, reach), axis=(1, 2))
    windows = every[:, :: steps.stride, :: steps.stride, :, :: steps.dilation, :: steps.dilation]  # n h w c i j
    parts = zip(np.split(windows, steps.groups, 3), np.split(kernel, steps.groups, 3), strict=True)
    y = np.concatenate([np.tensordot(part, w, ((4, 5, 3), (0, 1, 2))) for part, w in parts], axis=3)
    if bias:
        y += bias[0]
    result: Floats = y if steps.channels_last else y.transpose(0, 3, 1, 2)
    return result


def relu(_: OpNode, x: Floats) -> Floats:
    """Compute ``max(x, 0)``."""
    return np.maximum(x, np.float32(0))


def split_heads(node: OpNode, qkv: Floats) -> list[Floats]:
    """Split concatenated queries, keys and values: ``(B T, 3 C)`` to three ``(B, H, T, D)``."""
    batch, heads, rows, depth = node.shape
    return list(qkv.reshape(batch, rows, 3, heads, depth).transpose(2, 0, 3, 1, 4))


def merge_heads(node: OpNode, x: Floats) -> Floats:
    """Merge heads into columns: ``(B, H, T, D) -> (B T, C)``."""
    return x.swapaxes(1, 2).reshape(node.shape)


def store_rows(node: OpNode, cache: Floats, rows: Floats, position: Array | None = None) -> Floats:
    """Write ``(B, H, T, D)`` into a `layer` of a cache ``(L, B H, P, D)``: the first rows, or the row at `position`.

    Return the filled rows ``(B, H, n, D)``. The cache persists across calls.
    """
    batch, heads, count, depth = rows.shape
    start = 0 if position is None else int(position[0])
    whole: Floats = cache[int(node["layer"])].reshape(batch, heads, -1, depth)
    whole[:, :, start : start + count] = rows
    return whole[:, :, : start + count]


def row_before(_: OpNode, x: Floats, count: Array) -> Floats:
    """Return the last of the first `count` rows: ``(T, C) -> (1, C)``."""
    return x[count[0] - 1 : count[0]]


def layer(node: OpNode, stacked: Array) -> Array:
    """Return the slice of a stack at the attribute ``index``: ``(L, ...) -> (...)``."""
    result: Array = stacked[int(node["index"])]
    return result


def rows(node: OpNode, table: Floats) -> Floats:
    """Return the first `count` rows: ``(P, C) -> (count, C)``."""
    return table[: int(node["count"])]


COMPUTED = (matmul, linear, add, layer_norm, softmax, gelu, embedding, attention, conv, relu, split_heads, merge_heads)
RULES: Rules = {rule.__name__: rule for rule in (*COMPUTED, store_rows, row_before, layer, rows)}
