"""Mann-Whitney's U is that of scipy: exact and not, with equal values and without."""

import numpy as np
import pytest
import scipy  # its parts are loaded when they are first used

from autotune.core.ranks import chance_of_ranks, ways_to_rank


@pytest.mark.parametrize("sizes", [(1, 1), (1, 7), (3, 8), (8, 8), (8, 40), (9, 9), (40, 5), (120, 200)])
@pytest.mark.parametrize("digits", [None, 1, 0])
@pytest.mark.parametrize("shift", [0.0, 0.4, 3.0])
def test_chance_is_that_of_scipy(sizes, digits, shift):
    a, b = (np.random.default_rng(size).normal(place, 1.0, size) for place, size in enumerate(sizes))
    a = a + 1.0 + shift
    if digits is not None:  # equal values
        a, b = a.round(digits), b.round(digits)
    wanted = scipy.stats.mannwhitneyu(a, b, alternative="two-sided").pvalue
    assert chance_of_ranks(a, b) == pytest.approx(wanted, rel=1e-9)
    assert chance_of_ranks(list(b), list(a)) == pytest.approx(wanted, rel=1e-9)


def test_values_that_are_all_equal_tell_nothing():
    assert chance_of_ranks([1.0] * 12, [1.0] * 20) == 1.0


def test_ways_are_those_of_all_orders():
    assert ways_to_rank(8, 12).sum() == 125970  # 20 over 8
    assert (ways_to_rank(3, 5) == ways_to_rank(5, 3)).all()
