"""NumPy as a comparator: f32 throughout, products by its BLAS, all else whole-array expressions."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version

import numpy as np
import numpy.typing as npt

from autotune.core.comparator import Prepared
from autotune.core.errors import ComparatorError
from autotune.core.payload import Array, Payload
from payload.config import config_of
from payload.reference import LAYER_NORM_EPSILON

Floats = npt.NDArray[np.float32]
MASKED = np.float32(-1e30)


@dataclass(frozen=True)
class NumPy:
    """NumPy, as the comparator ``numpy``."""

    name: str = "numpy"
    modules: tuple[str, ...] = ("numpy",)
    extra: str = "compare"

    def version(self) -> str:
        """Version of NumPy and of its BLAS, and the core that the BLAS took this machine for."""
        return f"numpy {version('numpy')}, {describe_blas()}"

    def prepare(self, payload: Payload, inputs: Mapping[str, Array]) -> Prepared:
        """Bind the inputs to the payload's function.

        Raises:
            ComparatorError: There is none for this kind of payload.
        """
        if payload.kind not in KERNELS:
            raise ComparatorError(f"numpy has no formula for {payload.name}; it knows {', '.join(KERNELS)}")
        call = partial(KERNELS[payload.kind], dict(payload.sizes), **inputs)
        return Prepared(call, lambda output: (output,))


NUMPY = NumPy()


def describe_blas() -> str:
    """The BLAS that NumPy loaded and its core, by threadpoolctl; the one it was built with, where that is missing."""
    try:
        from threadpoolctl import threadpool_info  # noqa: PLC0415 - comes with an extra
    except ImportError:
        blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
        return f"{blas['name']} {blas['version']}, core unknown (install threadpoolctl)"
    loaded = [found for found in threadpool_info() if found["user_api"] == "blas"]
    mine = sorted(loaded, key=lambda found: "numpy" not in found["filepath"])  # SciPy brings another one
    if not mine:
        return "BLAS unknown"
    return f"{mine[0]['internal_api']} {mine[0]['version']} for {mine[0].get('architecture', 'an unknown core')}"


def matmul(sizes: Mapping[str, int], *, a: Floats, b: Floats) -> Floats:
    """``(..., M, K) x (..., K, N) -> (..., M, N)``; b is stored ``(..., N, K)`` where the sizes say so."""
    product: Floats = np.matmul(a, b.swapaxes(-1, -2) if sizes["transpose_b"] else b)
    return product


def attention(sizes: Mapping[str, int], *, q: Floats, k: Floats, v: Floats) -> Floats:
    """Attention of every head: three ``(H, T, D) -> (H, T, D)``."""
    return attend(q, k, v, causal=bool(sizes["causal"]))


def layer_norm(sizes: Mapping[str, int], *, x: Floats, gain: Floats, bias: Floats) -> Floats:
    """Layer norm of every row of ``(R, C)``."""
    del sizes
    return normalize(x, gain, bias)


def softmax(sizes: Mapping[str, int], *, x: Floats) -> Floats:
    """Softmax of every row of ``(R, C)``."""
    del sizes
    return exponentiate(x.copy())


def gelu(sizes: Mapping[str, int], *, x: Floats) -> Floats:
    """GELU, tanh form, of every element of ``(R, C)``."""
    del sizes
    return activate(x)


def embedding(sizes: Mapping[str, int], *, ids: Array, table: Floats) -> Floats:
    """Rows of a table ``(V, C)`` at ids ``(R)``."""
    del sizes
    return table[ids]


def gpt(sizes: Mapping[str, int], *, tokens: Array, wte: Floats, wpe: Floats, **weights: Floats) -> Floats:
    """Logits ``(T, V)`` of a GPT at every position of `tokens` ``(T)``."""
    config = config_of(sizes)
    final = weights.pop("ln_f_gain"), weights.pop("ln_f_bias")
    x = wte[tokens] + wpe[: config.seq]
    for layer in range(config.layers):
        x = block(x, {name: stacked[layer] for name, stacked in weights.items()}, config.heads)
    logits: Floats = normalize(x, *final) @ wte.T
    return logits


KERNELS: dict[str, Callable[..., Floats]] = {
    "matmul": matmul,
    "batch_matmul": matmul,
    "attention": attention,
    "layer_norm": layer_norm,
    "softmax": softmax,
    "gelu": gelu,
    "embedding": embedding,
    "gpt": gpt,
}


def attend(q: Floats, k: Floats, v: Floats, *, causal: bool) -> Floats:
    """``softmax(q k^T / sqrt(D)) v`` for every head."""
    scores = np.matmul(q, k.swapaxes(-1, -2))  # H x T x T
    scores *= np.float32(1 / np.sqrt(q.shape[-1]))
    if causal:
        scores = np.where(np.tri(scores.shape[-1], dtype=bool), scores, MASKED)
    mixed: Floats = np.matmul(exponentiate(scores), v)
    return mixed


def exponentiate(x: Floats) -> Floats:
    """Softmax over the last dimension, in place."""
    x -= x.max(axis=-1, keepdims=True)
    np.exp(x, out=x)
    x /= x.sum(axis=-1, keepdims=True)
    return x


def normalize(x: Floats, gain: Floats, bias: Floats) -> Floats:
    """Layer norm over the last dimension."""
    centered: Floats = x - x.mean(axis=-1, keepdims=True)
    variance = np.mean(centered * centered, axis=-1, keepdims=True)
    centered *= 1 / np.sqrt(variance + np.float32(LAYER_NORM_EPSILON))
    centered *= gain
    centered += bias
    return centered


def activate(x: Floats) -> Floats:
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


def block(x: Floats, w: dict[str, Floats], heads: int) -> Floats:
    """One pre-norm transformer block, ``(T, C) -> (T, C)``."""
    rows, width = x.shape
    qkv = normalize(x, w["ln_1_gain"], w["ln_1_bias"]) @ w["qkv_weight"] + w["qkv_bias"]  # T x 3C
    q, k, v = qkv.reshape(rows, 3, heads, width // heads).transpose(1, 2, 0, 3)  # 3 of H x T x D
    mixed = attend(q, k, v, causal=True).swapaxes(0, 1).reshape(rows, width)  # T x C
    x = x + (mixed @ w["mix_weight"] + w["mix_bias"])
    hidden = activate(normalize(x, w["ln_2_gain"], w["ln_2_bias"]) @ w["up_weight"] + w["up_bias"])  # T x F
    return x + (hidden @ w["down_weight"] + w["down_bias"])
