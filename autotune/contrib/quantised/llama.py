"""Llama models as MLIR: RMS norms, rotary positions, grouped heads, SwiGLU, block-quantized or f32 weights.

    prefill   T tokens in, logits after token number ``length`` out; fills the caches
    decode    one token in, the next logits out; appends a row to the caches and attends over all filled rows

Sizes are those of `LlamaConfig`; n rows of a cache are filled. Layers share one loop body over stacked weights.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from autotune.contrib.quantised.llama_config import LlamaConfig
from autotune.contrib.quantised.llama_weights import BLOCK
from autotune.core.payload import Argument, Array
from payload import cached, ops, rowwise
from payload.block_products import StoredBlocks, embed_blocks, multiply_blocks
from payload.blocks import BlockFormat
from payload.builder import Builder, DynamicSize, Value, for_each, write_function, write_module

TYPES = {"float32": "f32", "float16": "f16", "int8": "i8"}
Tensors = Mapping[str, Value]
Forms = Mapping[str, BlockFormat | None]


def arguments(config: LlamaConfig, weights: Mapping[str, Array]) -> tuple[Argument, ...]:
    """Return the signature: tokens, position or length, all weights, the caches, and logits ``(1, V)``."""
    cache = (config.layers, config.groups, config.positions, config.depth)
    scalar = ("position", 0, config.positions) if config.decodes else ("length", 1, config.tokens + 1)
    return (
        Argument("tokens", "input", (config.tokens,), "i32", low=0, high=config.vocab),
        Argument(scalar[0], "input", (1,), "i64", low=scalar[1], high=scalar[2]),
        *(Argument(name, "weight", array.shape, TYPES[array.dtype.name]) for name, array in weights.items()),
        Argument("keys", "state", cache),
        Argument("values", "state", cache),
        Argument("logits", "output", (1, config.vocab)),
    )


def write_llama(config: LlamaConfig, forms: Forms, signature: tuple[Argument, ...]) -> str:
    """Return the text of a module with the model's function."""

    def body(f: Builder, tensors: dict[str, Value]) -> list[Value]:
        return Network(f, config, forms, tensors).compute()

    entry, whole = "decode" if config.decodes else "prefill", [a.name for a in signature if a.role == "input"]
    return write_module(write_function(entry, signature, body, ranged=whole))


@dataclass(frozen=True)
class Network:
    """Emitter of a model's function.

    Attributes:
        f: Builder that ops are appended to.
        config: Sizes of the model.
        forms: Format of every weight.
        tensors: Arguments by name.
    """

    f: Builder
    config: LlamaConfig
    forms: Forms
    tensors: Tensors

    def compute(self) -> list[Value]:
        """Emit the function; return the caches and logits ``(1, V)``."""
        f, tensors = self.f, self.tensors
        # position of the single token; for a prompt its length, which is the position after it
        position = cached.read_index(f, tensors["position" if self.config.decodes else "length"], "place")
        first = position if self.config.decodes else None
        cosine, sine = (
            rows_from(f, tensors[f"rope_{name}"], first, self.config.tokens, name) for name in ("cos", "sin")
        )

        def iterate(layer: str, carried: list[Value]) -> list[Value]:
            return self.block(self.layer_weights(layer), carried, layer, position, (cosine, sine))

        x, keys, values = for_each(f, self.config.layers, [self.embed(), tensors["keys"], tensors["values"]], iterate)
        if not self.config.decodes:
            last = cached.add_index(f, position, -1, "last")
            x = rows_from(f, x, last, 1, "x_last")
        x = rowwise.rms_norm(f, x, tensors["output_norm"], "output_norm", epsilon=self.config.epsilon)
        head = "token_embd" if self.config.tied else "output"
        return [keys, values, self.multiply(self.forms[head], tensors, head, x, "logits")]

    def embed(self) -> Value:
        """Emit the embedding of the tokens, ``(T, C)``."""
        form, table, tokens = self.forms["token_embd"], self.tensors["token_embd"], self.tensors["tokens"]
        if form is None:
            return rowwise.embed(self.f, table, tokens, "embedded")
        return embed_blocks(self.f, StoredBlocks.named(form, self.tensors, "token_embd"), tokens, "embedded")

    def layer_weights(self, layer: str) -> dict[str, Value]:
        """Return the weights of one layer, by their names without `BLOCK`."""
        layer_names = [name for name in self.tensors if name.startswith(BLOCK)]
        return {
            name.removeprefix(BLOCK): ops.take_layer(self.f, self.tensors[name], layer, name.removeprefix(BLOCK))
            for name in layer_names
        }

    def block(
        self, w: Tensors, carried: list[Value], layer: str, position: str, angles: tuple[Value, Value]
    ) -> list[Value]:
        """Emit one block; return its result ``(T, C)`` and the caches."""
        f, (x, *caches) = self.f, carried
        normal = rowwise.rms_norm(f, x, w["attn_norm"], "attn_norm", epsilon=self.config.epsilon)
        q, k, v = (self.heads(w, part, normal) for part in "qkv")
        q, k = (cached.rotate_by(f, part, *angles, f"{name}_turned") for part, name in ((q, "q"), (k, "k")))
        start = position if self.config.decodes else "0"
        caches = [
            cached.store_rows(f, cache, rows, layer=layer, position=start, name=f"{name}_next")
            for cache, rows, name in zip(caches, (k, v), ("keys", "values"), strict=True)
        ]
        if self.config.decodes:
            filled = DynamicSize(self.config.positions, cached.add_index(f, position, 1, "filled"))
            k, v = (cached.rows_so_far(f, cache, layer, filled, "past") for cache in caches)
        x = ops.add(f, x, self.attend(w, q, k, v), "x_mixed")
        normal = rowwise.rms_norm(f, x, w["ffn_norm"], "ffn_norm", epsilon=self.config.epsilon)
        gate, up = (self.product(w, name, normal) for name in ("gate", "up"))
        hidden = ops.swiglu(f, gate, up)
        return [ops.add(f, x, self.product(w, "down", hidden), "x_next"), *caches]

    def heads(self, w: Tensors, part: str, x: Value) -> Value:
        """Emit queries, keys or values: ``(T, C)`` to ``(H, T, D)`` or ``(G, T, D)``."""
        flat = self.product(w, part, x)
        if self.config.biased:
            flat = ops.add_bias(self.f, flat, w[f"{part}_bias"], f"{part}_biased")
        count = flat.shape[1] // self.config.depth
        if self.config.decodes:
            return cached.reshape(self.f, flat, (count, 1, self.config.depth), part)
        return ops.split_heads(self.f, flat, count, part)

    def attend(self, w: Tensors, q: Value, k: Value, v: Value) -> Value:
        """Emit the attention of all heads and its output projection: ``(T, C)``."""
        causal = not self.config.decodes
        is_ungrouped = q.shape[0] == k.shape[0]
        mixed = (rowwise.attention if is_ungrouped else rowwise.grouped_attention)(self.f, q, k, v, causal=causal)
        if self.config.decodes:
            merged = cached.reshape(self.f, mixed, (1, q.shape[0] * q.shape[2]), "merged")
        else:
            merged = ops.merge_heads(self.f, mixed, "merged")
        return self.product(w, "attn_output", merged)

    def product(self, w: Tensors, name: str, x: Value) -> Value:
        """Emit a product with a layer's matrix: ``(T, K)`` times ``(N, K)`` transposed, ``(T, N)``."""
        return self.multiply(self.forms[BLOCK + name], w, name, x, f"{name}_product")

    def multiply(self, form: BlockFormat | None, w: Tensors, name: str, x: Value, result: str) -> Value:
        """Emit a product with a matrix in a format, likewise."""
        if form is None:
            return ops.matmul(self.f, x, w[name], result, transpose_b=True)
        return multiply_blocks(self.f, x, StoredBlocks.named(form, w, name), result)


def rows_from(f: Builder, table: Value, first: str | None, count: int, name: str) -> Value:
    """Emit a slice ``(P, N) -> (count, N)``: the rows from an index on, or the first rows."""
    shape = (count, table.shape[1])
    text = f"tensor.extract_slice {table.name}[{first or 0}, 0] [{count}, {shape[1]}] [1, 1] : {table.type} to"
    return f.define(f"{name}_rows", shape, f"{text} {Value('', shape).type}")
