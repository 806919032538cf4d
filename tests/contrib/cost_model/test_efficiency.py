"""The gate on the tuner's own efficiency: searches of recorded spaces may not take more trials, or time, than they did.

What a search took of each space is recorded for fifty seeds (`results/samplers.py measure`). A few are run again: no
clock is read, trials take what they took when the space was recorded, and the same code takes exactly what it took.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from autotune.contrib.cost_model.model import CostModel
from autotune.contrib.spaces.rerun import Ground
from autotune.store.recording import read_recording
from autotune.tuning.samplers import search

RESULTS = Path(__file__).parents[3] / "results"
SPACES = {path.stem: path for path in sorted(RESULTS.glob("*/spaces/*.xz"))}
RECORDED = {
    name: found for path in RESULTS.glob("*/samplers.json") for name, found in json.loads(path.read_text()).items()
}
SEEDS = 6
TRIALS = 40  # as recorded
SHARE = 0.95
ROUNDED = 1.005  # seconds are recorded to the millisecond
SURE = 0.999  # of what as few seeds as these take by chance


@pytest.fixture(scope="module")
def grounds():
    return {name: Ground.of(read_recording(path)) for name, path in SPACES.items()}


def runs(ground, sampler, first):
    """Trials to 95 % of the best, and the seconds that they took when recorded, by seed; cold, or the default first."""
    wanted, default = ground.best / SHARE, ground.recording.default if first else None
    found = [ground.rerun(sampler, s, TRIALS, first=default, until=wanted) for s in range(SEEDS)]
    return {
        "trials": [run.trials_to(wanted) for run in found],
        "seconds": [run.cost_to(wanted) for run in found],
    }


def limits(recorded):
    """The most that medians, 90th percentiles and means of as few seeds are, where nothing has changed."""
    drawn = np.random.default_rng(0).choice(recorded, (4000, SEEDS))
    found = {"median": np.median(drawn, axis=1), "p90": np.quantile(drawn, 0.9, axis=1), "mean": drawn.mean(axis=1)}
    return {name: np.quantile(values, SURE, method="higher") for name, values in found.items()}


def regressions(grounds, sampler, setting):
    """What takes more trials or seconds than it may, in sentences: on a space, or on all together."""
    said, all_now, all_before = [], {"trials": [], "seconds": []}, {"trials": [], "seconds": []}
    for name, ground in grounds.items():
        for what, took in runs(ground, sampler, "default" in setting).items():
            recorded = RECORDED[name]["settings"][setting][what]
            found = {"median": np.median(took), "p90": np.quantile(took, 0.9), "mean": np.mean(took)}
            all_now[what].append(took)
            all_before[what].append(recorded)
            most = limits(recorded)
            beyond = [each for each in found if found[each] > most[each] * ROUNDED]
            said += [f"{name}: {each} {found[each]:.2f} {what}, at most {most[each]:.2f}" for each in beyond]
    rng = np.random.default_rng(1)
    for what, now in all_now.items():
        drawn = np.mean([rng.choice(each, (4000, SEEDS)) for each in all_before[what]], axis=(0, 2))
        if np.mean(now) > np.quantile(drawn, SURE):
            said.append(f"all spaces: {np.mean(now):.2f} {what}, at most {np.quantile(drawn, SURE):.2f}")
    return said


def test_every_recorded_space_has_figures():
    assert set(SPACES) == set(RECORDED) != set()
    assert len(SPACES) >= 12


@pytest.mark.parametrize("setting", ["tpe", "auto", "auto, default first"])
def test_searches_take_no_more_than_recorded(grounds, setting):
    assert regressions(grounds, setting.partition(",")[0], setting) == []


def test_gate_fails_for_a_sampler_that_knows_nothing(grounds, monkeypatch):
    monkeypatch.setitem(search.learning(), "auto", search.OWN["random"])
    assert regressions(grounds, "auto", "auto") != []


def test_gate_fails_for_a_model_that_prefers_what_it_knows_to_be_slow(grounds, monkeypatch):
    monkeypatch.setattr(CostModel, "acquisition", lambda model, *given: -acquisition(model, *given))
    some = {"decode_1x3072x768": grounds["decode_1x3072x768"]}
    assert regressions(some, "auto", "auto") != []


def test_gate_fails_for_a_model_that_does_not_believe_arithmetic(grounds, monkeypatch):
    monkeypatch.setattr("autotune.contrib.cost_model.model.DELAY", "no such feature")
    some = {name: ground for name, ground in grounds.items() if name.startswith("matmul")}
    assert regressions(some, "auto", "auto") != []


acquisition = CostModel.acquisition
