"""The oracle: what `payload.ops` and `payload.gpt` compute, in float64 NumPy, under the same names.

Nothing here looks at the emitted MLIR. Arrays of any float dtype come in; float64 goes out.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from payload.config import GPTConfig

Array = npt.NDArray[Any]
Doubles = npt.NDArray[np.float64]

LAYER_NORM_EPSILON = 1e-5


def outputs_of(function: Callable[..., Doubles], **arrays: Array) -> tuple[Array, ...]:
    """Call a reference by keyword and give its outputs as the tuple that `Payload.reference` promises."""
    return (function(**arrays),)


def double(x: Array) -> Doubles:
    """The same numbers in float64."""
    return np.asarray(x, dtype=np.float64)


def matmul(a: Array, b: Array, transpose_b: bool = False) -> Doubles:
    """``(M, K) x (K, N) -> (M, N)``; with `transpose_b`, b is stored ``(N, K)``."""
    product: Doubles = double(a) @ (double(b).T if transpose_b else double(b))
    return product


def batch_matmul(a: Array, b: Array, transpose_b: bool = False) -> Doubles:
    """``(B, M, K) x (B, K, N) -> (B, M, N)``; with `transpose_b`, b is stored ``(B, N, K)``."""
    product: Doubles = double(a) @ (double(b).swapaxes(1, 2) if transpose_b else double(b))
    return product


def linear(x: Array, weight: Array, bias: Array) -> Doubles:
    """``(T, K) x (K, N) + (N) -> (T, N)``."""
    return matmul(x, weight) + double(bias)


def split_heads(x: Array, heads: int) -> Doubles:
    """``(T, C) -> (H, T, C / H)``."""
    return double(x).reshape(len(x), heads, -1).swapaxes(0, 1)


def merge_heads(x: Array) -> Doubles:
    """``(H, T, D) -> (T, H * D)``."""
    return double(x).swapaxes(0, 1).reshape(x.shape[1], -1)


def layer_norm(x: Array, gain: Array, bias: Array) -> Doubles:
    """``(x - mean) / sqrt(variance + 1e-5) * gain + bias`` over the last dimension."""
    x = double(x)
    normal = (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + LAYER_NORM_EPSILON)
    return double(normal * double(gain) + double(bias))


def softmax(x: Array) -> Doubles:
    """``exp(x - max) / sum(exp(x - max))`` over the last dimension."""
    power = np.exp(double(x) - double(x).max(axis=-1, keepdims=True))
    return double(power / power.sum(axis=-1, keepdims=True))


def causal_mask(scores: Array) -> Doubles:
    """Hide the future in ``(..., T, T)``: keep column ``j`` of row ``i`` where ``j <= i``."""
    return np.where(np.tri(scores.shape[-1], dtype=bool), double(scores), -np.inf)


def attention(q: Array, k: Array, v: Array, causal: bool = False) -> Doubles:
    """``softmax(q k^T / sqrt(D)) v`` for every head: three ``(H, T, D) -> (H, T, D)``."""
    scores = batch_matmul(q, k, transpose_b=True) / np.sqrt(q.shape[-1])
    return batch_matmul(softmax(causal_mask(scores) if causal else scores), v)


def gelu(x: Array) -> Doubles:
    """``0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))``."""
    x = double(x)
    return double(0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))))


def embed(table: Array, ids: Array) -> Doubles:
    """Rows of a ``(V, C)`` table at ``(T)`` ids: ``(T, C)``."""
    return double(table[ids])


def forward(config: GPTConfig, *, tokens: Array, wte: Array, wpe: Array, **weights: Array) -> Doubles:
    """Logits ``(T, V)`` of a GPT at every position of `tokens` ``(T)``.

    Args:
        config: Sizes of the model.
        tokens: Ids in ``[0, V)``.
        wte: Token table ``(V, C)``, also the head.
        wpe: Position table ``(P, C)``.
        weights: All the rest, by the names in `payload.weights.declare`; layers stacked along the first dimension.
    """
    x = embed(wte, tokens) + double(wpe[: len(tokens)])
    final = {name: weights.pop(name) for name in ("ln_f_gain", "ln_f_bias")}
    for layer in range(config.layers):
        x = block(x, {name: stacked[layer] for name, stacked in weights.items()}, config.heads)
    return matmul(layer_norm(x, final["ln_f_gain"], final["ln_f_bias"]), wte, transpose_b=True)


def block(x: Doubles, w: dict[str, Array], heads: int) -> Doubles:
    """One pre-norm transformer block, ``(T, C) -> (T, C)``."""
    qkv = linear(layer_norm(x, w["ln_1_gain"], w["ln_1_bias"]), w["qkv_weight"], w["qkv_bias"])
    q, k, v = (split_heads(part, heads) for part in np.split(qkv, 3, axis=1))
    mixed = merge_heads(attention(q, k, v, causal=True))
    x = x + linear(mixed, w["mix_weight"], w["mix_bias"])
    hidden = gelu(linear(layer_norm(x, w["ln_2_gain"], w["ln_2_bias"]), w["up_weight"], w["up_bias"]))
    return x + linear(hidden, w["down_weight"], w["down_bias"])
