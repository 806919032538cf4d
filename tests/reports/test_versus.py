"""Comparing sweeps: in two stores, of two payloads in one, and of one payload before and after a change."""

import math

import pytest
from sweep_support import FLOPS, fill_store

from autotune.core.errors import StoreError
from autotune.core.stats import Interval
from autotune.reports.versus import compare_sweeps

SLOWER = {"trials": 20, "factor": 2.0}


def test_the_faster_store_is_told_with_an_interval(tmp_path):
    here, there = (str(fill_store(tmp_path / name, **kind)) for name, kind in (("a", {}), ("b", SLOWER)))
    (found,) = compare_sweeps(here, there).pairs
    assert isinstance(found.ratio, Interval)
    assert found.ratio.low <= 2 <= found.ratio.high
    assert math.isclose(found.ratio.estimate, 2, rel_tol=0.03)
    assert (found.here.trials, found.there.trials) == (60, 20)
    assert found.here.to_95 is not None
    assert found.there.to_95 is None
    assert found.here.gflops == pytest.approx(FLOPS / found.here.seconds / 1e9)
    (turned,) = compare_sweeps(there, here).pairs
    assert math.isclose(turned.ratio.estimate, 1 / found.ratio.estimate, rel_tol=1e-9)


def test_stores_without_a_common_task_are_not_compared(tmp_path):
    here, there = fill_store(tmp_path / "a"), fill_store(tmp_path / "b", tasks=("other",))
    with pytest.raises(StoreError, match="share a task"):
        compare_sweeps(here, str(there))


def test_payloads_of_one_store_are_compared_by_the_tasks_they_share(tmp_path):
    path = fill_store(tmp_path / "s", tasks=("first", "second"))
    fill_store(path, payload="yours", tasks=("second", "third"), **SLOWER)
    found = compare_sweeps(path, "yours")
    assert (found.here, found.there) == ("mine", "yours")
    assert [(pair.here.payload, pair.here.task, pair.there.task) for pair in found.pairs] == [("mine", *["second"] * 2)]
    assert math.isclose(found.pairs[0].ratio.estimate, 2, rel_tol=0.03)


def test_payloads_of_one_task_each_are_compared_whatever_their_tags(tmp_path):
    fill_store(fill_store(tmp_path / "s"), payload="yours", tasks=("other",), **SLOWER)
    (pair,) = compare_sweeps(tmp_path / "s", "mine", "yours").pairs
    assert (pair.here.task, pair.there.task) == ("other", "first")
    assert math.isclose(pair.ratio.estimate, 0.5, rel_tol=0.03)


def test_a_payload_is_compared_with_its_sweeps_of_another_compiler(tmp_path):
    path = fill_store(tmp_path / "s", **SLOWER)
    with pytest.raises(StoreError, match="has one"):
        compare_sweeps(path, "mine")
    fill_store(path, machine="newer")
    found = compare_sweeps(path, "mine", "mine")
    (pair,) = found.pairs
    assert (pair.here.trials, pair.there.trials) == (60, 20)
    assert "begun last" in found.here
    assert math.isclose(pair.ratio.estimate, 2, rel_tol=0.03)


def test_what_to_compare_must_be_clear_and_there(tmp_path):
    path = fill_store(tmp_path / "s")
    for payload in ("yours", "theirs"):
        fill_store(path, payload=payload)
    with pytest.raises(StoreError, match="--payload must name"):
        compare_sweeps(path, "yours")
    with pytest.raises(StoreError, match="holds mine, yours, theirs"):
        compare_sweeps(path, "nobody's")
    with pytest.raises(StoreError, match="must hold trials of 'his'"):
        compare_sweeps(path, "yours", "his")
