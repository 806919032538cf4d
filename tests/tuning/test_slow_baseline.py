"""A baseline that is slow is timed by a part of it, and all that is done with its bundle copes with that."""

from dataclasses import replace

import pytest
from bundle_support import edit_manifest, make_bundle, no_care

from autotune.bundles.regress import RegressOptions, cost, regress
from autotune.bundles.replay import replay
from autotune.core.errors import BundleError
from autotune.core.family import Baseline
from autotune.core.machine import this_machine
from autotune.registry import load_baseline, load_payload
from autotune.reports.winner import describe
from autotune.store.bundle import read_bundle
from autotune.store.records import ProcessTimes
from autotune.store.sessions import seen_speedup, speedup_of
from autotune.tuning import slow_baseline as module
from autotune.tuning.slow_baseline import TimedBaseline, part_for, time_baseline
from autotune.worker.worker import Worker

SPEC = "matmul,m=64,n=40,k=48"
FLOPS = 2.0 * 64 * 40 * 48


@pytest.fixture
def slow(monkeypatch):
    """Every call of a baseline is slow, and every payload large."""
    monkeypatch.setattr(module, "PART_FLOPS", FLOPS / 4)
    monkeypatch.setattr(module, "WHOLE_SECONDS", 0.0)
    monkeypatch.setattr("autotune.tuning.choose.WHOLE_SECONDS", 0.0)


@pytest.fixture(scope="module")
def worker():
    with Worker() as worker:
        yield worker


def timed(worker, spec=SPEC, baseline=None, flops=FLOPS):
    baseline = baseline or load_baseline("passes")
    return time_baseline(load_payload(spec), baseline, flops, machine=this_machine(), seed=0, worker=worker)


def test_finer_part_for_more_work_up_to_the_finest():
    parts = [part_for(2.0**exponent) for exponent in range(20, 60)]
    assert parts == sorted(parts)
    assert parts[0] == part_for(0.0) == 1
    assert parts[-1] == module.FINEST_PART


def test_slow_baseline_is_timed_by_a_part_and_says_so(slow, worker):
    found = timed(worker)
    assert found.part == found.candidate.part == 4
    (note,) = found.notes
    assert "one in 4 iterations" in note
    assert f"within {max(found.error, 0.001):.1%}" in note


def test_quick_baseline_is_timed_whole(slow, monkeypatch, worker):
    monkeypatch.setattr(module, "WHOLE_SECONDS", 1.0)
    assert timed(worker) == TimedBaseline(load_baseline("passes"))
    assert not timed(worker).notes


def test_baseline_without_long_loops_is_timed_whole(slow, worker):
    found = timed(worker, "matmul,m=3,n=2,k=2")
    assert (found.part, found.why_not) == (1, "")


def test_baseline_that_does_not_run_is_left_out_with_the_reason(slow, worker):
    found = timed(worker, baseline=Baseline("broken", "builtin.module(no-such-pass)"))
    assert found.candidate is None
    assert "no-such-pass" in found.notes[0]


def test_budget_holds_for_a_baseline_of_any_speed(slow, monkeypatch, worker):
    monkeypatch.setattr(module, "BUDGET_SECONDS", 1e-3)
    found = timed(worker)
    assert found.candidate is None
    assert "timed-out" in found.notes[0]


@pytest.fixture
def bundle(slow, tmp_path):
    return make_bundle(tmp_path, SPEC)


def test_bundle_says_what_part_was_timed_and_everything_copes_with_it(bundle):
    read = read_bundle(bundle)
    record = read.manifest.baseline
    assert record.part == 4
    assert any("one in 4 iterations" in note for note in read.manifest.notes)
    whole, seen = read.manifest.speedup, seen_speedup(read.manifest.samples)
    assert whole.estimate == seen.estimate
    assert whole.high >= seen.high * (1 + record.part_error) * 0.999
    with no_care():
        again = replay(bundle)
        (finding,) = regress([bundle], RegressOptions(quick=True))
    assert again.is_right
    assert again.speedup is not None
    assert finding.verdict not in ("wrong", "stale")
    assert finding.speedup is not None
    assert describe(read).speedup == whole


def test_cost_of_a_check_is_that_of_the_part(bundle):
    read = read_bundle(bundle)
    half = replace(read.manifest, baseline=replace(read.manifest.baseline, part=8))
    assert cost(replace(read, manifest=half)) == pytest.approx(cost(read) / 2)


@pytest.mark.parametrize("part", [0, -4, 1 << 30, 2.5])
def test_part_of_a_manifest_must_be_one_that_can_be(bundle, part):
    edit_manifest(bundle, lambda data: data["baseline"].update(part=part))
    with pytest.raises(BundleError, match="part"):
        read_bundle(bundle)


def test_bundle_without_the_keys_is_one_of_whole_calls(bundle):
    def older(data):
        del data["baseline"]["part"], data["baseline"]["part_error"]
        seen = seen_speedup([ProcessTimes(**session) for session in data["samples"]])
        data["speedup"] = vars(seen)

    edit_manifest(bundle, older)
    assert read_bundle(bundle).manifest.baseline.part == 1


@pytest.mark.parametrize("count", [1, 2, 4])
def test_interval_of_few_samples_claims_no_precision(count):
    session = ProcessTimes((1.0,) * count, (40.0,) * count, ())
    found = speedup_of([session], 0.0)
    assert found.low < 38
    assert found.estimate == 40
    assert found.high > 42


def test_error_of_a_part_is_in_the_interval():
    session = ProcessTimes((1.0,) * 9, (40.0,) * 9, ())
    assert speedup_of([session], 0.25).low == pytest.approx(32)
    assert speedup_of([session], 0.25).high == pytest.approx(50)
