"""Configs known to be good: the nearest recorded ones come first, fitted to the new space; nothing else is compared."""

from dataclasses import replace

import pytest
from tuning_support import MACHINES, contraction_payload

from autotune.compiler.tasks.partition import partition
from autotune.core.space import Constraint, Knob, Space
from autotune.registry import family_for
from autotune.tuning.samplers.search import Search
from autotune.tuning.stages.warm_start import KnownConfig, distance, sizes_of, starts, structure_of

HERE = MACHINES["avx2"]


def task_of(m, n, k, **layout):
    (task,) = partition(contraction_payload(m, n, k, **layout)).tasks
    return task


def known_of(task, machine=HERE, source="a", **changes):
    family = family_for(task)
    config = {**family.default(task, machine), **changes}
    return KnownConfig(family.name, structure_of(task), sizes_of(task), machine, config, source)


def starts_for(known, task, machine=HERE):
    family = family_for(task)
    return starts(known, task, family, family.space(task, machine), machine)


def test_the_nearest_sizes_come_first():
    task = task_of(256, 256, 256)
    known = [
        known_of(task_of(64, 64, 64), register_m=4),
        known_of(task_of(256, 256, 512), register_m=5),
        known_of(task_of(256, 256, 4096), register_m=3),
    ]
    assert [config["register_m"] for config in starts_for(known, task)] == [5, 3, 4]


def test_a_like_machine_comes_before_another():
    task = task_of(256, 256, 256)
    far = replace(HERE, l2_bytes=8 * HERE.l2_bytes)
    known = [known_of(task, far, "a", register_m=4), known_of(task, HERE, "b", register_m=5)]
    assert [config["register_m"] for config in starts_for(known, task)] == [5, 4]
    assert distance(known[1], sizes_of(task), HERE) == 0
    assert distance(known[0], sizes_of(task), HERE) == pytest.approx(0.75)


@pytest.mark.parametrize("layout", [{"b": "nk"}, {"a": "km"}, {"batch": 4}])
def test_other_structures_are_not_compared(layout):
    assert starts_for([known_of(task_of(256, 256, 256, **layout))], task_of(256, 256, 256)) == []


def test_other_families_are_not_compared():
    task = task_of(64, 64, 64)
    assert starts_for([replace(known_of(task), family="vectorize")], task) == []


def test_a_value_the_knob_does_not_have_becomes_the_nearest():
    task = task_of(64, 64, 64)
    family = family_for(task)
    values = next(k.values for k in family.space(task, HERE).knobs if k.name == "tile_n")
    (config,) = starts_for([known_of(task_of(64, 64, 64), tile_n=1 << 20)], task)
    assert config["tile_n"] == max(values)


def test_a_config_that_breaks_a_law_is_left_out():
    task = task_of(64, 64, 64)
    family = family_for(task)
    never = Space(family.space(task, HERE).knobs, (Constraint("nothing is allowed", lambda config: False),))
    assert starts([known_of(task)], task, family, never, HERE) == []


def test_a_knob_that_was_not_recorded_has_its_default():
    task = task_of(64, 64, 64)
    recorded = known_of(task, register_m=3)
    fewer = {name: value for name, value in recorded.config.items() if name != "unroll_k"}
    (config,) = starts_for([replace(recorded, config=fewer)], task)
    assert config == recorded.config


def test_equal_configs_are_tried_once():
    task = task_of(64, 64, 64)
    assert len(starts_for([known_of(task, source=s) for s in "abc"], task)) == 1


def test_a_search_asks_for_starts_then_for_the_default():
    space = Space((Knob("x", tuple(range(10))),))
    search = Search(space, {"x": 3}, starts=[{"x": 7}, {"x": 1}, {"x": 7}])
    assert [search.ask()["x"] for _ in range(3)] == [7, 1, 3]
    assert search.ask()["x"] not in (7, 1, 3)


def test_a_start_that_is_the_default_is_asked_once():
    space = Space((Knob("x", (1, 2)),))
    search = Search(space, {"x": 1}, starts=[{"x": 1}])
    assert [search.ask(), search.ask(), search.ask()] == [{"x": 1}, {"x": 2}, None]
