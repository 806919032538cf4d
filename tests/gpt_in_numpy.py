"""GPT-2 in NumPy, float64, without the dialect: what the oracle of every GPT, its ops' references, is held to."""

import numpy as np

from autotune.core.payload import DTYPES
from payload.reference import (
    attention,
    double,
    embed,
    gelu,
    layer_norm,
    linear,
    matmul,
    merge_heads,
    rotate,
    split_heads,
)
from payload.storage import SUMMED


def forward_outputs(config, *, tokens, **weights):
    """Logits ``(T, V)`` at every position of `tokens` ``(T)``.

    Args:
        config: Sizes of the model.
        tokens: Ids in ``[0, V)``.
        weights: Weights by the names in `payload.weights.declare`; layers stacked along the first dimension.
    """
    return (forward(config, tokens=tokens, **weights),)


def forward(config, *, tokens, **weights):
    """Like `forward_outputs`, the array alone."""
    x, _, _ = run_blocks(config, tokens, restore_weights(weights))
    return x


def run_blocks(config, tokens, w):
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


def prefill(config, *, tokens, length, keys, values, **weights):
    """Caches ``(L, H, P, D)`` with T rows filled, and logits ``(1, V)`` behind the last of `length` tokens."""
    logits, *filled = run_blocks(config, tokens, restore_weights(weights))
    caches = [cache.copy() for cache in (keys, values)]
    for cache, rows in zip(caches, filled, strict=True):
        cache[:, :, : len(tokens)] = rows
    return (*caches, logits[length[0] - 1 : length[0]])


def decode(config, *, tokens, position, keys, values, **weights):
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


def take_layer(w, layer):
    """The weights of one block."""
    return {name: stacked[layer] for name, stacked in w.items() if name not in ("wte", "wpe", "ln_f_gain", "ln_f_bias")}


def project(x, w):
    """Queries, keys and values of a block, beside each other: ``(T, C) -> (T, 3C)``."""
    return linear(layer_norm(x, w["ln_1_gain"], w["ln_1_bias"]), w["qkv_weight"], w["qkv_bias"])


def finish_block(x, mixed, w):
    """What follows attention in a pre-norm transformer block, ``(T, C) -> (T, C)``."""
    x = x + linear(mixed, w["mix_weight"], w["mix_bias"])
    hidden = gelu(linear(layer_norm(x, w["ln_2_gain"], w["ln_2_bias"]), w["up_weight"], w["up_bias"]))
    return x + linear(hidden, w["down_weight"], w["down_bias"])


def predict(x, w):
    """Final norm and head: ``(T, C) -> (T, V)``."""
    return matmul(layer_norm(x, w["ln_f_gain"], w["ln_f_bias"]), w["wte"], transpose_b=True)


def restore_weights(stored):
    """What stored weights stand for, without the scales; f64 where they were bf16 or int8."""
    plain = {}
    for name, array in stored.items():
        if f"{name}_scale" in stored:
            scale = np.expand_dims(stored[f"{name}_scale"].astype(np.float64), SUMMED[name])
            plain[name] = array * scale
        elif not name.endswith("_scale"):
            plain[name] = array.astype(np.float64) if array.dtype == DTYPES["bf16"] else array
    return plain
