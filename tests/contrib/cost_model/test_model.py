"""The learned cost model: what its process says of what it has seen and what not, what transfer are worth."""

import math

import numpy as np

from autotune.contrib.cost_model.gaussian_process import GaussianProcess
from autotune.core.space import Knob, Space
from autotune.tuning.samplers.features import knob_features
from autotune.tuning.samplers.sampler import PriorTrial
from autotune.tuning.samplers.search import Search

SPACE = Space(tuple(Knob(name, tuple(2**power for power in range(8))) for name in "abcd"))
FIRST = {"a": 1, "b": 1, "c": 1, "d": 1}


def seconds(config):
    return 1e-3 * (1 + sum(abs(math.log2(value) - 5) for value in config.values()))


def trials_to(wanted, seed, most=60, **known):
    search = Search(SPACE, FIRST, sampler="model", seed=seed, **known)
    for trial in range(1, most + 1):
        config = search.ask()
        search.tell(config, seconds(config))
        if seconds(config) <= wanted:
            return trial
    return most + 1


def test_process_says_what_it_saw_and_is_unsure_far_from_it():
    rng = np.random.default_rng(0)
    rows = rng.uniform(0, 4, (40, 3))
    wanted = np.sin(rows[:, 0]) + rows[:, 1]
    process = GaussianProcess.of(rows, wanted)
    said, unsure = process.expect(rows)
    far, doubt = process.expect(rows + 40.0)
    assert np.abs(said[:, 0] - wanted).max() < 0.15
    assert unsure.max() < doubt.min() / 2
    assert np.all(np.isfinite(far))


def test_process_generalises_between_what_it_saw():
    rng = np.random.default_rng(1)
    rows, others = rng.uniform(0, 4, (60, 2)), rng.uniform(0.5, 3.5, (40, 2))
    said, unsure = GaussianProcess.of(rows, rows.sum(axis=1)).expect(others)
    wrong = np.abs(said[:, 0] - others.sum(axis=1))
    assert wrong.mean() < 0.1 * np.std(others.sum(axis=1))
    assert np.mean(wrong <= 3 * unsure[:, 0] + 1e-3) > 0.9


def test_process_of_equal_rows_or_equal_numbers_is_finite():
    same = np.ones((5, 3))
    for wanted in (np.zeros(5), np.arange(5.0)):
        assert all(np.all(np.isfinite(each)) for each in GaussianProcess.of(same, wanted).expect(np.zeros((2, 3))))


def test_model_finds_the_best_of_4096_in_few_trials():
    assert np.median([trials_to(1.1e-3, seed) for seed in range(3)]) <= 35


def test_lessons_of_a_like_task_save_trials():
    transfer = [
        PriorTrial(knob_features(config), math.log(seconds(config) / 1e-3))
        for config in ({"a": a, "b": b, "c": c, "d": 32} for a in (1, 8, 32) for b in (4, 32, 128) for c in (2, 32))
    ]
    cold, taught = ([trials_to(1.1e-3, seed, transfer=known) for seed in range(3)] for known in ((), transfer))
    assert sum(taught) < 0.7 * sum(cold)


def test_model_keeps_away_from_what_fails():
    search, failed = Search(SPACE, FIRST, sampler="model", seed=2), []
    for _ in range(50):
        config = search.ask()
        failed.append(config["a"] > 8)
        search.tell(config, None if failed[-1] else seconds(config))
    assert sum(failed[25:]) < 0.5 * 25 / 2
