"""Recording a part of a space: what the part is, that all of it is measured once, and that Ctrl-C loses nothing."""

import json

import pytest
from recording_support import CountingEvaluator
from tuning_support import MACHINES

from autotune.contrib.spaces.measure import RecordOptions, record_space, task_named
from autotune.contrib.spaces.part import part_of
from autotune.core.errors import OptionError, ScheduleError, StoreError
from autotune.core.listener import NoteKeeper
from autotune.core.space import Condition, Constraint, Knob, Space
from autotune.store.recording import read_recording
from autotune.worker.loading.reading import open_payload, partition
from schedules.matmul import MATMUL

SPEC = "softmax,rows=8,cols=64"
WIDE = Space(
    tuple(Knob(name, tuple(range(8))) for name in "abcd"),
    (Constraint("a is at least b", lambda config: config["a"] >= config["b"]),),
)
DEFAULT = {"a": 5, "b": 3, "c": 0, "d": 7}


@pytest.mark.parametrize("seed", range(8))
def test_part_keeps_the_default_and_the_laws_and_is_as_large_as_it_may_be(seed):
    part = part_of(WIDE, DEFAULT, share=1.0, most=100, seed=seed)
    found = list(part.configs())
    assert 30 <= len(found) <= 100
    assert DEFAULT in found
    assert all(WIDE.broken_constraint(config) is None for config in found)
    assert part_of(WIDE, DEFAULT, share=1.0, most=100, seed=seed).knobs == part.knobs


def test_parts_of_different_seeds_differ():
    assert len({part_of(WIDE, DEFAULT, share=1.0, most=100, seed=seed).knobs for seed in range(8)}) > 4


def test_a_share_of_all_is_all_and_a_smaller_one_less():
    assert part_of(WIDE, DEFAULT, share=1.0, most=10_000, seed=0) == WIDE
    lawful = len(list(WIDE.configs()))
    assert 0.05 * lawful <= len(list(part_of(WIDE, DEFAULT, share=0.2, most=10_000, seed=0).configs())) <= 0.2 * lawful


def test_a_knob_keeps_the_value_it_has_where_it_does_not_count():
    space = Space((*WIDE.knobs, Knob("e", (0, 1, 2))), (), (Condition("e", ((("a", 5),),), 2),))
    part = part_of(space, {**DEFAULT, "e": 0}, share=1.0, most=1, seed=0)
    assert {knob.name: knob.values for knob in part.knobs}["e"] == (0, 2)


def test_a_huge_space_is_thinned_without_going_through_it():
    (task,) = partition(open_payload("matmul,m=512,n=512,k=512")).tasks
    whole, default = MATMUL.space(task, MACHINES["avx2"]), MATMUL.default(task, MACHINES["avx2"])
    part = part_of(whole, default, share=1.0, most=50, seed=1)
    assert whole.size > 100_000
    assert 10 <= sum(1 for _ in part.configs()) <= 50


def record_it(file, evaluator, listener=None, **options):
    """Record a small softmax."""
    payload = open_payload(SPEC)
    task, family = task_named(payload, partition(payload).tasks, "")
    chosen = RecordOptions(**{"most": 12, **options})
    return record_space(
        payload, task, family, file=file, options=chosen, evaluator=evaluator, listener=listener or NoteKeeper()
    )


def test_every_config_of_the_part_is_measured_once_and_written(tmp_path):
    evaluator = CountingEvaluator()
    record_it(tmp_path / "a.xz", evaluator)
    recording = read_recording(tmp_path / "a.xz")
    assert recording.payload == SPEC
    assert len(recording.trials_by_values) == len(recording.trials) == recording.lawful
    assert len(evaluator.scripts) == len(set(evaluator.scripts)) == sum(t.outcome == "ok" for t in recording.trials)
    assert recording.trials[0].config == recording.default
    assert {(job.best_seconds, job.effort.samples) for job in evaluator.jobs} == {(None, 16)}
    assert [path.name for path in tmp_path.iterdir()] == ["a.xz"]


def test_interrupted_recording_keeps_what_is_there_and_goes_on(tmp_path):
    whole = record_it(tmp_path / "whole.xz", CountingEvaluator())
    first, second = CountingEvaluator(stops_after=3), CountingEvaluator()
    with pytest.raises(KeyboardInterrupt):
        record_it(tmp_path / "a.xz", first)
    kept = read_recording(tmp_path / "a.xz")
    assert 3 <= len(kept.trials) < kept.lawful
    again = record_it(tmp_path / "a.xz", second)
    assert [trial.config for trial in again.trials] == [trial.config for trial in whole.trials]
    assert not set(first.scripts) & set(second.scripts)


def test_a_finished_recording_is_not_written_over(tmp_path):
    record_it(tmp_path / "a.xz", CountingEvaluator(), most=2)
    with pytest.raises(StoreError, match="must name a new file"):
        record_it(tmp_path / "a.xz", CountingEvaluator(), most=2)


def test_another_seed_is_another_part_or_order(tmp_path):
    seeds = [record_it(tmp_path / f"{seed}.xz", CountingEvaluator(), seed=seed) for seed in range(3)]
    assert len({json.dumps([trial.config for trial in found.trials]) for found in seeds}) == 3


def test_a_task_must_be_named_where_there_are_several():
    payload = open_payload("nano")
    tasks = partition(payload).tasks
    with pytest.raises(ScheduleError, match="--task must name a task of nano: gather"):
        task_named(payload, tasks, "")
    with pytest.raises(ScheduleError, match="got 'nosuch'"):
        task_named(payload, tasks, "nosuch")
    assert task_named(payload, tasks, tasks[1].tag)[0] is tasks[1]


@pytest.mark.parametrize("options", [{"share": 0.0}, {"share": 1.5}, {"most": 0}, {"seed": -1}])
def test_impossible_options_are_refused(options):
    with pytest.raises(OptionError):
        RecordOptions(**options)
