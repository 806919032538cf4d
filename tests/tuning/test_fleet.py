"""The simulation of a cluster obeys what is known beforehand: sums, bounds, and which part is the busiest."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("simpy", reason="needs the extra results")
sys.path.append(str(Path(__file__).parents[2] / "results"))

from fleet import Fleet, Parts

NOTHING = Parts(own=0.0, beside={0: 0.0, 1: 0.0}, record=0.0, submit=0.0, carry=0.0, way=0.0)


def test_one_slot_takes_the_sum_of_its_trials():
    run = Fleet(1, [0.5, 0.25, 1.0], NOTHING, 1).run()
    assert run.seconds == pytest.approx(1.75)
    assert run.shares["slots"] == pytest.approx(1)
    assert run.busiest == "slots"


@pytest.mark.parametrize("slots", [2, 7, 100])
def test_equal_trials_are_shared_out_evenly(slots):
    assert Fleet(slots, [0.5] * 5 * slots, NOTHING, 1).run().seconds == pytest.approx(2.5)


@pytest.mark.parametrize(
    ("parts", "busiest"),
    [
        (Parts(0.1, {0: 0.0, 1: 0.0}, 0.0, 0.0, 0.0, 0.0), "search"),
        (Parts(0.0, {0: 0.0, 1: 0.0}, 0.1, 0.0, 0.0, 0.0), "database"),
        (Parts(0.0, {0: 0.0, 1: 0.0}, 0.0, 0.0, 0.1, 0.0), "scheduler"),
    ],
)
def test_what_takes_a_tenth_of_a_trial_is_full_with_ten_slots(parts, busiest):
    few, many = Fleet(2, [1.0] * 400, parts, 1).run(), Fleet(100, [1.0] * 400, parts, 1).run()
    assert few.busiest == "slots"
    assert many.busiest == busiest
    assert 39.9 <= many.seconds <= 42
    assert many.shares["slots"] == pytest.approx(0.1, rel=0.05)


def test_asking_beside_more_than_was_measured_goes_on_as_it_did():
    parts = Parts(0.0, {0: 0.0, 1: 1.0, 3: 2.0}, 0.0, 0.0, 0.0, 0.0)
    assert [parts.asking(number) for number in (0, 0.5, 2, 3, 5)] == pytest.approx([0, 0.5, 1.5, 2, 3])
