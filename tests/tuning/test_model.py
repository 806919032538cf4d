"""The learned cost model: what its process says of what it has seen and what not, what lessons are worth, features."""

import math

import numpy as np
import pytest
from recording_support import made_up_recording
from tuning_support import MACHINES, random_configs

from autotune.core.plugs.family import Family
from autotune.core.plugs.guarded_family import GuardedFamily
from autotune.core.space import Knob, Space
from autotune.registry import family_for
from autotune.store.recording import write_recording
from autotune.tuning.samplers.features import features_of, knob_features
from autotune.tuning.samplers.gaussian_process import Process
from autotune.tuning.samplers.sampler import Lesson
from autotune.tuning.samplers.search import Search
from autotune.tuning.samplers.transfer import lessons_for, read_recordings, recordings_for
from autotune.worker.loading.reading import open_payload, partition
from schedules.matmul import MATMUL

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
    process = Process.of(rows, wanted)
    said, unsure = process.expect(rows)
    far, doubt = process.expect(rows + 40.0)
    assert np.abs(said[:, 0] - wanted).max() < 0.15
    assert unsure.max() < doubt.min() / 2
    assert np.all(np.isfinite(far))


def test_process_generalises_between_what_it_saw():
    rng = np.random.default_rng(1)
    rows, others = rng.uniform(0, 4, (60, 2)), rng.uniform(0.5, 3.5, (40, 2))
    said, unsure = Process.of(rows, rows.sum(axis=1)).expect(others)
    wrong = np.abs(said[:, 0] - others.sum(axis=1))
    assert wrong.mean() < 0.1 * np.std(others.sum(axis=1))
    assert np.mean(wrong <= 3 * unsure[:, 0] + 1e-3) > 0.9


def test_process_of_equal_rows_or_equal_numbers_is_finite():
    same = np.ones((5, 3))
    for wanted in (np.zeros(5), np.arange(5.0)):
        assert all(np.all(np.isfinite(each)) for each in Process.of(same, wanted).expect(np.zeros((2, 3))))


def test_model_finds_the_best_of_4096_in_few_trials():
    assert np.median([trials_to(1.1e-3, seed) for seed in range(3)]) <= 35


def test_lessons_of_a_like_task_save_trials():
    lessons = [
        Lesson(knob_features(config), math.log(seconds(config) / 1e-3))
        for config in ({"a": a, "b": b, "c": c, "d": 32} for a in (1, 8, 32) for b in (4, 32, 128) for c in (2, 32))
    ]
    cold, taught = ([trials_to(1.1e-3, seed, lessons=known) for seed in range(3)] for known in ((), lessons))
    assert sum(taught) < 0.7 * sum(cold)


def test_model_keeps_away_from_what_fails():
    search, failed = Search(SPACE, FIRST, sampler="model", seed=2), []
    for _ in range(50):
        config = search.ask()
        failed.append(config["a"] > 8)
        search.tell(config, None if failed[-1] else seconds(config))
    assert sum(failed[25:]) < 0.5 * 25 / 2


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
@pytest.mark.parametrize("spec", ["nano", "matmul,m=253,n=67,k=129", "attention,heads=2,seq=64,d=16,causal=1"])
def test_features_are_finite_and_the_same_for_every_config_of_a_task(spec, machine):
    for task in partition(open_payload(spec)).tasks:
        family = family_for(task)
        describe = features_of(task, family, machine)
        known = {name for name in describe(family.default(task, machine)) if "=" not in name}
        for config in random_configs(family, task, machine, 8, 0):
            found = describe(config)
            assert {name for name in found if "=" not in name} == known
            assert all(math.isfinite(value) for value in found.values())


def test_footprints_grow_by_one_where_a_tile_doubles():
    (task,) = partition(open_payload("matmul,m=512,n=512,k=512")).tasks
    machine = MACHINES["avx2"]
    config = {**MATMUL.default(task, machine), "tile_k": 128}
    small, large = (MATMUL.features(task, {**config, "tile_k": k}, machine) for k in (128, 256))
    for name in ("strip_in_l1", "panel_in_l1", "block_in_l2", "rows_in_l2"):
        assert large[name] - small[name] == pytest.approx(1)
    assert large["passes_c"] - small["passes_c"] == pytest.approx(-1)


def test_a_guarded_family_without_features_has_its_knobs():
    (task,) = partition(open_payload("gelu,rows=8,cols=64")).tasks
    family, machine = GuardedFamily(family_for(task)), MACHINES["sse"]
    config = family.default(task, machine)
    assert features_of(task, family, machine)(config) == knob_features(config)
    (task,) = partition(open_payload("matmul,m=64,n=64,k=64")).tasks
    assert "fmas_a_load" in features_of(task, GuardedFamily(MATMUL), machine)(MATMUL.default(task, machine))


def test_recordings_teach_only_their_own_family_and_only_samplers_that_listen(tmp_path):
    write_recording(tmp_path / "a.xz", made_up_recording())
    (tmp_path / "b.xz").write_bytes(b"none")
    assert [recording.payload for recording in read_recordings([tmp_path])] == ["mine"]
    assert recordings_for("tpe", [tmp_path]) == ()
    (recording,) = recordings_for("model", [tmp_path])
    (other,) = partition(open_payload("gelu,rows=8,cols=64")).tasks
    assert lessons_for(family_for(other), [recording]) == []


def test_lessons_are_logarithms_over_the_best_and_failures_are_infinite():
    recording = made_up_recording()

    class Plain(Family):
        name = "matmul"

    lessons = lessons_for(Plain(), [recording])
    excess = sorted(lesson.excess for lesson in lessons)
    assert excess[0] == 0
    assert math.isinf(excess[-1])
    assert len(lessons) == len(recording.trials)
    assert {"tile_m", "pack_b"} <= set(lessons[0].features)
