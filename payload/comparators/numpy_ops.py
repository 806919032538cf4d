"""What every op of a graph means, in NumPy: f32 throughout, products by its BLAS, all else whole-array expressions.

Sizes: T rows, B sequences, C width, H heads, D = C / H, L layers, P rows of a cache; n of them are filled.
"""

import numpy as np
import numpy.typing as npt

from autotune.core.ops.graph import OpNode, Rules
from autotune.core.payload import MASKED, Array
from payload.convolution import steps_of

Floats = npt.NDArray[np.float32]


def matmul(node: OpNode, a: Floats, b: Floats) -> Floats:
    """``(..., M, K) x (..., K, N) -> (..., M, N)``; with `transpose_b`, b is stored ``(..., N, K)``."""
    product: Floats = np.matmul(a, b.swapaxes(-1, -2) if node["transpose_b"] else b)
    return product


def linear(_: OpNode, x: Floats, weight: Floats, bias: Floats) -> Floats:
    """``(T, K) x (K, N) + (N) -> (T, N)``."""
    product: Floats = x @ weight + bias
    return product


def add(_: OpNode, x: Floats, y: Floats) -> Floats:
    """``x + y``, of equal shapes, or with the one row of y added to all of x."""
    return x + y


def layer_norm(node: OpNode, x: Floats, gain: Floats, bias: Floats) -> Floats:
    """``(x - mean) / sqrt(variance + epsilon) * gain + bias`` over the last dimension."""
    centered: Floats = x - x.mean(axis=-1, keepdims=True)
    variance = np.mean(centered * centered, axis=-1, keepdims=True)
    centered *= 1 / np.sqrt(variance + np.float32(node["epsilon"]))
    centered *= gain
    centered += bias
    return centered


def softmax(_: OpNode, x: Floats) -> Floats:
    """``exp(x - max) / sum(exp(x - max))`` over the last dimension."""
    return exponentiate(x.copy())


def exponentiate(x: Floats) -> Floats:
    """Softmax in place."""
    x -= x.max(axis=-1, keepdims=True)
    np.exp(x, out=x)
    x /= x.sum(axis=-1, keepdims=True)
    return x


def gelu(_: OpNode, x: Floats) -> Floats:
    """GELU, tanh form; the cube as two products, which are much faster than a power."""
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
    """Rows of a table ``(V, C)`` at ids ``(T)``: ``(T, C)``."""
    return table[ids]


def attention(node: OpNode, q: Floats, k: Floats, v: Floats) -> Floats:
    """``softmax(q k^T / sqrt(D)) v`` of every head: ``(..., T, D)`` and two ``(..., n, D)`` to ``(..., T, D)``.

    With `causal`, row i sees columns up to i.
    """
    scores = np.matmul(q, k.swapaxes(-1, -2))  # ... T x n
    scores *= np.float32(1 / np.sqrt(q.shape[-1]))
    if node["causal"]:
        scores = np.where(np.tri(scores.shape[-1], dtype=bool), scores, np.float32(MASKED))
    mixed: Floats = np.matmul(exponentiate(scores), v)
    return mixed


def conv(node: OpNode, x: Floats, kernel: Floats, *bias: Floats) -> Floats:
    """A convolution as products over its windows, one a group; `payload.convolution` says how all lie."""
    steps = steps_of(node)
    if not steps.channels_last:
        x, kernel = np.ascontiguousarray(x.transpose(0, 2, 3, 1)), kernel.transpose(2, 3, 1, 0)
    around, reach = (steps.padding, steps.padding), steps.dilation * (kernel.shape[0] - 1) + 1
    padded = np.pad(x, ((0, 0), around, around, (0, 0)))
    every = np.lib.stride_tricks.sliding_window_view(padded, (reach, reach), axis=(1, 2))
    windows = every[:, :: steps.stride, :: steps.stride, :, :: steps.dilation, :: steps.dilation]  # n h w c i j
    parts = zip(np.split(windows, steps.groups, 3), np.split(kernel, steps.groups, 3), strict=True)
    y = np.concatenate([np.tensordot(part, mine, ((4, 5, 3), (0, 1, 2))) for part, mine in parts], axis=3)
    if bias:
        y += bias[0]
    found: Floats = y if steps.channels_last else y.transpose(0, 3, 1, 2)
    return found


def relu(_: OpNode, x: Floats) -> Floats:
    """``max(x, 0)``."""
    return np.maximum(x, np.float32(0))


def split_heads(node: OpNode, qkv: Floats) -> list[Floats]:
    """Queries, keys and values that lie beside each other: ``(B T, 3 C)`` to three ``(B, H, T, D)``."""
    batch, heads, rows, depth = node.shape
    return list(qkv.reshape(batch, rows, 3, heads, depth).transpose(2, 0, 3, 1, 4))


def merge_heads(node: OpNode, x: Floats) -> Floats:
    """``(B, H, T, D) -> (B T, C)``."""
    return x.swapaxes(1, 2).reshape(node.shape)


def store_rows(node: OpNode, cache: Floats, rows: Floats, position: Array | None = None) -> Floats:
    """Write ``(B, H, T, D)`` into a `layer` of a cache ``(L, B H, P, D)``: its first rows, or one at a position.

    Gives what is filled by then, ``(B, H, n, D)``; the cache is kept from call to call.
    """
    batch, heads, count, depth = rows.shape
    start = 0 if position is None else int(position[0])
    whole: Floats = cache[int(node["layer"])].reshape(batch, heads, -1, depth)
    whole[:, :, start : start + count] = rows
    return whole[:, :, : start + count]


def row_before(_: OpNode, x: Floats, count: Array) -> Floats:
    """The last of the first `count` rows, ``(T, C) -> (1, C)``."""
    return x[count[0] - 1 : count[0]]


def layer(node: OpNode, stacked: Array) -> Array:
    """What lies at `index` of a stack, ``(L, ...) -> (...)``."""
    found: Array = stacked[int(node["index"])]
    return found


def rows(node: OpNode, table: Floats) -> Floats:
    """The first `count` rows, ``(P, C) -> (count, C)``."""
    return table[: int(node["count"])]


COMPUTED = (matmul, linear, add, layer_norm, softmax, gelu, embedding, attention, conv, relu, split_heads, merge_heads)
RULES: Rules = {rule.__name__: rule for rule in (*COMPUTED, store_rows, row_before, layer, rows)}
