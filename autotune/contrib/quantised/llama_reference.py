"""Reference implementation of a Llama in NumPy, in float64, with weights as their formats define them."""

from dataclasses import dataclass

import numpy as np

from autotune.contrib.quantised.llama_config import LlamaConfig
from autotune.contrib.quantised.llama_weights import BLOCK, LlamaWeights
from autotune.core.payload import Array
from payload import reference
from payload.reference import Doubles

ROWS_AT_ONCE = 8192  # rows of a matrix widened to float64 at a time: an output head may have 150,000


@dataclass(frozen=True)
class LlamaReference:
    """A model evaluated in float64.

    Attributes:
        config: Sizes of the model and its function.
        weights: Weights of the model.
    """

    config: LlamaConfig
    weights: LlamaWeights

    def compute(self, tokens: Array, index: int, keys: Array, values: Array) -> tuple[Array, ...]:
        """Return the caches and logits after a call.

        Args:
            tokens: Ids ``(T)``.
            index: Position of the token to decode, or length of the prompt.
            keys: Cache ``(L, G, P, D)`` before the call.
            values: Cache of the same shape.
        """
        config, start = self.config, index if self.config.decodes else 0
        caches = np.array([keys, values])  # in f32, as the payload stores them
        x = self.run(tokens, start, caches)
        return caches[0], caches[1], self.logits(x[-1:] if config.decodes else x[index - 1 : index])

    def read(self, tokens: Array) -> Array:
        """Return the logits ``(T, V)`` after each token of a text, for a function that processes prompts."""
        config = self.config
        caches = np.zeros((2, config.layers, config.groups, config.positions, config.depth), np.float32)
        return self.logits(self.run(tokens, 0, caches))

    def logits(self, x: Doubles) -> Doubles:
        """Return the logits for hidden states ``(rows, C)`` after all blocks."""
        normal = reference.rms_norm(x, self.weights.arrays["output_norm"], self.config.epsilon)
        return self.times(normal, "token_embd" if self.config.tied else "output")

    def run(self, tokens: Array, start: int, caches: Array) -> Doubles:
        """Return hidden states ``(T, C)`` after all blocks; updates the caches ``(2, L, G, P, D)`` in place."""
        config, x = self.config, self.rows("token_embd", tokens)
        for layer in range(config.layers):
            x = x + self.attend(layer, x, caches[:, layer], start)
            normal = reference.rms_norm(x, self.plain("ffn_norm", layer), config.epsilon)
            hidden = reference.swiglu(
                self.times(normal, BLOCK + "gate", layer), self.times(normal, BLOCK + "up", layer)
            )
            x = x + self.times(hidden, BLOCK + "down", layer)
        return x

    def attend(self, layer: int, x: Doubles, caches: Array, start: int) -> Doubles:
        """Return a layer's attention ``(T, C)``; updates its rows of the caches ``(2, G, P, D)`` in place."""
        config, count = self.config, len(x)
        normal = reference.rms_norm(x, self.plain("attn_norm", layer), config.epsilon)
        q, k, v = (self.heads(normal, part, layer) for part in "qkv")
        q, k = self.rotate(q, start), self.rotate(k, start)
        caches[0, :, start : start + count], caches[1, :, start : start + count] = k, v
        if config.decodes:
            k, v = (cache[:, : start + 1].astype(np.float64) for cache in caches)
        shared = config.heads // config.groups
        mixed = reference.attention(q, np.repeat(k, shared, 0), np.repeat(v, shared, 0), causal=not config.decodes)
        return self.times(reference.merge_heads(mixed), BLOCK + "attn_output", layer)

    def heads(self, x: Doubles, part: str, layer: int) -> Doubles:
        """Return the queries, keys or values of a layer, ``(H, T, D)`` or ``(G, T, D)``."""
        flat = self.times(x, BLOCK + part, layer)
        if self.config.biased:
            flat = flat + self.plain(f"{part}_bias", layer)
        return reference.split_heads(flat, flat.shape[1] // self.config.depth)

    def rotate(self, x: Doubles, start: int) -> Doubles:
        """Apply rotary position embeddings to heads."""
        tables = self.weights.arrays["rope_cos"], self.weights.arrays["rope_sin"]
        cosine, sine = (table[start : start + x.shape[1]].astype(np.float64) for table in tables)
        low, high = np.split(x, 2, axis=-1)
        return np.concatenate([low * cosine - high * sine, high * cosine + low * sine], axis=-1)

    def plain(self, name: str, layer: int) -> Array:
        """Return a layer's vector in f32."""
        return np.asarray(self.weights.arrays[BLOCK + name][layer])

    def times(self, x: Doubles, name: str, layer: int | None = None) -> Doubles:
        """Multiply rows ``(T, K)`` by a matrix ``(N, K)``, transposed."""
        whole = self.weights.arrays[name]
        count = len(whole if layer is None else whole[layer])
        parts = (slice(first, first + ROWS_AT_ONCE) for first in range(0, count, ROWS_AT_ONCE))
        return np.concatenate([x @ self.rows(name, part, layer).T for part in parts], axis=1)

    def rows(self, name: str, chosen: "slice | Array", layer: int | None = None) -> Doubles:
        """Return rows of a matrix, dequantized to float64."""
        form = self.weights.forms[name]
        parts = {
            end: array[chosen] if layer is None else array[layer][chosen]
            for end, array in ((end, self.weights.arrays[name + end]) for end in (form.ends if form else ("",)))
        }
        if form is None:
            return np.asarray(parts[""], np.float64)
        return form.restore("w", {f"w{end}": part for end, part in parts.items()})
