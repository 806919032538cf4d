"""Laws of the statistics, on numbers whose answer is known."""

import math
import warnings

import numpy as np
import pytest
import scipy  # its parts are loaded when they are first used
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.core.errors import PayloadError
from autotune.core.stats import (
    FEWEST_FOR_BOOTSTRAP,
    PERMUTATIONS,
    QUIET,
    RESAMPLES,
    Interval,
    chance_of_quartiles,
    is_different,
    noise_floor,
    quartile_gap,
    quiet_time,
    ratio_interval,
    relative_difference,
    tolerance,
)

times = st.floats(min_value=1e-7, max_value=1e3, allow_nan=False)
pairs = st.lists(st.tuples(times, times), min_size=1, max_size=9)


def noisy(median: float, seed: int, n: int = 20, spread: float = 0.01) -> list[float]:
    return list(median * (1 + np.random.default_rng(seed).exponential(spread, n)))


def sequential_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    total = np.zeros((a.shape[0], b.shape[1]), a.dtype)
    for k in range(a.shape[1]):
        total += np.outer(a[:, k], b[k])
    return total


@given(st.lists(times, min_size=1, max_size=200))
def test_quiet_time_is_the_quantile_of_numpy_to_the_last_bit(samples):
    assert quiet_time(samples) == np.quantile(samples, QUIET)
    assert quiet_time(np.array(samples)) == quiet_time(tuple(samples))


@pytest.mark.parametrize("bad", [[], [0.0], [1.0, -1.0], [1.0, math.nan, 2.0], [math.inf, 1.0]])
def test_quiet_time_of_what_is_no_time_is_refused(bad):
    with pytest.raises(ValueError, match="times must be positive numbers of seconds"):
        quiet_time(bad)


@settings(max_examples=60, deadline=None)
@given(pairs, st.booleans())
def test_interval_holds_its_estimate_and_is_never_nan(samples, paired):
    result = ratio_interval([a for a, _ in samples], [b for _, b in samples], paired=paired)
    assert result.low <= result.estimate <= result.high
    assert all(math.isfinite(value) and value > 0 for value in result.to_json().values())


@settings(max_examples=60, deadline=None)
@given(st.floats(0.1, 10), st.integers(1, 12), st.booleans())
def test_constant_samples_give_a_degenerate_interval(ratio, n, paired):
    result = ratio_interval([ratio] * n, [1.0] * n, paired=paired)
    assert (result.low, result.high) == pytest.approx((ratio, ratio))


def test_one_pair_gives_a_degenerate_interval():
    assert ratio_interval([3.0], [2.0]) == Interval(1.5, 1.5, 1.5)


def test_few_pairs_give_their_range():
    assert ratio_interval([2.0, 3.0, 4.0], [1.0, 1.0, 1.0]) == Interval(2.0, 3.0, 4.0)


def test_true_ratio_lies_in_a_narrow_interval():
    result = ratio_interval(noisy(2.0, 1, 40), noisy(1.0, 2, 40))
    assert result.low < 2.0 < result.high
    assert result.high - result.low < 0.05


def test_drift_common_to_a_pair_cancels():
    drift = np.linspace(1.0, 2.0, 30)
    result = ratio_interval(list(3.0 * drift), list(2.0 * drift))
    assert (result.low, result.high) == pytest.approx((1.5, 1.5))


def test_equal_seeds_give_equal_intervals():
    a, b = noisy(2.0, 1), noisy(1.0, 2)
    assert ratio_interval(a, b, seed=7) == ratio_interval(a, b, seed=7)


def test_unpaired_samples_may_differ_in_number():
    result = ratio_interval(noisy(2.0, 1, 12), noisy(1.0, 2, 30), paired=False)
    assert result.low <= result.estimate <= result.high
    assert result.estimate == pytest.approx(2.0, rel=0.02)


@pytest.mark.parametrize("bad", [[], [0.0], [-1.0], [math.nan], [math.inf], [5e-324], [1e300]])
def test_times_that_are_not_times_are_refused_without_a_warning(bad):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for pair in ((bad, [1.0]), ([1.0], bad)):
            with pytest.raises(ValueError, match="positive numbers of seconds"):
                ratio_interval(*pair)
        with pytest.raises(ValueError, match="positive numbers of seconds"):
            quiet_time(bad)


def test_paired_samples_of_unequal_number_are_refused():
    with pytest.raises(ValueError, match="equally many"):
        ratio_interval([1.0, 2.0], [1.0])


@pytest.mark.parametrize("n", [20, 21])
def test_difference_above_the_floor_is_seen_paired_and_unpaired(n):
    assert is_different(noisy(1.0, 1), noisy(1.1, 2, n), floor=0.02)


@pytest.mark.parametrize("n", [20, 21])
def test_difference_below_the_floor_is_a_tie_however_significant(n):
    assert not is_different([1.0] * 20, [1.01] * n, floor=0.02)


def test_same_program_is_rarely_called_different():
    calls = [is_different(noisy(1.0, s, spread=0.1), noisy(1.0, s + 1000, spread=0.1), floor=0.02) for s in range(200)]
    assert sum(calls) <= 6


def test_identical_samples_are_a_tie():
    assert not is_different([1.0] * 10, [1.0] * 10, floor=0.0)


def test_difference_does_not_depend_on_the_order_of_arguments():
    a, b = noisy(1.0, 1), noisy(1.1, 2)
    assert relative_difference(a, b) == relative_difference(b, a)
    assert is_different(a, b, floor=0.02) == is_different(b, a, floor=0.02)


def test_noise_floor_is_high_in_the_range_of_differences():
    assert noise_floor([([1.0], [1.0 + i / 1000]) for i in range(101)]) == pytest.approx(0.095)


def test_noise_floor_needs_a_pair():
    with pytest.raises(ValueError, match="at least one"):
        noise_floor([])


@pytest.mark.parametrize("low", [-1.0, 0.0])
@pytest.mark.parametrize("n", [1, 16, 512, 2048])
def test_plain_loop_is_within_the_tolerance_with_room(low, n):
    rng = np.random.default_rng(n)
    a, b = (rng.uniform(low, 1.0, shape).astype(np.float32) for shape in ((48, n), (n, 48)))
    oracle = a.astype(np.float64) @ b.astype(np.float64)
    error = np.abs(sequential_product(a, b) - oracle).max()
    assert 2 * error < tolerance("f32", n, np.abs(oracle).max())


@pytest.mark.parametrize("low", [-1.0, 0.0])
@pytest.mark.parametrize("n", [2, 16, 512, 2048])
def test_dropping_one_product_is_beyond_the_tolerance(low, n):
    rng = np.random.default_rng(n)
    a, b = (rng.uniform(low, 1.0, shape).astype(np.float32) for shape in ((48, n), (n, 48)))
    oracle = a.astype(np.float64) @ b.astype(np.float64)
    errors = np.abs(sequential_product(a[:, 1:], b[1:]) - oracle)
    assert np.median(errors) > 10 * tolerance("f32", n, np.abs(oracle).max())


def test_integers_must_be_exact():
    assert tolerance("i32", 512, 1e6) == tolerance("i64", 512, 0.0) == 0.0


def test_tolerance_grows_with_length_and_magnitude_and_never_vanishes():
    assert tolerance("f32", 1024, 1.0) > tolerance("f32", 512, 1.0) > tolerance("f64", 512, 1.0) > 0
    assert tolerance("f32", 8, 2.0) == 2 * tolerance("f32", 8, 1.0)
    assert tolerance("f32", 8, 0.0) > 0


def test_unknown_element_type_is_refused_by_name():
    with pytest.raises(PayloadError, match="one of f32, f64, i32, i64, f16, bf16, i8; got 'f8'"):
        tolerance("f8", 1, 1.0)


@pytest.mark.parametrize("count", [2, 5, 10, 11, 60])
@pytest.mark.parametrize("slower", [1.0, 1.05, 1.3])
def test_chance_and_interval_are_those_of_scipy(count, slower):
    rng = np.random.default_rng(count)
    a, b = rng.lognormal(0.0, 0.1, count), rng.lognormal(math.log(slower), 0.1, count)
    wanted = scipy.stats.permutation_test(
        tuple(np.log([a, b])),
        quartile_gap,
        permutation_type="samples",
        vectorized=False,
        n_resamples=PERMUTATIONS,
        rng=1,
    )
    assert chance_of_quartiles(a, b) == pytest.approx(wanted.pvalue, abs=1e-9 if 2**count <= PERMUTATIONS else 0.08)
    if count >= FEWEST_FOR_BOOTSTRAP:
        resampled = scipy.stats.bootstrap(
            (b / a,), np.median, n_resamples=RESAMPLES, method="percentile", rng=np.random.default_rng(7)
        ).confidence_interval
        found = ratio_interval(b, a, seed=7)
        assert (found.low, found.high) == pytest.approx(resampled, rel=1e-12)
