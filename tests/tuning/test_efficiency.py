"""The gate on the tuner's own efficiency: searches of recorded spaces may not take more trials than they did.

What a search took of each space is recorded for twenty seeds (`results/samplers.py measure`). A few are run again: no
clock is read, and the same code takes exactly what it took.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from autotune.store.recording import read_recording
from autotune.tuning import search
from autotune.tuning.rerun import Ground
from autotune.tuning.sampler import Uniform

RESULTS = Path(__file__).parents[2] / "results"
SPACES = {path.stem: path for path in sorted(RESULTS.glob("*/spaces/*.xz"))}
RECORDED = {path.stem: json.loads(path.read_text()) for path in sorted(RESULTS.glob("*/samplers/*.json"))}
SEEDS = 6
TRIALS = 40  # as recorded
SHARE = 0.95
SURE = 0.999  # of what as few seeds as these take by chance


@pytest.fixture(scope="module")
def grounds():
    return {name: Ground.of(read_recording(path)) for name, path in SPACES.items()}


def trials(ground, sampler):
    """Trials to 95 % of the best from the default config, by seed."""
    wanted, first = ground.best / SHARE, ground.recording.default
    return [ground.rerun(sampler, s, TRIALS, first=first, until=wanted).trials_to(wanted) for s in range(SEEDS)]


def limits(recorded):
    """The most that medians, 90th percentiles and means of as few seeds are, where nothing has changed."""
    drawn = np.random.default_rng(0).choice(recorded, (4000, SEEDS))
    found = {"median": np.median(drawn, axis=1), "p90": np.quantile(drawn, 0.9, axis=1), "mean": drawn.mean(axis=1)}
    return {name: np.quantile(values, SURE, method="higher") for name, values in found.items()}


def regressions(grounds, sampler, setting):
    """What takes more trials than it may, in sentences: on a space, or on all together."""
    said, now, before = [], [], []
    for name, ground in grounds.items():
        recorded = RECORDED[name]["settings"][setting]["trials"]
        took = trials(ground, sampler)
        found = {"median": np.median(took), "p90": np.quantile(took, 0.9), "mean": np.mean(took)}
        now.append(took)
        before.append(recorded)
        most = limits(recorded)
        beyond = [each for each in found if found[each] > most[each]]
        said += [f"{name}: {each} {found[each]:.1f} trials, at most {most[each]:.1f}" for each in beyond]
    rng = np.random.default_rng(1)
    drawn = np.mean([rng.choice(each, (4000, SEEDS)) for each in before], axis=(0, 2))
    if np.mean(now) > np.quantile(drawn, SURE):
        said.append(f"all spaces: {np.mean(now):.1f} trials, at most {np.quantile(drawn, SURE):.1f}")
    return said


def test_every_recorded_space_has_figures():
    assert set(SPACES) == set(RECORDED) != set()
    assert len(SPACES) >= 12


@pytest.mark.parametrize("sampler", ["tpe", "model"])
def test_searches_take_no_more_trials_than_recorded(grounds, sampler):
    assert regressions(grounds, sampler, f"{sampler}, default first") == []


def test_gate_fails_for_a_sampler_that_knows_nothing(grounds, monkeypatch):
    monkeypatch.setitem(search.LEARNING, "model", lambda terrain, seed: Uniform(terrain.counts, seed))
    assert regressions(grounds, "model", "model, default first") != []


def test_gate_fails_for_a_model_that_prefers_what_it_knows_to_be_slow(grounds, monkeypatch):
    monkeypatch.setattr("autotune.tuning.model.CostModel.promise", lambda model, drafts: -promise(model, drafts))
    some = {name: grounds[name] for name in list(grounds)[:3]}
    assert regressions(some, "model", "model, default first") != []


promise = search.CostModel.promise
