"""A baseline that is slow is timed by a part of it, and all that is done with its bundle copes with that."""

import shutil
from dataclasses import replace
from types import SimpleNamespace

import pytest
from bundle_support import edit_manifest, make_bundle, no_care

from autotune.bundles.regress import cost, regress
from autotune.bundles.regress_options import RegressOptions
from autotune.bundles.replay import REPLAY_EFFORT, replay
from autotune.bundles.timing import Timing, time_bundle
from autotune.core.errors import BundleError
from autotune.core.evaluator import Evaluation
from autotune.core.host.machine import this_machine
from autotune.core.plugs.family import Baseline
from autotune.core.trial import Samples
from autotune.registry import load_baseline, load_payload
from autotune.reports.winner import describe
from autotune.store.bundle import read_bundle
from autotune.store.records import ProcessTimes
from autotune.store.sessions import seen_speedup, speedup_of
from autotune.tuning.stages import slow_baseline as module
from autotune.tuning.stages.slow_baseline import TimedBaseline, part_for, time_baseline
from autotune.worker.worker import Worker

SPEC = "matmul,m=64,n=40,k=48"
FLOPS = 2.0 * 64 * 40 * 48


@pytest.fixture
def slow(monkeypatch):
    slow_down(monkeypatch)


def slow_down(patch):
    """Every call of a baseline is slow, and every payload large."""
    patch.setattr(module, "PART_FLOPS", FLOPS / 4)
    patch.setattr(module, "WHOLE_SECONDS", 0.0)
    patch.setattr("autotune.tuning.stages.choose.WHOLE_SECONDS", 0.0)


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


def test_part_that_says_too_little_of_the_whole_is_none(slow, monkeypatch):
    """The error is that of half as many iterations; where they take three times as long, nothing is known."""
    fake = SimpleNamespace(evaluate=lambda job, seconds: [ran(1.0), ran(3.0)])
    found = timed(fake)
    assert found.candidate is None
    assert "too little of the whole, 200% of it" in found.notes[0]


def ran(seconds):
    return Evaluation("ok", Samples((seconds,)))


def test_note_says_whether_results_of_a_part_are_looked_at():
    baseline = load_baseline("passes")
    (seen,), (unseen,) = TimedBaseline(baseline, 4).notes, TimedBaseline(baseline, 4, unseen="a reason").notes
    assert seen.endswith("what it computes is right")
    assert unseen.endswith("its result is not looked at, for a reason")


def test_bundle_whose_baseline_could_not_be_timed_says_why_everywhere(slow, monkeypatch, tmp_path, autotune):
    monkeypatch.setattr(module, "BUDGET_SECONDS", 1e-3)
    folder = make_bundle(tmp_path, SPEC)
    read = read_bundle(folder)
    assert "took longer than 0.001 s" in read.manifest.baseline.why_not
    assert read.manifest.speedup is None
    seen = Timing(Evaluation("timed-out"), ran(1.0))
    monkeypatch.setattr("autotune.bundles.replay.time_bundle", lambda *_: seen)
    monkeypatch.setattr("autotune.bundles.regress.measure_once", lambda *_: seen)
    again, (finding,) = replay(folder), regress([folder], RegressOptions(quick=True))
    assert (again.is_right, again.verdict) == (True, "unknown")
    assert again.why == f"the baseline could not be timed when it was recorded ({read.manifest.baseline.why_not})"
    assert finding.why == f"no baseline runs ({read.manifest.baseline.why_not})"
    _, out, _ = autotune("inspect", folder)
    assert f"did not run ({read.manifest.baseline.why_not})" in " ".join(out.split())


def test_error_of_a_part_is_seen_again_whatever_a_bundle_claims(bundle):
    read = read_bundle(bundle)
    sure = replace(read.manifest, baseline=replace(read.manifest.baseline, part_error=0.0))
    with no_care(), Worker() as worker:
        found = time_bundle(replace(read, manifest=sure), this_machine(), worker, REPLAY_EFFORT)
    assert (found.theirs.outcome, found.half.outcome, found.ours.outcome) == ("ok", "ok", "ok")
    assert found.part_error(0.0) > 0.0
    assert replace(found, half=None).part_error(0.5) == 0.5
    assert replace(found, half=ran(3 * min(found.theirs.samples.seconds))).part_error(0.0) == pytest.approx(2.0)


@pytest.fixture(scope="module")
def pristine(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        slow_down(patch)
        return make_bundle(tmp_path_factory.mktemp("slow"), SPEC)


@pytest.fixture
def bundle(pristine, tmp_path):
    return shutil.copytree(pristine, tmp_path / "bundle")


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
        (finding,) = regress([bundle], RegressOptions(quick=True, patience=0))
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
