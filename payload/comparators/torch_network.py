"""Payloads in terms of torch.nn.functional, which every function here is given as `f`, as emitters are given a builder.

`w` are the weights by name; those of linear layers are stored (out, in), as torch.nn.Linear does.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from autotune.core.payload import Array, Payload
from payload.config import GPTConfig, config_of
from payload.reference import LAYER_NORM_EPSILON

Tensor = Any  # torch is an extra
Functional = Any
Sizes = Mapping[str, int]
Weights = Mapping[str, Tensor]
STORED_TURNED = ("qkv_weight", "mix_weight", "up_weight", "down_weight")
WHOLE = ("wte", "wpe", "ln_f_gain", "ln_f_bias")


def constants(payload: Payload, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The weights by the names that the functions below use: those of a GPT one by one, ``qkv_weight_0`` and so on."""
    found: dict[str, Array] = {}
    for argument in payload.arguments:
        name = argument.name
        if argument.role != "weight":
            continue
        if not payload.kind.startswith("gpt") or name in WHOLE:
            found[name] = inputs[name]
            continue
        for layer, array in enumerate(inputs[name]):
            found[f"{name}_{layer}"] = np.ascontiguousarray(array.T if name in STORED_TURNED else array)
    return found


def matmul(f: Functional, sizes: Sizes, w: Weights, a: Tensor, b: Tensor = None) -> Tensor:
    """``(..., M, K) x (..., K, N)``, or with B transposed."""
    del f
    b = w["b"] if b is None else b
    return a @ (b.mT if sizes["transpose_b"] else b)


def attention(f: Functional, sizes: Sizes, w: Weights, *qkv: Tensor) -> Tensor:
    """Attention of every head: three ``(H, T, D) -> (H, T, D)``."""
    del w
    q, k, v = (x[None] for x in qkv)
    return f.scaled_dot_product_attention(q, k, v, is_causal=bool(sizes["causal"]))[0]


def layer_norm(f: Functional, sizes: Sizes, w: Weights, x: Tensor) -> Tensor:
    """Layer norm of every row."""
    return f.layer_norm(x, (sizes["cols"],), w["gain"], w["bias"], LAYER_NORM_EPSILON)


def softmax(f: Functional, sizes: Sizes, w: Weights, x: Tensor) -> Tensor:
    """Softmax of every row."""
    del sizes, w
    return f.softmax(x, dim=-1)


def gelu(f: Functional, sizes: Sizes, w: Weights, x: Tensor) -> Tensor:
    """GELU, tanh form."""
    del sizes, w
    return f.gelu(x, approximate="tanh")


def embedding(f: Functional, sizes: Sizes, w: Weights, ids: Tensor) -> Tensor:
    """Rows of a table at ids."""
    del sizes
    return f.embedding(ids, w["table"])


def gpt(f: Functional, sizes: Sizes, w: Weights, tokens: Tensor) -> Tensor:
    """Logits ``(T, V)`` of a GPT."""
    config = config_of(sizes)
    x = f.embedding(tokens, w["wte"]) + w["wpe"][: config.seq]  # T x C
    for layer in range(config.layers):
        x = block(f, config, w, layer, x)
    return predict(f, config, w, x)  # T x V


def prefill(f: Functional, sizes: Sizes, w: Weights, *fed: Tensor) -> Tensor:
    """Logits ``(1, V)`` behind a prompt; caches ``(L, H, P, D)`` are filled in place. Its length is a constant."""
    tokens, _, keys, values = fed
    config, length = config_of({name: size for name, size in sizes.items() if name != "length"}), sizes["length"]
    x = f.embedding(tokens, w["wte"]) + w["wpe"][: config.seq]  # T x C
    for layer in range(config.layers):

        def mix(q: Tensor, k: Tensor, v: Tensor, layer: int = layer) -> Tensor:
            for cache, rows in ((keys, k), (values, v)):
                cache[layer, :, : config.seq] = rows[0]
            return f.scaled_dot_product_attention(q, k, v, is_causal=True)  # 1 x H x T x D

        x = block(f, config, w, layer, x, mix=mix)
    return predict(f, config, w, x[length - 1 : length])  # 1 x V


def predict(f: Functional, config: GPTConfig, w: Weights, x: Tensor) -> Tensor:
    """Final norm and head, ``(T, C) -> (T, V)``."""
    return f.linear(f.layer_norm(x, (config.d_model,), w["ln_f_gain"], w["ln_f_bias"], LAYER_NORM_EPSILON), w["wte"])


def decode(f: Functional, sizes: Sizes, w: Weights, *fed: Tensor) -> Tensor:
    """Logits ``(B, V)`` behind one token, with caches ``(L, BH, P, D)`` that are updated in place.

    The position is a constant: the network is one for this position alone, which is no disadvantage.
    """
    tokens, _, keys, values = fed
    config, here = config_of({name: size for name, size in sizes.items() if name != "position"}), sizes["position"]
    x = f.embedding(tokens, w["wte"]) + w["wpe"][here]  # B x C
    for layer in range(config.layers):

        def mix(q: Tensor, k: Tensor, v: Tensor, layer: int = layer) -> Tensor:
            past = []
            for cache, row in ((keys, k), (values, v)):
                whole = cache[layer].view(config.batch, config.heads, config.positions, config.depth)
                whole[:, :, here : here + 1] = row.transpose(0, 2)
                past.append(whole[:, :, : here + 1])  # B x H x p+1 x D
            return f.scaled_dot_product_attention(q.transpose(0, 2), *past)  # B x H x 1 x D, from 1 x H x B x D

        x = block(f, config, w, layer, x, mix=mix)
    return predict(f, config, w, x)  # B x V


def block(
    f: Functional, config: GPTConfig, w: Weights, layer: int, x: Tensor, *, mix: Callable[..., Tensor] | None = None
) -> Tensor:
    """One pre-norm transformer block, ``(T, C) -> (T, C)``; causal attention, or what `mix` makes of q, k and v."""
    rows, width, heads = len(x), config.d_model, config.heads

    def norm(name: str, x: Tensor) -> Tensor:
        return f.layer_norm(x, (width,), w[f"{name}_gain_{layer}"], w[f"{name}_bias_{layer}"], LAYER_NORM_EPSILON)

    def linear(name: str, x: Tensor) -> Tensor:
        return f.linear(x, w[f"{name}_weight_{layer}"], w[f"{name}_bias_{layer}"])

    qkv = linear("qkv", norm("ln_1", x)).view(1, rows, 3, heads, width // heads)
    q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)  # 3 of 1 x H x T x D
    mixed = mix(q, k, v) if mix else f.scaled_dot_product_attention(q, k, v, is_causal=True)  # 1 x H x T x D
    x = x + linear("mix", mixed.transpose(1, 2).reshape(rows, width))
    return x + linear("down", f.gelu(linear("up", norm("ln_2", x)), approximate="tanh"))


KERNELS: dict[str, Callable[..., Tensor]] = {
    "matmul": matmul,
    "batch_matmul": matmul,
    "attention": attention,
    "layer_norm": layer_norm,
    "softmax": softmax,
    "gelu": gelu,
    "embedding": embedding,
    "gpt": gpt,
    "gpt-prefill": prefill,
    "gpt-decode": decode,
}
