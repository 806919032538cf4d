"""Models too large for most machines, as payloads: shapes alone, so that no memory is needed to see their tasks."""

from collections.abc import Mapping
from typing import Any

import numpy as np

import autotune.tensor as T  # noqa: N812 - as the documents import it
from autotune.core.payload import Payload
from autotune.registry import load_payload

GPT2_XL = "gpt2,seq=1024,d_model=1600,layers=48,heads=25,d_ff=6400"
LAYERS, WIDTH, HEADS, HIDDEN, WORDS, ROWS = 32, 4096, 32, 11008, 32000, 2048  # of Llama 7B
EPSILON = 1e-5

Weights = Mapping[str, T.Tensor]


def norm(x: T.Tensor, gain: T.Tensor) -> T.Tensor:
    """RMS norm of rows (T, C)."""
    return x * T.rsqrt(T.mean(x * x, axis=-1, keepdims=True) + EPSILON) * gain


def turn(x: T.Tensor, cosines: T.Tensor, sines: T.Tensor) -> T.Tensor:
    """Rotary positions of heads (H, T, D)."""
    half = x.shape[-1] // 2
    one, two = x[:, :, :half], x[:, :, half:]
    return T.concat([one * cosines - two * sines, one * sines + two * cosines], axis=-1)


def attend(x: T.Tensor, w: Weights) -> T.Tensor:
    """Causal attention of rows (T, C)."""
    rows, width = x.shape

    def heads(name: str) -> T.Tensor:
        return T.permute_dims((x @ w[name]).reshape(rows, HEADS, width // HEADS), (1, 0, 2))  # H, T, D

    q, k = (turn(heads(name), w["cosines"], w["sines"]) for name in ("wq", "wk"))
    scores = q @ k.mT / (width // HEADS) ** 0.5
    seen = T.tril(T.ones((rows, rows), dtype=T.bool))
    mixed = T.softmax(T.where(seen, scores, -1e30)) @ heads("wv")
    return T.permute_dims(mixed, (1, 0, 2)).reshape(rows, width) @ w["wo"]


def llama(tokens: T.Tensor, w: Weights) -> T.Tensor:
    """Logits (T, V) of a Llama of one layer."""
    x = T.take(w["table"], tokens, axis=0)
    x = x + attend(norm(x, w["first"]), w)
    inner = norm(x, w["second"])
    x = x + (T.silu(inner @ w["gate"]) * (inner @ w["up"])) @ w["down"]
    return norm(x, w["last"]) @ w["head"]


def llama_payload() -> Payload:
    """One layer of Llama 7B between its table and its head, with weights as arguments."""
    depth = WIDTH // HEADS
    shapes = dict.fromkeys(("wq", "wk", "wv", "wo"), (WIDTH, WIDTH))
    shapes |= {"table": (WORDS, WIDTH), "head": (WIDTH, WORDS), "gate": (WIDTH, HIDDEN), "up": (WIDTH, HIDDEN)}
    shapes |= {"down": (HIDDEN, WIDTH), "cosines": (ROWS, depth // 2), "sines": (ROWS, depth // 2)}
    wide: dict[str, tuple[int, ...]] = {**shapes, "first": (WIDTH,), "second": (WIDTH,), "last": (WIDTH,)}
    names = sorted(wide)

    def model(tokens: T.Tensor, *weights: T.Tensor) -> T.Tensor:
        return llama(tokens, dict(zip(names, weights, strict=True)))

    arrays: list[np.ndarray[Any, Any]] = [np.zeros(wide[name], dtype=np.float32) for name in names]
    return T.payload(model, np.zeros(ROWS, dtype=np.int32), *arrays)


def large_models() -> dict[str, tuple[Payload, int]]:
    """Payloads by the name of the model, each with the times that its layer is run where the text has it once."""
    return {"GPT-2 XL": (load_payload(GPT2_XL), 1), "Llama 7B": (llama_payload(), LAYERS)}
