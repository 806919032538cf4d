"""A GPT's block and the whole of nano, written with tensors, against the reference of the payload."""

import gpt_in_numpy
import numpy as np
import pytest
from tensor_support import agree

import autotune as at
import autotune.tensor as T
from payload import reference
from payload.config import NANO
from payload.weights import random_weights


def attention(x, w, heads):
    """Causal self-attention: (T, C) to (T, C)."""
    qkv = (x @ w["qkv_weight"] + w["qkv_bias"]).reshape(len(x), 3, heads, -1)
    q, k, v = (T.permute_dims(qkv[:, i], (1, 0, 2)) for i in range(3))
    scores = q @ k.mT / q.shape[-1] ** 0.5
    seen = T.tril(T.ones(scores.shape[-2:], dtype=T.bool))
    mixed = T.softmax(T.where(seen, scores, -1e30)) @ v
    return T.permute_dims(mixed, (1, 0, 2)).reshape(x.shape) @ w["mix_weight"] + w["mix_bias"]


def block(x, w, heads):
    """A transformer block: (T, C) to (T, C)."""
    x = x + attention(T.layer_norm(x, w["ln_1_gain"], w["ln_1_bias"]), w, heads)
    hidden = T.gelu(T.layer_norm(x, w["ln_2_gain"], w["ln_2_bias"]) @ w["up_weight"] + w["up_bias"])
    return x + hidden @ w["down_weight"] + w["down_bias"]


def nano(tokens, w):
    """Logits of nano: (T,) to (T, V)."""
    x = T.take(w["wte"], tokens, axis=0) + w["wpe"][: len(tokens)]
    for layer in range(NANO.layers):
        x = block(x, gpt_in_numpy.take_layer(w, layer), NANO.heads)
    return T.layer_norm(x, w["ln_f_gain"], w["ln_f_bias"]) @ w["wte"].T


@pytest.fixture(scope="module")
def weights():
    return random_weights(NANO, 0)


def test_block_equals_the_reference(weights):
    mine = gpt_in_numpy.take_layer(weights, 0)
    x = np.random.default_rng(1).standard_normal((NANO.seq, NANO.d_model), dtype=np.float32)
    w = {name: T.asarray(array) for name, array in mine.items()}
    q, k, v = (reference.split_heads(p, NANO.heads) for p in np.split(gpt_in_numpy.project(x, mine), 3, axis=1))
    mixed = reference.merge_heads(reference.attention(q, k, v, causal=True))
    expected = gpt_in_numpy.finish_block(x.astype(np.float64), mixed, mine)
    agree(T.compile(lambda x: block(x, w, NANO.heads))(x), expected.astype(np.float32), NANO.d_ff)


def test_nano_equals_the_reference_and_falls_into_the_same_kinds_of_tasks(weights):
    tokens = np.arange(NANO.seq, dtype=np.int32) * 7 % NANO.vocab
    w = {name: T.asarray(array) for name, array in weights.items()}
    found = T.compile(nano)
    expected = gpt_in_numpy.forward(NANO, tokens=tokens, **weights)
    agree(T.compile(lambda tokens: nano(tokens, w))(tokens), expected.astype(np.float32), NANO.d_ff)
    assert found.__name__ == "nano"
    kinds = {task.tag.partition("_")[0] for task in at.tasks(T.payload(lambda tokens: nano(tokens, w), tokens))}
    theirs = {task.tag.partition("_")[0] for task in at.tasks(at.payload("nano"))}
    assert {"attention", "gather", "matmul", "rows"} <= kinds & theirs
