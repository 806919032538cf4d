"""Laws of the oracle itself, so that it need not be taken on trust."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from payload import reference

few_examples = settings(max_examples=40, deadline=None)

numbers = st.floats(-50, 50, width=32)
matrices = arrays(np.float32, array_shapes(min_dims=2, max_dims=2, max_side=8), elements=numbers)
triples = array_shapes(min_dims=3, max_dims=3, max_side=6).flatmap(
    lambda shape: st.tuples(*(arrays(np.float32, shape, elements=numbers) for _ in range(3)))
)


@few_examples
@given(matrices)
def test_softmax_rows_are_probabilities(x):
    p = reference.softmax(x)
    assert np.all(p >= 0)
    np.testing.assert_allclose(p.sum(axis=-1), 1)


@few_examples
@given(matrices, st.floats(-1e4, 1e4))
def test_softmax_ignores_a_shift_of_the_row(x, shift):
    np.testing.assert_allclose(reference.softmax(x.astype(np.float64) + shift), reference.softmax(x), atol=1e-9)


@few_examples
@given(matrices)
def test_layer_norm_gives_zero_mean_and_at_most_unit_variance(x):
    y = reference.layer_norm(x, np.ones(x.shape[1]), np.zeros(x.shape[1]))
    np.testing.assert_allclose(y.mean(axis=-1), 0, atol=1e-9)
    assert np.all(y.var(axis=-1) <= 1 + 1e-9)
    spread = x.astype(np.float64).var(axis=-1)
    np.testing.assert_allclose(y.var(axis=-1), spread / (spread + 1e-5), atol=1e-9)


@few_examples
@given(matrices)
def test_layer_norm_gain_and_bias_are_affine_per_column(x):
    gain, bias = np.arange(x.shape[1]), np.linspace(-1, 1, x.shape[1])
    plain = reference.layer_norm(x, np.ones(x.shape[1]), np.zeros(x.shape[1]))
    np.testing.assert_allclose(reference.layer_norm(x, gain, bias), plain * gain + bias)


@few_examples
@given(matrices)
def test_gelu_is_between_zero_and_the_identity(x):
    y = reference.gelu(x)
    assert np.all(y <= np.maximum(x, 0) + 1e-12)
    assert np.all(y >= np.minimum(x, 0) - 1e-12)
    np.testing.assert_allclose(y - reference.gelu(-x), x, atol=1e-9)


@few_examples
@given(st.floats(-6, 6))
def test_gelu_is_near_the_normal_distribution_form(x):
    exact = 0.5 * x * (1 + math.erf(x / math.sqrt(2)))
    assert reference.gelu(np.array([x]))[0] == pytest.approx(exact, abs=1e-3)


@few_examples
@given(triples, st.booleans())
def test_attention_stays_within_the_values_it_mixes(qkv, causal):
    q, k, v = (array.astype(np.float64) for array in qkv)
    out = reference.attention(q, k, v, causal=causal)
    assert np.all(out <= v.max(axis=1, keepdims=True) + np.float64(1e-6))
    assert np.all(out >= v.min(axis=1, keepdims=True) - np.float64(1e-6))


@few_examples
@given(triples)
def test_causal_attention_of_the_first_token_is_its_value(qkv):
    q, k, v = qkv
    np.testing.assert_allclose(reference.attention(q, k, v, causal=True)[:, 0], v[:, 0])


@few_examples
@given(triples)
def test_causal_attention_of_the_last_token_sees_everything(qkv):
    q, k, v = qkv
    causal, full = (reference.attention(q, k, v, causal=causal) for causal in (True, False))
    np.testing.assert_allclose(causal[:, -1], full[:, -1])


@few_examples
@given(triples)
def test_attention_ignores_the_order_of_keys(qkv):
    q, k, v = qkv
    np.testing.assert_allclose(reference.attention(q, k, v), reference.attention(q, k[:, ::-1], v[:, ::-1]), atol=1e-9)


@few_examples
@given(st.integers(1, 5), st.integers(1, 4), st.integers(1, 4))
def test_merge_heads_undoes_split_heads(rows, heads, depth):
    x = np.arange(rows * heads * depth, dtype=np.float32).reshape(rows, heads * depth)
    split = reference.split_heads(x, heads)
    assert split.shape == (heads, rows, depth)
    np.testing.assert_array_equal(split[0], x[:, :depth])
    np.testing.assert_array_equal(reference.merge_heads(split), x)
