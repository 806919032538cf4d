"""The oracle: what `payload.ops` and `payload.gpt` compute, in float64 NumPy, under the same names.

Nothing here looks at the emitted MLIR. Arrays of any float dtype come in; float64 goes out.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from payload.config import GPTConfig
from payload.storage import restore_weights

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


def layer_norm(x: Array, gain: Array, bias: Array, epsilon: float = LAYER_NORM_EPSILON) -> Doubles:
    """``(x - mean) / sqrt(variance + epsilon) * gain + bias`` over the last dimension."""
    x = double(x)
    normal = (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + epsilon)
    return double(normal * double(gain) + double(bias))


def rms_norm(x: Array, gain: Array, epsilon: float = LAYER_NORM_EPSILON) -> Doubles:
    """``x / sqrt(mean of squares + epsilon) * gain`` over the last dimension."""
    x = double(x)
    return double(x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + epsilon) * double(gain))


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


def swiglu(gate: Array, up: Array) -> Doubles:
    """``gate / (1 + exp(-gate)) * up``."""
    return double(double(gate) / (1 + np.exp(-double(gate))) * double(up))


def embed(table: Array, ids: Array) -> Doubles:
    """Rows of a ``(V, C)`` table at ``(T)`` ids: ``(T, C)``."""
    return double(table[ids])


def rotate(x: Array, start: int = 0) -> Doubles:
    """Rotary embedding of ``(H, T, D)``: row ``t`` stands at ``start + t``, column ``j`` pairs with ``j + D / 2``."""
    half = x.shape[-1] // 2
    frequency = 10_000.0 ** (-np.arange(half) / half)
    angle = np.outer(start + np.arange(x.shape[-2]), frequency)
    low, high = double(x)[..., :half], double(x)[..., half:]
    cos, sin = np.cos(angle), np.sin(angle)
    return np.concatenate([low * cos - high * sin, high * cos + low * sin], axis=-1)


def forward_outputs(config: GPTConfig, *, tokens: Array, **weights: Array) -> tuple[Array, ...]:
    """Logits ``(T, V)`` at every position of `tokens` ``(T)``.

    Args:
        config: Sizes of the model.
        tokens: Ids in ``[0, V)``.
        weights: Weights by the names in `payload.weights.declare`; layers stacked along the first dimension.
    """
    return (forward(config, tokens=tokens, **weights),)


def forward(config: GPTConfig, *, tokens: Array, **weights: Array) -> Doubles:
    """Like `forward_outputs`, the array alone."""
    x, _, _ = run_blocks(config, tokens, restore_weights(weights))
    return x


def run_blocks(config: GPTConfig, tokens: Array, w: dict[str, Array]) -> tuple[Doubles, Array, Array]:
    """Logits ``(T, V)``, and the keys and values of every layer, ``(L, H, T, D)``."""
    x = embed(w["wte"], tokens)
    if not config.rope:
        x = x + double(w["wpe"][: len(tokens)])
    keys, values = [], []
    for layer in range(config.layers):
        mine = take_layer(w, layer)
        q, k, v = (split_heads(part, config.heads) for part in np.split(project(x, mine), 3, axis=1))
        if config.rope:
            q, k = rotate(q), rotate(k)
        x = finish_block(x, merge_heads(attention(q, k, v, causal=True)), mine)
        keys.append(k)
        values.append(v)
    return predict(x, w), np.stack(keys), np.stack(values)


def prefill(
    config: GPTConfig, *, tokens: Array, length: Array, keys: Array, values: Array, **weights: Array
) -> tuple[Array, ...]:
    """Caches ``(L, H, P, D)`` with T rows filled, and logits ``(1, V)`` behind the last of `length` tokens."""
    logits, *filled = run_blocks(config, tokens, restore_weights(weights))
    caches = [cache.copy() for cache in (keys, values)]
    for cache, rows in zip(caches, filled, strict=True):
        cache[:, :, : len(tokens)] = rows
    return (*caches, logits[length[0] - 1 : length[0]])


def decode(
    config: GPTConfig, *, tokens: Array, position: Array, keys: Array, values: Array, **weights: Array
) -> tuple[Array, ...]:
    """Caches ``(L, B H, P, D)`` with a row at `position`, and logits ``(B, V)`` behind `tokens` ``(B)`` there."""
    w, at = restore_weights(weights), int(position[0])
    keys, values = keys.copy(), values.copy()
    x = embed(w["wte"], tokens)
    if not config.rope:
        x = x + double(w["wpe"][at])
    for layer in range(config.layers):
        mine = take_layer(w, layer)
        q, k, v = (part.reshape(-1, 1, config.depth) for part in np.split(project(x, mine), 3, axis=1))
        if config.rope:
            q, k = rotate(q, at), rotate(k, at)
        for cache, row in ((keys, k), (values, v)):
            cache[layer, :, at : at + 1] = row
        mixed = attention(q, keys[layer, :, : at + 1], values[layer, :, : at + 1])
        x = finish_block(x, mixed.reshape(x.shape), mine)
    return keys, values, predict(x, w)


def take_layer(w: dict[str, Array], layer: int) -> dict[str, Array]:
    """The weights of one block."""
    return {name: stacked[layer] for name, stacked in w.items() if name not in ("wte", "wpe", "ln_f_gain", "ln_f_bias")}


def project(x: Doubles, w: dict[str, Array]) -> Doubles:
    """Queries, keys and values of a block, beside each other: ``(T, C) -> (T, 3C)``."""
    return linear(layer_norm(x, w["ln_1_gain"], w["ln_1_bias"]), w["qkv_weight"], w["qkv_bias"])


def finish_block(x: Doubles, mixed: Doubles, w: dict[str, Array]) -> Doubles:
    """What follows attention in a pre-norm transformer block, ``(T, C) -> (T, C)``."""
    x = x + linear(mixed, w["mix_weight"], w["mix_bias"])
    hidden = gelu(linear(layer_norm(x, w["ln_2_gain"], w["ln_2_bias"]), w["up_weight"], w["up_bias"]))
    return x + linear(hidden, w["down_weight"], w["down_bias"])


def predict(x: Doubles, w: dict[str, Array]) -> Doubles:
    """Final norm and head: ``(T, C) -> (T, V)``."""
    return matmul(layer_norm(x, w["ln_f_gain"], w["ln_f_bias"]), w["wte"], transpose_b=True)
