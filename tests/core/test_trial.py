"""Trials: plain data that comes back equal, and times with the machine's drift divided out."""

import json

import pytest

from autotune.core.trial import OUTCOMES, Samples, Trial, trial_key

PARTS = {"payload": "p", "script": "s", "config": {"a": 1, "b": "x"}, "pipeline": "builtin.module()", "compiler": "22"}


def make(**changes):
    fields = {"samples": Samples((2.0, 4.0, 3.0), (1.0, 2.0, 1.5), 7, 0.5), "max_error": 1e-7, "diagnostic": "said"}
    return Trial("t", 3, {"a": 1, "order": "mn", "pack": True}, "ok", "k", "matmul", **(fields | changes))


@pytest.mark.parametrize(
    "trial",
    [
        make(phases={"jit": 0.1, "verify": 0.2}),
        make(samples=None, max_error=None),
        make(samples=Samples((1.0,))),
        Trial("t", 0, {}, "crashed", "k", "matmul"),
    ],
)
def test_trial_comes_back_equal_through_json(trial):
    assert Trial.from_json(json.loads(json.dumps(trial.to_json()))) == trial


def test_median_is_as_the_clock_gave_it():
    assert Samples((5.0, 1.0, 2.0)).median == 2.0


def test_time_without_a_reference_is_not_normalised():
    samples = Samples((5.0, 1.0, 2.0))
    assert samples.normalised == samples.median


def test_machine_that_runs_at_half_speed_is_divided_out():
    quiet = Samples((1.0, 1.0, 1.0), (0.5, 0.5, 0.5), quiet_reference=0.5)
    slow = Samples((2.0, 2.0, 2.0), (1.0, 1.0, 1.0), quiet_reference=0.5)
    assert quiet.normalised == slow.normalised == 1.0


def test_own_quietest_sample_stands_in_for_an_unknown_quiet_time():
    assert Samples((2.0, 2.0, 2.0, 2.0), (1.0, 2.0, 2.0, 2.0, 2.0)).normalised == 1.0


def test_burst_that_hits_one_reference_sample_changes_nothing():
    quiet = Samples((1.0, 1.0, 1.0), (0.5, 0.5, 0.5), quiet_reference=0.5)
    burst = Samples((1.0, 1.0, 1.0), (0.5, 9.0, 0.5), quiet_reference=0.5)
    assert burst.normalised == quiet.normalised


def test_trial_that_was_not_measured_has_no_seconds():
    assert make(samples=None).seconds is None
    assert make().seconds == 3.0 * 0.5 / 1.5


def test_key_does_not_depend_on_the_order_of_knobs():
    turned = dict(reversed(PARTS["config"].items()))
    assert trial_key(**PARTS) == trial_key(**(PARTS | {"config": turned}))


@pytest.mark.parametrize("part", PARTS)
def test_key_depends_on_every_part(part):
    changed = {"a": 2, "b": "x"} if part == "config" else PARTS[part] + "x"
    assert trial_key(**PARTS) != trial_key(**(PARTS | {part: changed}))


def test_key_tells_where_one_part_ends():
    assert trial_key(**(PARTS | {"payload": "ps", "script": ""})) != trial_key(**PARTS)


def test_outcomes_differ_and_ok_comes_first():
    assert OUTCOMES[0] == "ok"
    assert len(set(OUTCOMES)) == len(OUTCOMES)
