"""NumPy reference (oracle) in float64 of `payload.ops` and the ops of the dialect, under the same names.

It is independent of the emitted MLIR. Functions accept arrays of any float dtype and return float64.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Doubles = npt.NDArray[np.float64]

LAYER_NORM_EPSILON = 1e-5


def outputs_of(function: Callable[..., Doubles], **arrays: Array) -> tuple[Array, ...]:
    """Call a reference by keyword and return its output as the tuple that `Payload.reference` requires."""
    return (function(**arrays),)


def double(x: Array) -> Doubles:
    """Convert to float64."""
    return np.asarray(x, dtype=np.float64)


def matmul(a: Array, b: Array, transpose_b: bool = False) -> Doubles:
    """Multiply ``(M, K) x (K, N) -> (M, N)``; with `transpose_b`, b is stored ``(N, K)``."""
    product: Doubles = double(a) @ (double(b).T if transpose_b else double(b))
    return product


def batch_matmul(a: Array, b: Array, transpose_b: bool = False) -> Doubles:
    """Multiply ``(B, M, K) x (B, K, N) -> (B, M, N)``; with `transpose_b`, b is stored ``(B, N, K)``."""
    product: Doubles = double(a) @ (double(b).swapaxes(1, 2) if transpose_b else double(b))
    return product


def linear(x: Array, weight: Array, bias: Array) -> Doubles:
    """Compute ``(T, K) x (K, N) + (N) -> (T, N)``."""
    return matmul(x, weight) + double(bias)


def split_heads(x: Array, heads: int) -> Doubles:
    """Split columns into heads: ``(T, C) -> (H, T, C / H)``."""
    return double(x).reshape(len(x), heads, -1).swapaxes(0, 1)


def merge_heads(x: Array) -> Doubles:
    """Merge heads into columns: ``(H, T, D) -> (T, H * D)``."""
    return double(x).swapaxes(0, 1).reshape(x.shape[1], -1)


def layer_norm(x: Array, gain: Array, bias: Array, epsilon: float = LAYER_NORM_EPSILON) -> Doubles:
    """Compute ``(x - mean) / sqrt(variance + epsilon) * gain + bias`` over the last dimension."""
    x = double(x)
    normal = (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + epsilon)
    return double(normal * double(gain) + double(bias))


def rms_norm(x: Array, gain: Array, epsilon: float = LAYER_NORM_EPSILON) -> Doubles:
    """Compute ``x / sqrt(mean of squares + epsilon) * gain`` over the last dimension."""
    x = double(x)
    return double(x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + epsilon) * double(gain))


def softmax(x: Array) -> Doubles:
    """Compute ``exp(x - max) / sum(exp(x - max))`` over the last dimension."""
    power = np.exp(double(x) - double(x).max(axis=-1, keepdims=True))
    return double(power / power.sum(axis=-1, keepdims=True))


def causal_mask(scores: Array) -> Doubles:
    """Mask the future in ``(..., T, T)``: keep column ``j`` of row ``i`` where ``j <= i``."""
    return np.where(np.tri(scores.shape[-1], dtype=bool), double(scores), -np.inf)


def attention(q: Array, k: Array, v: Array, causal: bool = False) -> Doubles:
    """Compute ``softmax(q k^T / sqrt(D)) v`` for every head: three ``(H, T, D) -> (H, T, D)``."""
    scores = batch_matmul(q, k, transpose_b=True) / np.sqrt(q.shape[-1])
    return batch_matmul(softmax(causal_mask(scores) if causal else scores), v)


def gelu(x: Array) -> Doubles:
    """Compute ``0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))``."""
    x = double(x)
    return double(0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))))


def swiglu(gate: Array, up: Array) -> Doubles:
    """Compute ``gate / (1 + exp(-gate)) * up``."""
    return double(double(gate) / (1 + np.exp(-double(gate))) * double(up))


def embed(table: Array, ids: Array) -> Doubles:
    """Gather rows of a ``(V, C)`` table at ``(T)`` ids: ``(T, C)``."""
    return double(table[ids])


def rotate(x: Array, start: int = 0) -> Doubles:
    """Apply rotary embedding to ``(H, T, D)``: row ``t`` has position ``start + t``, ``j`` pairs with ``j + D / 2``."""
    half = x.shape[-1] // 2
    frequency = 10_000.0 ** (-np.arange(half) / half)
    angle = np.outer(start + np.arange(x.shape[-2]), frequency)
    low, high = double(x)[..., :half], double(x)[..., half:]
    cos, sin = np.cos(angle), np.sin(angle)
    return np.concatenate([low * cos - high * sin, high * cos + low * sin], axis=-1)
