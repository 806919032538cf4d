"""Numbers for people keep their unit and their interval."""

import doctest

import pytest

from autotune.core.stats import Interval
from autotune.reports import format as numbers


def test_examples_in_the_docstrings_hold():
    assert doctest.testmod(numbers).failed == 0


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (2.0, "2 s"),
        (1e-3, "1 ms"),
        (9.996e-7, "1000 ns"),
        (999.8e-6, "1000 us"),
        (4321.0, "4321 s"),
        (5e-9, "5 ns"),
        (None, "-"),
    ],
)
def test_a_time_has_the_unit_that_suits_it(seconds, shown):
    assert numbers.duration(seconds) == shown


def test_an_interval_is_in_the_unit_of_its_estimate():
    assert numbers.time_span(Interval(9.9e-4, 1.01e-3, 1.2e-3)) == "1.01 ms [0.99, 1.2]"


def test_what_is_not_known_is_a_dash():
    assert [numbers.factor(None), numbers.times(None), numbers.percent(None)] == ["-"] * 3
