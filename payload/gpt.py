"""GPT-2 in one file: pre-norm, causal, tanh GELU, tied head, as three functions of one model.

    forward   tokens in, logits at every position out; batch 1
    prefill   a prompt in, logits behind its last token out; fills the caches
    decode    one token of every sequence in, the next logits out; appends a row to the caches and attends over what
              they hold up to there

Sizes: T tokens, B sequences, C width, L layers, H heads, D = C / H, F hidden width of the MLP, V tokens there are,
P positions; n rows of a cache are filled. All blocks share one body: an ``scf.for`` over layers slices the stacked
weights, so the text does not grow with depth.
"""

from collections.abc import Callable, Sequence
from functools import partial

from autotune.core.payload import Payload
from payload import cached, ops, rowwise
from payload.builder import Builder, DynamicSize, Value, for_each, write_function, write_module
from payload.config import GPT2, NANO, GPTConfig
from payload.gpt_graph import write_graph
from payload.interface import FUNCTIONS, arguments, make_payload, read_request
from payload.weights import belongs_to_block

Tensors = dict[str, Value]
Mix = Callable[[Value], Value]
CACHES = ("keys", "values")


def forward(f: Builder, w: Tensors, config: GPTConfig) -> list[Value]:
    """Logits at every position."""
    x = embed_text(f, w, config)  # T x C

    def iterate(layer: str, carried: list[Value]) -> list[Value]:
        mine = take_block(f, w, layer)  # every (L, ...) to (...)
        return [block(f, mine, carried[0], partial(self_attention, f, config))]  # T x C

    (x,) = for_each(f, config.layers, [x], iterate)  # T x C
    return [predict(f, w, x)]  # T x V


def prefill(f: Builder, w: Tensors, config: GPTConfig) -> list[Value]:
    """Caches with the prompt in their first T rows, and the logits behind token number ``length``."""
    x = embed_text(f, w, config)  # T x C

    def iterate(layer: str, carried: list[Value]) -> list[Value]:
        x, *caches = carried
        mine = take_block(f, w, layer)  # every (L, ...) to (...)
        store = partial(cached.store_rows, f, layer=layer)  # into L x BH x P x D, in place

        def mix(qkv: Value) -> Value:
            q, k, v = split(f, qkv, config)  # 3 of H x T x D
            for i, rows in enumerate((k, v)):
                caches[i] = store(caches[i], rows, position="0", name=f"{CACHES[i]}_next")
            return attend_to_itself(f, q, k, v)  # T x C

        return [block(f, mine, x, mix), *caches]

    x, keys, values = for_each(f, config.layers, [x, w["keys"], w["values"]], iterate)  # T x C, 2 of L x H x P x D
    last = cached.add_index(f, cached.read_index(f, w["length"], "length"), -1, "last")
    x = cached.reshape(f, cached.row_at(f, x, last, "x_last"), (1, config.d_model), "x_row")  # 1 x C
    return [keys, values, predict(f, w, x)]  # 2 of L x H x P x D, 1 x V


def decode(f: Builder, w: Tensors, config: GPTConfig) -> list[Value]:
    """Caches with one more row, the one at ``position``, and the logits behind it."""
    wide = config.d_model
    position = cached.read_index(f, w["position"], "position")
    filled = DynamicSize(config.positions, cached.add_index(f, position, 1, "filled"))  # n
    x = rowwise.embed(f, w["wte"], w["tokens"], "token", w.get("wte_scale"))  # B x C, from (V, C) at (B)
    if not config.rope:
        x = ops.add_bias(f, x, cached.row_at(f, w["wpe"], position, "place"), "x")  # B x C, from (P, C)

    def iterate(layer: str, carried: list[Value]) -> list[Value]:
        x, *caches = carried
        mine = take_block(f, w, layer)  # every (L, ...) to (...)
        store = partial(cached.store_rows, f, layer=layer)  # into L x BH x P x D, in place

        def mix(qkv: Value) -> Value:
            parts = [ops.take_columns(f, qkv, i * wide, wide, f"{name}_flat") for i, name in enumerate("qkv")]  # B x C
            shape = (config.batch * config.heads, 1, config.depth)
            q, k, v = (cached.reshape(f, part, shape, n) for part, n in zip(parts, "qkv", strict=True))  # BH x 1 x D
            if config.rope:
                q, k = (cached.rotate(f, part, position, f"{n}_turned") for part, n in ((q, "q"), (k, "k")))
            for i, row in enumerate((k, v)):
                caches[i] = store(caches[i], row, position=position, name=f"{CACHES[i]}_next")
            k, v = (cached.rows_so_far(f, c, layer, filled, f"{n}_past") for c, n in zip(caches, "kv", strict=True))
            mixed = rowwise.attention(f, q, k, v, "attention", causal=False)  # BH x 1 x D, from BH x n x D
            return cached.reshape(f, mixed, (config.batch, wide), "merged")  # B x C

        return [block(f, mine, x, mix), *caches]

    x, keys, values = for_each(f, config.layers, [x, w["keys"], w["values"]], iterate)  # B x C, 2 of L x BH x P x D
    return [keys, values, predict(f, w, x)]  # 2 of L x BH x P x D, B x V


def embed_text(f: Builder, w: Tensors, config: GPTConfig) -> Value:
    """Tokens from position 0 on, as vectors that know their place unless heads turn them."""
    x = rowwise.embed(f, w["wte"], w["tokens"], "token", w.get("wte_scale"))  # T x C, from (V, C) at (T)
    if config.rope:
        return x
    position = ops.take_rows(f, w["wpe"], config.seq, "position")  # T x C, from (P, C)
    return ops.add(f, x, position, "x")  # T x C


def block(f: Builder, w: Tensors, x: Value, mix: Mix) -> Value:
    """One transformer block: communicate, then compute. T is B where tokens are decoded."""
    normed = rowwise.layer_norm(f, x, w["ln_1_gain"], w["ln_1_bias"], "ln_1")  # T x C
    mixed = mix(linear(f, w, normed, "qkv"))  # T x C, from T x 3C
    x = ops.add(f, x, linear(f, w, mixed, "mix"), "x_mixed")  # T x C
    normed = rowwise.layer_norm(f, x, w["ln_2_gain"], w["ln_2_bias"], "ln_2")  # T x C
    return ops.add(f, x, mlp(f, w, normed), "x_next")  # T x C


def mlp(f: Builder, w: Tensors, x: Value) -> Value:
    """Two linear layers with GELU between them."""
    hidden = linear(f, w, x, "up")  # T x F
    hidden = ops.gelu(f, hidden, "gelu")  # T x F
    return linear(f, w, hidden, "down")  # T x C


def linear(f: Builder, w: Tensors, x: Value, name: str) -> Value:
    """One of the four linear layers of a block."""
    return ops.linear(f, x, w[f"{name}_weight"], w[f"{name}_bias"], name, scale=w.get(f"{name}_weight_scale"))


def predict(f: Builder, w: Tensors, x: Value) -> Value:
    """Final norm and head: logits ``T x V``."""
    x = rowwise.layer_norm(f, x, w["ln_f_gain"], w["ln_f_bias"], "ln_f")  # T x C
    if "wte_scale" not in w:
        return ops.matmul(f, x, w["wte"], "logits", transpose_b=True)  # T x V, wte is (V, C)
    product = ops.matmul(f, x, w["wte"], "logits_whole", transpose_b=True)  # T x V, wte is (V, C)
    return ops.scale_columns(f, product, w["wte_scale"], "logits")  # T x V


def split(f: Builder, qkv: Value, config: GPTConfig) -> tuple[Value, Value, Value]:
    """Queries, keys and values of whole prompts: ``(T, 3C)`` to three ``(H, T, D)``."""
    q, k, v = ops.split_qkv(f, qkv, config.heads)
    if config.rope:
        q, k = cached.rotate(f, q, None, "q_turned"), cached.rotate(f, k, None, "k_turned")
    return q, k, v


def self_attention(f: Builder, config: GPTConfig, qkv: Value) -> Value:
    """Causal self-attention without a cache: ``(T, 3C)`` to ``(T, C)``."""
    return attend_to_itself(f, *split(f, qkv, config))


def attend_to_itself(f: Builder, q: Value, k: Value, v: Value) -> Value:
    """Causal attention of three ``(H, T, D)``: ``(T, C)``."""
    mixed = rowwise.attention(f, q, k, v, "attention", causal=True)  # H x T x D
    return ops.merge_heads(f, mixed, "merged")  # T x C


def take_block(f: Builder, w: Tensors, layer: str) -> Tensors:
    """The weights of one layer: every ``(L, ...)`` to ``(...)``."""
    return {name: ops.take_layer(f, w[name], layer, f"{name}_here") for name in w if belongs_to_block(name)}


BODIES = dict(zip(FUNCTIONS, (forward, prefill, decode), strict=True))


def write_gpt(config: GPTConfig, functions: Sequence[str] = ("forward",)) -> str:
    """The MLIR module of a config, with some of `FUNCTIONS`."""
    texts = (write_function(n, arguments(config, n), partial(BODIES[n], config=config)) for n in functions)
    return write_module(*texts)


def build(name: str, parameters: dict[str, str], preset: GPTConfig) -> Payload:
    """A GPT of a preset's sizes, changed by `parameters`; see `payload.interface`.

    Raises:
        PayloadError: A parameter is unknown, a size is impossible, or the file does not hold these weights.
    """
    request = read_request(name, parameters, preset)
    config, function = request.config, request.function
    return make_payload(request, write_gpt(config, (function,)), write_graph(config, function))


def nano(parameters: dict[str, str]) -> Payload:
    """The smallest model that has everything: 2 layers, 64 wide, 32 tokens."""
    return build("nano", parameters, NANO)


def gpt2(parameters: dict[str, str]) -> Payload:
    """GPT-2 small: 12 layers, 768 wide, 128 tokens; ``gpt2,weights=model.safetensors`` for the real one."""
    return build("gpt2", parameters, GPT2)


def gpt(parameters: dict[str, str]) -> Payload:
    """Any sizes: ``gpt,d_model=72,heads=3``; what is not given is as in `nano`."""
    return build("gpt", parameters, NANO)
