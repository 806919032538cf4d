"""What numbers look like to people."""

import pytest

from autotune.reports.format import duration


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(None, "-"), (1.23456e-3, "1.23 ms"), (999.8e-6, "1000 us"), (1e-3, "1 ms"), (4321.0, "4321 s"), (5e-9, "5 ns")],
)
def test_duration_has_three_digits_and_never_an_exponent(seconds, shown):
    assert duration(seconds) == shown
