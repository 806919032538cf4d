"""Verification: whatever is not what the oracle says, to the accuracy the dtype allows, does not pass."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core.errors import PayloadError
from autotune.core.payload import Argument, Payload
from autotune.core.stats import EPSILON, HALF_STEPS, tolerance
from autotune.worker.bench.verify import poison, verify

SHAPE = (7, 5)
EXPECTED = np.random.default_rng(0).uniform(-1, 1, SHAPE)


def check(got, expected=EXPECTED, *, reduction=1, dtype="f32"):
    payload = Payload("p", "", "f", (Argument("y", "output", np.shape(expected), dtype),), reduction=reduction)
    return verify(payload, [np.asarray(got)], [expected])


def rounded():
    return EXPECTED.astype(np.float32)


def test_oracle_rounded_to_the_dtype_passes():
    verdict = check(rounded())
    assert (verdict.outcome, verdict.diagnostic) == ("ok", "")
    assert 0 < verdict.max_error < 1e-7


@given(st.tuples(st.integers(0, 6), st.integers(0, 4)), st.sampled_from([np.nan, np.inf, -np.inf]))
def test_element_that_is_not_finite_never_passes(where, value):
    got = rounded()
    got[where] = value
    verdict = check(got, reduction=10**9)
    assert verdict.outcome == "non-finite"
    assert f"y{list(where)} is {value}, should be" in verdict.diagnostic
    assert verdict.max_error == np.inf


def test_nan_never_passes_beside_an_infinite_element_of_the_oracle():
    expected = EXPECTED.copy()
    expected[0, 0] = np.inf
    got = rounded()
    got[-1, -1] = np.nan
    assert check(got, expected).outcome != "ok"


def test_wrong_element_never_passes_beside_an_infinite_element_of_the_oracle():
    expected = EXPECTED.copy()
    expected[0, 0] = np.inf
    got = rounded()
    got[-1, -1] += 100
    assert check(got, expected).outcome != "ok"


def test_nan_never_passes_where_the_oracle_is_nan():
    expected = EXPECTED.copy()
    expected[2, 2] = np.nan
    assert check(expected.astype(np.float32), expected).outcome != "ok"


@pytest.mark.parametrize("dtype", ["f32", "f64", "i32", "i64"])
def test_poisoned_output_never_passes(dtype):
    got = np.zeros(SHAPE, {"f": "float", "i": "int"}[dtype[0]] + dtype[1:])
    poison(got)
    assert check(got, np.zeros(SHAPE), dtype=dtype, reduction=10**6).outcome != "ok"


@pytest.mark.parametrize("dtype", ["f32", "i32"])
def test_one_element_left_poisoned_never_passes(dtype):
    expected = np.arange(35.0).reshape(SHAPE)
    got = expected.astype("float32" if dtype == "f32" else "int32")
    poison(got[-1:, -1:])
    assert check(got, expected, dtype=dtype).outcome != "ok"


@pytest.mark.parametrize("where", [(0, 0), (6, 0), (6, 4)])
def test_one_wrong_element_is_caught_wherever_it_is(where):
    got = rounded()
    got[where] += 1e-3
    verdict = check(got)
    assert verdict.outcome == "wrong-result"
    assert verdict.max_error == pytest.approx(1e-3, rel=1e-3)
    assert f"y{list(where)} is" in verdict.diagnostic
    assert "1 of 35 elements" in verdict.diagnostic


def test_whole_number_off_by_one_is_caught():
    expected = np.full(SHAPE, 1000)
    got = expected.astype(np.int32)
    got[3, 3] += 1
    assert check(expected.astype(np.int32), expected, dtype="i32").outcome == "ok"
    assert check(got, expected, dtype="i32").outcome == "wrong-result"


@pytest.mark.parametrize(("dtype", "reduction"), [("f32", 1), ("f32", 512), ("f64", 1), ("f64", 512)])
def test_tolerance_comes_from_dtype_and_reduction(dtype, reduction):
    allowed = tolerance(dtype, reduction, float(np.abs(EXPECTED).max()))
    for factor, outcome in ((0.9, "ok"), (1.1, "wrong-result")):
        got = EXPECTED.astype("float32" if dtype == "f32" else "float64")
        expected = got.astype(np.float64)
        expected[1, 1] += np.copysign(factor * allowed, -expected[1, 1])  # leaves the largest value as it is
        assert check(got, expected, dtype=dtype, reduction=reduction).outcome == outcome


def test_longer_sums_and_coarser_types_may_be_further_off():
    assert tolerance("f32", 4096, 1.0) > tolerance("f32", 1, 1.0) > tolerance("f64", 4096, 1.0)


def test_output_of_another_shape_never_passes():
    assert check(np.zeros((5, 7), np.float32)).outcome == "wrong-result"


def test_second_output_is_checked_too():
    outputs = (Argument("y", "output", SHAPE), Argument("z", "output", SHAPE))
    payload = Payload("p", "", "f", outputs)
    assert verify(payload, [rounded(), rounded()], [EXPECTED, EXPECTED]).outcome == "ok"
    verdict = verify(payload, [rounded(), -rounded()], [EXPECTED, EXPECTED])
    assert verdict.outcome == "wrong-result"
    assert verdict.diagnostic.startswith("z[")


def test_missing_output_is_refused():
    payload = Payload("p", "", "f", (Argument("y", "output", SHAPE), Argument("z", "output", SHAPE)))
    with pytest.raises(PayloadError, match="an array each of y, z, in a list; got 1 and 1"):
        verify(payload, [rounded()], [EXPECTED])


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_a_lost_product_of_hundreds_does_not_hide_in_the_rounding_of_halves(dtype):
    assert tolerance(dtype, 4096, 1.0) < 1.01 * HALF_STEPS * EPSILON[dtype]
