"""Replay: does a recorded speed-up hold, what differs from the recording, and what does that mean."""

import shutil
from dataclasses import replace

import pytest
from bundle_support import edit_manifest, make_bundle, no_care
from listener_support import Recorder

from autotune.bundles.candidates import recorded_candidate
from autotune.bundles.impossible import certain_flops
from autotune.bundles.regress import regress
from autotune.bundles.regress_options import RegressOptions
from autotune.bundles.replay import compare, is_open, is_wide, replay, summarize
from autotune.bundles.retune import recorded_options, retune_bundle
from autotune.bundles.timing import Timing
from autotune.cli.replay import show_replay
from autotune.core.errors import BundleError
from autotune.core.evaluator import Evaluation
from autotune.core.host.machine import this_machine
from autotune.core.host.matrix_unit import ask_for_tiles, emulated, tiles_here
from autotune.core.payload import Argument
from autotune.core.stats import Interval
from autotune.core.trial import Samples
from autotune.store.bundle import read_bundle
from autotune.store.differences import differences, of_machine
from autotune.store.manifest import parse_manifest
from autotune.store.records import WeightRecord
from autotune.store.sessions import figures_of, speedup_of
from autotune.store.store import Store

SPEC = "matmul,m=9,n=24,k=8"


@pytest.fixture(scope="module")
def pristine(tmp_path_factory):
    return calmed(make_bundle(tmp_path_factory.mktemp("pristine"), SPEC, trials=2))


@pytest.fixture(autouse=True)
def quickly():
    with no_care():
        yield


@pytest.fixture
def manifest(pristine):
    return read_bundle(pristine).manifest


def calmed(folder):
    """The bundle as a quiet machine records it: a speed-up of 8, with a ripple of 1 %."""
    (session,) = read_bundle(folder).manifest.samples
    ripple = [1 + (i % 3 - 1) / 100 for i in range(len(session.best_seconds))]
    best, baseline = [1e-6 * r for r in ripple], [8e-6 * r for r in ripple]
    calm = replace(session, best_seconds=tuple(best), baseline_seconds=tuple(baseline), reference_seconds=())
    figures = figures_of([calm], 0.0)

    def change(data):
        data["samples"][0] |= {"best_seconds": best, "baseline_seconds": baseline, "reference_seconds": []}
        data["speedup"] = vars(figures.speedup)
        data["best_seconds"], data["baseline_seconds"] = figures.best_seconds, figures.baseline_seconds

    edit_manifest(folder, change)
    return folder


def scale_samples(folder, factor):
    """Make a bundle claim that its schedule takes `factor` times as long as it does."""

    def change(data):
        for session in data["samples"]:
            session["best_seconds"] = [seconds * factor for seconds in session["best_seconds"]]
        for name in ("low", "estimate", "high"):
            data["speedup"][name] /= factor

    edit_manifest(folder, change)


@pytest.mark.parametrize(
    ("now", "verdict"),
    [
        (Interval(1.9, 2.0, 2.1), "holds"),
        (Interval(1.75, 1.8, 1.85), "holds"),
        (Interval(1.5, 1.6, 1.65), "weaker"),
        (Interval(2.5, 2.6, 2.7), "stronger"),
        (Interval(1.7, 2.0, 2.5), "holds"),
        (Interval(0.5, 2.0, 9.0), "unknown"),  # it would agree with claims of 0.6 and of 8
        (None, "unknown"),
    ],
)
def test_verdict_compares_intervals(now, verdict):
    assert compare(now, Interval(1.9, 2.0, 2.1)) == verdict
    assert compare(now, None) == "unknown"


@pytest.mark.parametrize(("factor", "verdict", "fine"), [(1e-3, "weaker", False), (1e3, "stronger", True)])
def test_a_claim_that_is_not_true_is_called_so(pristine, tmp_path, factor, verdict, fine):
    folder = shutil.copytree(pristine, tmp_path / "bundle")
    scale_samples(folder, factor)
    found = seen_again(read_bundle(folder), read_bundle(pristine).manifest.samples[0])
    assert (found.verdict, found.is_right, found.is_fine) == (verdict, True, fine)
    alive = replay(folder)
    assert alive.is_right
    assert alive.verdict == ("unknown" if alive.unsteady or is_wide(alive.speedup) else verdict)  # on a busy machine


def test_a_time_that_cannot_be_is_refused_in_one_line(pristine, tmp_path, autotune):
    folder = shutil.copytree(pristine, tmp_path / "bundle")
    edit_manifest(folder, lambda m: m.update(flops=1e13))  # of which a call takes microseconds
    code, out, _ = autotune("replay", str(folder))
    assert code == 1
    assert "such a time cannot be" in " ".join(out.split())
    assert "speed-up" not in out
    (finding,) = regress([folder], RegressOptions(quick=True, patience=0.0))
    assert (finding.verdict, "cannot be" in finding.why) == ("wrong", True)


def test_what_may_do_less_than_is_counted_is_left_room(pristine):
    bundle, flops = read_bundle(pristine), read_bundle(pristine).manifest.flops
    assert certain_flops(bundle) == flops > 0
    winograd = replace(bundle, texts={**bundle.texts, "schedule.mlir": "transform.structured.winograd_conv2d"})
    assert certain_flops(winograd) == flops / 4
    narrow = replace(bundle, payload=replace(bundle.payload, graph=(), arguments=(Argument("x", "input", (4,), "i8"),)))
    assert certain_flops(narrow) == flops / 16
    rewritten = replace(bundle, manifest=replace(bundle.manifest, rules=object()))
    assert certain_flops(rewritten) == 0


def test_an_interval_that_knows_nothing_does_not_confirm_a_faked_claim(pristine, tmp_path):
    folder = shutil.copytree(pristine, tmp_path / "bundle")
    scale_samples(folder, 0.1)
    session = read_bundle(pristine).manifest.samples[0]
    noisy = replace(session, best_seconds=tuple(s * (18 if i % 2 else 1) for i, s in enumerate(session.best_seconds)))
    found = seen_again(read_bundle(folder), noisy)
    assert (found.verdict, found.is_right, found.is_fine) == ("unknown", True, False)
    assert "at most 1.5 says something; measure again on a quieter machine" in found.why


def test_nothing_is_unknown_of_a_bundle_that_claims_nothing(pristine):
    bundle = read_bundle(pristine)
    session = replace(bundle.manifest.samples[0], baseline_seconds=())
    silent = replace(bundle, manifest=replace(bundle.manifest, samples=(session,), speedup=None))
    found = seen_again(silent, bundle.manifest.samples[0])
    assert (found.verdict, found.why, found.is_fine) == ("unknown", "no speed-up was recorded", True)


@pytest.mark.parametrize(
    ("outcome", "verdict"),
    [("out-of-memory", "unknown"), ("timed-out", "unknown"), ("crashed", "wrong"), ("wrong-result", "wrong")],
)
def test_too_little_memory_or_time_is_not_called_wrong(pristine, capsys, outcome, verdict):
    timing = Timing(Evaluation(outcome, diagnostic="why"), Evaluation(outcome, diagnostic="why"))
    found = summarize(read_bundle(pristine), timing, [], this_machine(), None)
    assert (found.verdict, found.is_right, found.is_fine) == (verdict, False, False)
    show_replay(found)
    assert f"{outcome}: why" in capsys.readouterr().out


def test_an_unknown_speedup_is_measured_by_more_processes_for_a_while(manifest):
    (session,) = manifest.samples[:1]
    noisy = replace(session, best_seconds=tuple(s * (18 if i % 2 else 1) for i, s in enumerate(session.best_seconds)))
    assert [is_open([noisy] * count, manifest, 1.0) for count in (1, 3, 4)] == [True, True, False]
    assert not is_open([noisy], manifest, 500.0)
    assert not is_open([session], manifest, 1.0)


def test_the_error_of_a_part_of_the_baseline_widens_what_is_seen_now(pristine):
    bundle = read_bundle(pristine)
    (session,) = bundle.manifest.samples
    whole, part = (with_part(bundle, error) for error in (0.0, 0.1))
    assert seen_again(part, session).speedup == seen_again(whole, session).speedup.widened(0.1)
    assert seen_again(part, session).verdict == "holds"


def test_no_other_process_is_asked_where_a_part_of_the_baseline_says_nothing(pristine):
    bundle = with_part(read_bundle(pristine), 0.5)
    assert not is_open(bundle.manifest.samples, bundle.manifest, 1.0)


def with_part(bundle, error):
    """A bundle whose baseline was timed by a part of it, with a relative error."""
    baseline = replace(bundle.manifest.baseline, part=64, part_error=error)
    return replace(bundle, manifest=replace(bundle.manifest, baseline=baseline))


def seen_again(bundle, session, outcome="ok"):
    """What a replay makes of these times of a bundle."""
    ours = Evaluation(outcome, Samples(session.best_seconds), 1e-7)
    timing = Timing(Evaluation("ok", Samples(session.baseline_seconds)), ours)
    return summarize(bundle, timing, [session], this_machine(), None)


def test_noise_is_not_called_wrong(pristine):
    bundle = read_bundle(pristine)
    found = seen_again(bundle, bundle.manifest.samples[0], "noisy")
    assert (found.outcome, found.verdict, found.is_right, found.is_fine) == ("noisy", "holds", True, True)


def test_weaker_on_another_machine_is_no_failure(pristine, tmp_path):
    folder = shutil.copytree(pristine, tmp_path / "bundle")
    scale_samples(folder, 1e-3)
    other = replace(this_machine(), cpu="another", isa="avx1024", vector_bits=1024, l2_bytes=1 << 24)

    def change(data):
        data["machine"] = vars(other)
        data["fingerprint"] = other.fingerprint

    edit_manifest(folder, change)
    found = seen_again(read_bundle(folder), read_bundle(pristine).manifest.samples[0])
    assert (found.verdict, found.is_fine, found.same_machine) == ("weaker", True, False)
    said = " ".join(found.differences)
    for word in ("machine was another", "ISA was avx1024", "1024 bits", "--retune", "L2 was 16384 KiB"):
        assert word in said


def test_nothing_differs_where_it_was_recorded(pristine):
    assert replay(pristine).differences == ()


def test_a_machine_is_another_by_name_by_caches_or_by_its_tiles_alone():
    here = replace(this_machine(), tiles="")
    assert of_machine(replace(here, tiles="amx"), here)[0].startswith("tiles were")
    (kind, caches) = of_machine(replace(here, l2_bytes=1 << 24), here)
    assert kind.startswith(f"machine was another {here.cpu}: times")
    assert caches.startswith("L2 was 16384 KiB")
    assert of_machine(replace(here, cpu="other"), here)[0].startswith(f"machine was other, is {here.cpu}: times")


def test_another_compiler_is_explained_by_what_it_makes_of_the_script(manifest):
    hashes = dict(manifest.ir_sha256)
    here = this_machine()
    same = differences(manifest, here, "mlir 99", manifest.rewrites, hashes)
    assert "compiler was" in same[0]
    assert "only its code generation" in same[1]
    assert "other IR" in differences(manifest, here, "mlir 99", manifest.rewrites, {**hashes, "transformed": "0"})[1]
    assert (
        "pipeline after it another"
        in differences(manifest, here, "mlir 99", manifest.rewrites, {**hashes, "lowered": "0"})[1]
    )
    (own,) = differences(manifest, here, manifest.versions.compiler, manifest.rewrites, {**hashes, "transformed": "0"})
    assert "passes of this package have changed" in own


def test_speedup_is_over_all_sessions(manifest):
    (session,) = manifest.samples
    slow = replace(session, best_seconds=tuple(2 * s for s in session.best_seconds))
    assert speedup_of([session], 0.0).estimate == manifest.speedup.estimate
    assert speedup_of([session, slow, slow], 0.0).estimate < manifest.speedup.estimate
    assert speedup_of([replace(session, baseline_seconds=())], 0.0) is None


def test_manifest_survives_its_own_text(pristine, manifest):
    assert parse_manifest((pristine / "manifest.json").read_bytes(), "x") == manifest


def test_retune_starts_from_the_recorded_config(pristine, tmp_path):
    ((tag, task),) = read_bundle(pristine).manifest.tasks.items()
    heard = Recorder()
    with Store.open(tmp_path / "s") as store:
        result = retune_bundle(read_bundle(pristine), store, tmp_path / "again", 1, heard)
    assert heard.configs == [dict(task.config)]
    assert result.configs == {tag: dict(task.config)}
    assert replay(tmp_path / "again").is_right


def test_retune_searches_what_was_asked_for(tmp_path):
    first = make_bundle(tmp_path / "first", "matmul,m=16,n=32,k=8", family="vectorize", timeout=50.0)
    with Store.open(tmp_path / "s") as store:
        retune_bundle(read_bundle(first), store, tmp_path / "again", 1)
    again = read_bundle(tmp_path / "again").manifest
    assert [task.schedule for task in again.tasks.values()] == ["vectorize"]
    assert recorded_options(read_bundle(tmp_path / "again")) == recorded_options(read_bundle(first))
    assert recorded_options(read_bundle(first)).family == "vectorize"


def test_a_bundle_replays_from_another_clone(pristine, tmp_path, monkeypatch):
    moved = shutil.copytree(pristine, tmp_path / "elsewhere" / "renamed")
    monkeypatch.chdir(tmp_path)
    assert replay(moved.relative_to(tmp_path)).is_right


def test_a_bundle_whose_tiles_this_processor_lacks_is_refused_or_emulated_when_asked(pristine, monkeypatch):
    monkeypatch.delenv("AUTOTUNE_TILES", raising=False)
    bundle = read_bundle(pristine)
    weight = WeightRecord("b", (8, 24), (1, 16, 32), 32, transposed=False, precision="tile_bf16")
    said = f'// autotune.precision = {{t = "{weight.precision}"}}\n{bundle.script}'
    texts = {**bundle.texts, "schedule.mlir": said}
    tiled = replace(bundle, texts=texts, manifest=replace(bundle.manifest, weights=(weight,)))
    if not ask_for_tiles():
        with pytest.raises(BundleError, match=r"cannot run here: products by tiles need .*`replay --emulate`"):
            recorded_candidate(tiled)
    before = tiles_here()
    with emulated():
        assert tiles_here() == (before or "emulated")
        assert recorded_candidate(tiled).script is not None
    assert tiles_here() == before


@pytest.mark.parametrize("other", ["--retune", "--emit=object"])
def test_emulation_is_of_a_bundle_as_it_is(refused, pristine, other):
    refused("replay", pristine, "--emulate", other, words="drop --emit and --retune")
