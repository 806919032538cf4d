"""Rules fire on what functions of tensors are written as, one op a body, and change no result beyond rounding."""

import numpy as np
import pytest

import autotune.tensor as T
from autotune.contrib.rules.files import rewriting_of

RNG = np.random.default_rng(0)
X, Y = (RNG.standard_normal((6, 9), dtype=np.float32) for _ in range(2))
W, V = (RNG.standard_normal((9, 5), dtype=np.float32) for _ in range(2))
WRITTEN = {
    "add_zero": (lambda x, y: T.exp(x + 0.0) * y, lambda x, y: np.exp(x) * y),
    "times_identity": (lambda x, y: T.exp(x @ T.eye(9)) * y, lambda x, y: np.exp(x) * y),
    "shifted_softmax": (lambda x, y: T.softmax(x + 3.0) * y, lambda x, y: softmax(x) * y),
    "one_matrix": (lambda x, y: x @ W + y @ W, lambda x, y: (x + y) @ W),
    "common_factor": (lambda x, y: x * y + x * T.exp(y), lambda x, y: x * (y + np.exp(y))),
}


def softmax(x):
    """Softmax of rows."""
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("rule", WRITTEN)
def test_a_rule_fires_and_the_result_stays(rule):
    function, expected = WRITTEN[rule]
    assert rewriting_of(T.payload(function, X, Y)).counts == {rule: 1}
    np.testing.assert_allclose(T.compile(function)(X, Y), expected(X, Y), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: x @ W + y @ V,  # two matrices
        lambda x, y: T.exp(x @ T.eye(9, k=1)) + y,
        lambda x, y: x @ T.astype(T.arange(9)[:, None] == T.arange(9)[None, :] + 1, T.float32) + y,
    ],
)
def test_a_rule_does_not_fire_on_what_only_looks_alike(function):
    assert rewriting_of(T.payload(function, X, Y)).counts == {}


def test_an_array_that_a_function_reads_twice_is_one_weight():
    twice = T.payload(lambda x, y: x @ W + T.exp(y @ W), X, Y)
    assert [argument.role for argument in twice.arguments].count("weight") == 1
    other = W.copy()
    other[0, 0] = -other[0, 0]
    apart = T.payload(lambda x, y: x @ W + T.exp(y @ other), X, Y)
    assert [argument.role for argument in apart.arguments].count("weight") == 2
