"""Tuning end to end, on payloads so small that it takes seconds: search, store, resume, bundle, replay."""

import json
import re
import shutil
from collections import Counter
from dataclasses import replace

import pytest
from bundle_support import compute_something_else, no_care
from listener_support import Recorder
from tuning_support import contraction_payload

from autotune.bundles.replay import replay
from autotune.cli.tune import show_result
from autotune.compiler.tasks.partition import partition
from autotune.core.candidate import Candidate, Claim
from autotune.core.errors import BundleError
from autotune.core.host.machine import this_machine
from autotune.core.listener import SILENT
from autotune.core.trial import OUTCOMES, RIGHT, Samples
from autotune.registry import load_baseline, load_payload
from autotune.reports.winner import read_winner
from autotune.store.bundle import FILES, digest, read_bundle, write_bundle
from autotune.store.sessions import recorded_figures
from autotune.store.store import Store, trials
from autotune.tuning.options import TuneOptions
from autotune.tuning.result import TuneResult
from autotune.tuning.stages.earlier_run import earlier_result, slower_folder
from autotune.tuning.stages.roofline import share_of_roof
from autotune.tuning.stages.run import Run
from autotune.tuning.stages.sessions import measure_sessions
from autotune.tuning.stages.summary import Ran, Searched
from autotune.tuning.tune import tune
from autotune.worker.bench.proof import DrawsWanted, count_rows, measure_errors
from autotune.worker.bench.roofs import reference_flops
from autotune.worker.loading.reading import open_payload
from autotune.worker.worker import Worker

SPEC = "matmul,m=29,n=16,k=8"  # no config of the first trials writes the script of another
TRIALS = 6


@pytest.fixture(scope="module", autouse=True)
def quickly():
    """No test here is about speed."""
    with no_care():
        yield


def tune_into(folder, payload, count=TRIALS, watcher=None, **options):
    watcher = watcher or Recorder()
    with Store.open(folder / "store.journal") as store:
        result = tune(payload, store, folder / "bundle", TuneOptions(trials=count, **options), watcher)
    return result, watcher


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tuned")
    return folder, *tune_into(folder, load_payload(SPEC))


def steady_summary(folder, **fields):
    """Records the newest summary once more, as it is on a quiet machine, whatever machine the test runs on."""
    with Store.open(folder / "store.journal") as store:
        summary = store.summaries()[-1] | {"unsteady": ""} | fields
        store.write_summary(SPEC, summary)
    return summary


@pytest.fixture
def copied(tuned, tmp_path):
    """The folder of the tuned payload, to be spoilt."""
    return shutil.copytree(tuned[0], tmp_path / "copy")


def test_result_is_right_and_accounts_for_every_trial(tuned):
    folder, result, watcher = tuned
    assert result.payload == SPEC
    assert 0 < result.max_error < 1e-4
    assert result.best_seconds > 0
    assert result.speedup.low <= result.speedup.estimate <= result.speedup.high
    (samples,) = read_bundle(folder / "bundle").manifest.samples
    assert len(samples.reference_seconds) == len(samples.best_seconds)
    assert result.roof_fraction > 0
    assert result.trials == dict(Counter(trial.outcome for trial in watcher.trials))
    assert result.evaluated == TRIALS
    assert result.bundle == str(folder / "bundle")


def test_result_is_one_plain_object(tuned):
    _, result, _ = tuned
    data = json.loads(json.dumps(result.to_json()))
    assert set(data) >= {
        "payload", "machine", "roofs", "baseline", "best", "speedup", "speedup_interval", "trials", "seconds", "bundle",
    }  # fmt: skip
    assert data["baseline"]["name"] == "passes"
    assert result._repr_html_().startswith(f"<table><caption>{SPEC}</caption>")
    assert set(data["best"]) >= {"seconds", "roof_fraction", "configs"}


def test_first_trial_is_the_default_config(tuned):
    from autotune.compiler.tasks.partition import partition
    from autotune.core.host.machine import this_machine
    from autotune.registry import family_for

    (task,) = partition(load_payload(SPEC)).tasks
    assert tuned[2].configs[0] == family_for(task).default(task, this_machine())


def test_store_holds_one_row_for_every_trial(tuned):
    folder, _, watcher = tuned
    frame = trials(folder / "store.journal")
    assert list(frame["key"]) == [trial.key for trial in watcher.trials]
    assert list(frame["outcome"]) == [trial.outcome for trial in watcher.trials]
    assert set(frame["outcome"]) <= set(OUTCOMES)
    assert set(frame["payload"]) == {SPEC}
    right = frame[frame["outcome"] == "ok"]
    assert (right["seconds_median"] > 0).all()
    assert (right["gflops"] > 0).all()


def test_store_holds_the_result(tuned):
    folder, result, _ = tuned
    with Store.open(folder / "store.journal", exclusive=False) as store:
        (summary,) = store.summaries()
    assert summary.pop("manifest_sha256") == digest((folder / "bundle" / "manifest.json").read_bytes())
    assert summary == json.loads(json.dumps(result.to_json()))
    assert TuneResult.from_json(summary) == result


def test_same_command_runs_nothing_new_and_visits_the_same_configs(copied, tuned):
    result, watcher = tune_into(copied, load_payload(SPEC))
    assert result.evaluated == 0
    assert watcher.trials == tuned[2].trials
    assert result.trials == tuned[1].trials
    assert len(trials(copied / "store.journal")) == len(tuned[2].trials)


def test_with_nothing_left_to_run_the_recorded_result_stands_and_nothing_is_measured(copied, tuned):
    summary = steady_summary(copied)
    before = {path: path.read_bytes() for path in (copied / "bundle").rglob("*.*")}
    result, watcher = tune_into(copied, load_payload(SPEC))
    said = f"nothing left to run: {copied / 'bundle'} stands; --anew measures it again"
    assert watcher.notes.count(said) == 1
    assert not any("baseline" in stage or "recording" in stage for stage in watcher.stages)
    assert result == replace(tuned[1], evaluated=0, seconds=result.seconds, unsteady="", bundle=str(copied / "bundle"))
    assert {path: path.read_bytes() for path in (copied / "bundle").rglob("*.*")} == before
    with Store.open(copied / "store.journal", exclusive=False) as store:
        assert store.summaries()[-1] == summary


@pytest.mark.parametrize(
    "spoil",
    [
        lambda folder, asked: replace(asked, anew=True),
        lambda folder, asked: replace(asked, sampler="random"),
        lambda folder, asked: replace(asked, error=0.5),
        lambda folder, asked: steady_summary(folder, unsteady="the core was shared"),
        lambda folder, asked: steady_summary(folder, trials={"ok": 1}),
        lambda folder, asked: steady_summary(folder, manifest_sha256="of another bundle"),
        lambda folder, asked: steady_summary(folder, noise_floor=0.0),
        lambda folder, asked: (folder / "bundle" / "schedule.mlir").write_text("module {}"),
        lambda folder, asked: (folder / "bundle" / "manifest.json").unlink(),
    ],
)
def test_a_recorded_result_stands_only_where_all_is_as_it_was(copied, tuned, spoil):
    asked = TuneOptions(trials=TRIALS, cold=True)
    steady_summary(copied, trials={}, noise_floor=0.1)
    assert standing(copied, replace(asked, trials=3, jobs=1, cold=False)).best_seconds == tuned[1].best_seconds
    spoilt = spoil(copied, asked)
    assert standing(copied, spoilt if isinstance(spoilt, TuneOptions) else asked) is None


def test_a_result_whose_bundle_lies_beside_a_faster_one_stands(copied):
    """A run whose bundle was slower than the one that its folder held is not measured again, either."""
    asked = TuneOptions(trials=TRIALS, cold=True)
    steady_summary(copied, trials={}, noise_floor=0.1)
    slower = slower_folder(copied / "bundle")
    slower.parent.mkdir()
    (copied / "bundle").rename(slower)
    assert standing(copied, asked) is None  # nothing is faster any more: it goes to its folder
    shutil.copytree(slower, copied / "bundle")
    (copied / "bundle" / "manifest.json").write_text("{}")
    assert standing(copied, asked).bundle == str(slower)


@pytest.mark.parametrize(("rounds", "factor"), [(2, 4.0), (0, 1000.0)])
def test_tune_on_a_busy_core_shows_no_number_that_cannot_be(copied, monkeypatch, capsys, rounds, factor):
    """A stand-in for a core that other work shares: its reference kernel is so many times as slow after some rounds."""

    def shared(session):
        reference = session.reference_seconds
        slow = tuple(seconds * (factor if index >= rounds else 1.0) for index, seconds in enumerate(reference))
        return replace(session, reference_seconds=slow)

    monkeypatch.setattr("autotune.tuning.tune.measure_sessions", lambda *args: [*map(shared, measure_sessions(*args))])
    result, _ = tune_into(copied, load_payload(SPEC), anew=True)
    show_result(result)
    out = capsys.readouterr().out
    head, _, rest = out.partition("verified")
    assert "not measurable here and now" in head
    assert not re.search(r"\d+ (ns|us|ms|s)\b|times as fast", head)
    assert "the naive lowering" not in rest
    assert all(float(share) <= 100 for share in re.findall(r"([\d.]+)%", out))
    assert read_winner(copied / "bundle").unsteady


def standing(folder, asked):
    """The result that stands where nothing was run."""
    payload = load_payload(SPEC)
    run = Run(payload, partition(payload), this_machine(), None, asked, 0.0, SILENT)
    with Store.open(folder / "store.journal") as store:
        nothing_run = Searched([], Ran(0, 0.0, 0.0), 0)
        return earlier_result(run, nothing_run, store, folder / "bundle", asked, least_floor=1e-6)


def test_more_trials_run_only_the_new_ones(copied, tuned):
    result, watcher = tune_into(copied, load_payload(SPEC), TRIALS + 2)
    assert result.evaluated == 2
    assert watcher.trials[: len(tuned[2].trials)] == tuned[2].trials
    there = str(copied / "bundle")
    assert any(note.startswith((f"replaces {there}, a bundle of", f"{there} stays")) for note in watcher.notes)


def test_trials_of_another_compiler_are_kept_apart_and_counted(copied, tuned, monkeypatch):
    monkeypatch.setattr("autotune.tuning.stages.task_search.compiler_version", lambda: "another compiler")
    result, _ = tune_into(copied, load_payload(SPEC), 1)
    assert result.evaluated == 1
    (note,) = [note for note in result.notes if "not used" in note]
    assert note.startswith(f"{len(tuned[2].trials)} trials in the store are of another machine, number of")


def test_interrupt_leaves_what_was_finished_in_the_store_and_resumes(tmp_path):
    watcher = Recorder(interrupt_after=2)
    with pytest.raises(KeyboardInterrupt):
        tune_into(tmp_path, load_payload(SPEC), 4, watcher)
    assert list(trials(tmp_path / "store.journal")["key"]) == [trial.key for trial in watcher.trials]
    assert not (tmp_path / "bundle").exists()
    result, again = tune_into(tmp_path, load_payload(SPEC), 4)
    assert result.evaluated == 2
    assert again.trials[:2] == watcher.trials


def test_share_of_the_roof_is_the_same_on_a_machine_that_runs_slower_for_a_while():
    machine = this_machine()
    kernel = reference_flops(machine)
    for slow in (1.0, 1.3):
        samples = Samples((2e-3 * slow,) * 3, (1e-3 * slow,) * 3)
        assert share_of_roof(kernel, samples, machine) == pytest.approx(0.5)


def test_time_bound_ends_the_search_after_the_first_trials(tmp_path):
    result, watcher = tune_into(tmp_path, load_payload(SPEC), 1000, seconds=1.0)
    assert 0 < len(watcher.trials) < 1000
    assert result.bundle


def test_bundle_is_plain_files_that_tell_all(tuned):
    folder, result, _ = tuned
    bundle = read_bundle(folder / "bundle")
    manifest = bundle.manifest
    ((tag, config),) = result.configs.items()
    files = [path.relative_to(folder / "bundle").as_posix() for path in (folder / "bundle").rglob("*.*")]
    assert sorted(files) == sorted([*FILES, "manifest.json", f"tasks/{tag}.mlir", f"schedules/{tag}.mlir"])
    assert bundle.payload.name == SPEC
    assert bundle.payload.text == load_payload(SPEC).text
    assert bundle.payload.reference is not None
    assert manifest.machine == result.machine
    assert manifest.versions.compiler
    assert manifest.versions.packages["numpy"]
    assert manifest.buffers.peak_bytes <= manifest.buffers.naive_bytes
    assert len(manifest.samples[0].best_seconds) == len(manifest.samples[0].baseline_seconds) > 2
    assert manifest.speedup == result.speedup
    figures, winner = recorded_figures(manifest), read_winner(bundle.folder)
    assert figures.best_seconds == result.best_seconds == winner.seconds.estimate
    assert figures.baseline_seconds == result.baseline_seconds == winner.baseline_seconds
    assert result.speedup.low <= result.baseline_seconds / result.best_seconds <= result.speedup.high
    assert result.roof_fraction == pytest.approx(winner.roof_fraction)
    assert manifest.tasks[tag].config == config
    assert manifest.tasks[tag].sizes == (29, 16, 8)
    assert manifest.numerics.oracle == "reference"
    assert 0 < manifest.numerics.outputs["c"].max_error < manifest.numerics.outputs["c"].tolerance


def test_bundle_replays(tuned):
    found = replay(tuned[0] / "bundle")
    assert found.is_right, found.diagnostic
    assert found.payload == SPEC
    assert found.speedup is not None
    assert found.recorded.estimate == tuned[1].speedup.estimate
    assert found.differences == ()


def test_schedule_that_computes_something_else_does_not_replay(copied):
    folder = copied / "bundle"
    compute_something_else(folder)
    found = replay(folder)
    assert (found.is_right, found.outcome, found.verdict, found.is_fine) == (False, "wrong-result", "wrong", False)


def test_folder_that_is_no_bundle_is_not_overwritten(tmp_path):
    folder = tmp_path / "bundle"
    folder.mkdir()
    (folder / "thesis.tex").write_text("years of work")
    with pytest.raises(BundleError, match="must go to a new folder or replace a bundle"):
        tune_into(tmp_path, load_payload(SPEC), 1)
    assert (folder / "thesis.tex").read_text() == "years of work"


def test_payload_file_is_tuned_against_its_plain_lowering(tmp_path):
    path = tmp_path / "mine.mlir"
    path.write_text(contraction_payload(17, 19, 23).text)
    result, watcher = tune_into(tmp_path, open_payload(path), 2)
    assert watcher.trials[0].outcome in RIGHT, watcher.trials[0].diagnostic
    assert result.payload == str(path)
    assert list(result.trials) == ["ok"]
    assert replay(tmp_path / "bundle").is_right


def test_payload_file_that_adds_to_a_matrix_is_tuned(tmp_path):
    path = tmp_path / "adds.mlir"
    kind, memory = "tensor<16x16xf32>", "memref<16x16xf32>"
    path.write_text(f"""func.func @adds(%a: {memory}, %b: {memory}, %c: {memory}, %d: {memory}) {{
      %x = bufferization.to_tensor %a restrict : {memory} to {kind}
      %y = bufferization.to_tensor %b restrict : {memory} to {kind}
      %z = bufferization.to_tensor %c restrict : {memory} to {kind}
      %r = linalg.matmul ins(%x, %y : {kind}, {kind}) outs(%z : {kind}) -> {kind}
      bufferization.materialize_in_destination %r in restrict writable %d : ({kind}, {memory}) -> ()
      return
    }}""")
    _, watcher = tune_into(tmp_path, open_payload(path), 2)
    assert watcher.trials[0].outcome in RIGHT, watcher.trials[0].diagnostic


def accumulating(path):
    """C += A B, C a state: what a call gives depends on how often it was called before."""
    matrix = "memref<16x16xf32>"
    state = f'{matrix} {{autotune.role = "state", bufferization.writable = true}}'
    kind = "tensor<16x16xf32>"
    path.write_text(f"""func.func @adds(%a: {matrix}, %b: {matrix}, %c: {state}) {{
      %x = bufferization.to_tensor %a restrict : {matrix} to {kind}
      %y = bufferization.to_tensor %b restrict : {matrix} to {kind}
      %z = bufferization.to_tensor %c restrict writable : {matrix} to {kind}
      %r = linalg.matmul ins(%x, %y : {kind}, {kind}) outs(%z : {kind}) -> {kind}
      bufferization.materialize_in_destination %r in restrict writable %c : ({kind}, {matrix}) -> ()
      return
    }}""")
    return path


def test_payload_that_adds_to_a_state_is_proved_from_the_same_state_each_time(tmp_path):
    path = accumulating(tmp_path / "adds.mlir")
    result, _ = tune_into(tmp_path, open_payload(path), 2)
    assert set(result.trials) <= {"ok", "duplicate"}
    (numbers,) = read_bundle(tmp_path / "bundle").manifest.numerics.outputs.values()
    assert numbers.max_error <= numbers.tolerance
    assert replay(tmp_path / "bundle").is_right


def test_rows_of_outputs_behind_a_state_are_compared_from_the_same_state(tmp_path):
    """The state is what the oracle's call left, unless it is put back: then no row is as it should be."""
    matrix, kind = "memref<16x16xf32>", "tensor<16x16xf32>"
    path = tmp_path / "adds.mlir"
    path.write_text(f"""func.func @adds(%a: {matrix}, %c: {matrix} {{autotune.role = "state"}}, %d: {matrix}) {{
      %x = bufferization.to_tensor %a restrict : {matrix} to {kind}
      %z = bufferization.to_tensor %c restrict writable : {matrix} to {kind}
      %r = linalg.matmul ins(%x, %x : {kind}, {kind}) outs(%z : {kind}) -> {kind}
      bufferization.materialize_in_destination %r in restrict writable %c : ({kind}, {matrix}) -> ()
      bufferization.materialize_in_destination %r in restrict writable %d : ({kind}, {matrix}) -> ()
      return
    }}""")
    claim = Claim(open_payload(path), Candidate(None, load_baseline("loops").pipeline))
    with Worker() as worker:
        rows, same = worker.call(count_rows, DrawsWanted(claim, 48, 3))
        errors = worker.call(measure_errors, claim)
    assert (rows, same) == (48, 48)
    assert all(each.max_error <= each.tolerance for each in errors)


def test_bundle_that_does_not_hold_when_it_is_read_again_is_not_written(tmp_path, monkeypatch, autotune):
    def write_spoilt(folder, files, manifest):
        compute_something_else(write_bundle(folder, files, manifest))

    monkeypatch.setattr("autotune.tuning.stages.record.write_bundle", write_spoilt)
    monkeypatch.chdir(tmp_path)
    code, out, said = autotune("tune", SPEC, "--trials", 2, "--bundle", "b", "--store", "store.journal")
    assert (code, out) == (1, "")
    assert "a bundle must verify when it is read again, it does not" in said.strip().splitlines()[-1]
    assert "wrong-result" in said
    assert {path.name.partition(".")[0] for path in tmp_path.iterdir()} == {"store"}
    assert len(trials("store.journal")) == 2


def test_payload_without_a_contraction_is_tuned(tmp_path):
    result, watcher = tune_into(tmp_path, load_payload("softmax,rows=9,cols=33"), 2)
    assert result.max_error < 1e-5
    assert {trial.family for trial in watcher.trials} == {"fused"}
    assert result.roof_fraction is None or result.roof_fraction > 0
    assert replay(tmp_path / "bundle").is_right


def test_payload_with_nothing_to_tune_keeps_the_plain_lowering_and_says_so(tmp_path):
    path = tmp_path / "copies.mlir"
    memory = "memref<4xf32>"
    path.write_text(f"func.func @f(%a: {memory}, %b: {memory}) {{ memref.copy %a, %b : {memory} to {memory} return }}")
    result, watcher = tune_into(tmp_path, open_payload(path), 1)
    assert (watcher.trials, result.configs, result.max_error) == ([], {}, 0)
    assert result.notes
    assert replay(tmp_path / "bundle").is_right
