"""Figures of one line: times beside a speed-up divide to it, whatever the sessions went through."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.core.stats import FEW_SPREAD, FEWEST_FOR_BOOTSTRAP, Interval
from autotune.store.manifest import parse_manifest
from autotune.store.records import ProcessTimes
from autotune.store.sessions import figures_of, speedup_of

BUNDLES = sorted((Path(__file__).parents[2] / "results").glob("*/bundles/*/manifest.json"))
SECONDS = st.floats(1e-9, 1e3)


@st.composite
def sessions(draw):
    """Up to four sessions, of up to twelve rounds each, as wild as can be."""
    found = []
    for _ in range(draw(st.integers(1, 4))):
        count = draw(st.integers(1, 12))
        each = st.lists(SECONDS, min_size=count, max_size=count).map(tuple)
        found.append(ProcessTimes(draw(each), draw(each), draw(st.just(()) | each)))
    return found


@given(sessions(), st.floats(0.0, 10.0))
@settings(deadline=None, max_examples=200)
def test_times_divide_to_the_speedup_beside_them(found, error):
    figures = figures_of(found, error)
    ratio = figures.baseline_seconds / figures.best_seconds
    assert figures.speedup.low * (1 - 1e-9) <= ratio <= figures.speedup.high * (1 + 1e-9)


def test_one_process_slower_than_the_others_does_not_part_time_and_speedup():
    lucky = ProcessTimes((7.2e-6,) * 30, (51e-6,) * 30, (1e-4,) * 30)
    noisy = ProcessTimes((25e-6,) * 30, (181e-6,) * 30, (2e-4,) * 30)
    figures = figures_of([lucky, noisy, noisy], 0.0)
    assert figures.clock_seconds == pytest.approx(25e-6)
    assert figures.drift == pytest.approx(2.0)
    assert figures.best_seconds == pytest.approx(12.5e-6)
    assert figures.baseline_seconds == pytest.approx(90.5e-6)
    assert figures.reference_seconds == 2e-4
    assert figures.speedup.estimate == pytest.approx(181 / 25)


def test_without_a_baseline_times_are_medians():
    figures = figures_of([ProcessTimes((1.0, 2.0, 3.0), (), (0.5, 0.6, 0.7))], 0.0)
    assert (figures.clock_seconds, figures.reference_seconds) == (pytest.approx(2.0), 0.6)
    assert figures.best_seconds == pytest.approx(2.0 * 0.5 / 0.6)
    assert (figures.baseline_seconds, figures.speedup) == (None, None)


def test_sessions_without_the_baseline_are_left_out_of_a_line_with_a_speedup():
    figures = figures_of([ProcessTimes((1.0,), (2.0,), ()), ProcessTimes((9.0,) * 5, (), ())], 0.0)
    assert figures.best_seconds == 1.0
    assert figures.speedup == Interval(2.0, 2.0, 2.0).widened(FEW_SPREAD)


@pytest.mark.parametrize("rounds", [1, 4, 5, 30])
@pytest.mark.parametrize("error", [0.0, 0.2])
def test_a_part_and_few_rounds_widen_the_interval_and_nothing_else(rounds, error):
    session = ProcessTimes((1.0,) * rounds, (2.0,) * rounds, (0.5,) * rounds)
    few = FEW_SPREAD if rounds < FEWEST_FOR_BOOTSTRAP else 0.0
    figures = figures_of([session], error)
    assert figures.speedup == speedup_of([session], error) == Interval(2.0, 2.0, 2.0).widened(error + few)
    assert (figures.best_seconds, figures.baseline_seconds, figures.reference_seconds) == (1.0, 2.0, 0.5)
    assert figures_of([session, session, session, session, session], error).speedup == Interval(2, 2, 2).widened(error)


@pytest.mark.parametrize("path", BUNDLES, ids=lambda path: f"{path.parts[-4][:4]}-{path.parts[-2]}")
def test_recorded_bundles_show_times_that_divide_to_their_speedup(path):
    data = parse_manifest(path.read_bytes(), str(path))
    error = data.baseline.part_error
    figures = figures_of(data.samples, error)
    if data.speedup is None:
        assert figures.baseline_seconds is None
        return
    assert speedup_of(data.samples, error).estimate == pytest.approx(data.speedup.estimate)
    assert data.speedup.low * 0.999 <= figures.baseline_seconds / figures.best_seconds <= data.speedup.high * 1.001
