"""The gate: slowdowns are caught, noise does not alarm, what cannot be compared says so, and reports say the same."""

import json
import random
import shutil
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from bundle_support import compute_something_else, edit_file, edit_manifest, no_care, shared_bundle

from autotune.bundles import regress as gate
from autotune.bundles.finding import RegressionFinding
from autotune.bundles.junit import junit, to_checks
from autotune.bundles.regress import bundles_in, pauses_within, regress, too_noisy
from autotune.bundles.regress_options import RegressOptions
from autotune.bundles.timing import Timing
from autotune.bundles.verdict import Judgement, conclude, is_settled, judge
from autotune.cli.regress import TOO_NOISY, exit_code, show_findings
from autotune.core.errors import BundleError, OptionError
from autotune.core.stats import Interval
from autotune.store.bundle import read_bundle
from autotune.store.history import COLUMNS, append_history, read_history
from autotune.store.records import ProcessTimes
from autotune.store.sessions import speedup_of

SPEC = "matmul,m=9,n=24,k=8"
DRIFT, LUCK, NOISE = 0.3, 0.007, 0.01  # of the machine's speed, of a process, of a sample


def session(generator, slowdown=1.0, *, rounds=40, luck=LUCK, noise=NOISE):
    """A made-up process: both programs drift together, each has its own luck, and delays only add."""
    drift = 1 + DRIFT * generator.random()
    luck = np.exp(generator.normal(0, luck, 2))
    delays = 1 + generator.exponential(noise, (2, rounds))
    best, baseline = 1e-4 * slowdown * drift * luck[0] * delays[0], 2e-3 * drift * luck[1] * delays[1]
    return ProcessTimes(tuple(best), tuple(baseline), tuple(1e-4 * drift * delays[1]))


def gate_verdict(generator, slowdown, most=5, looks=3, **options):
    """A whole check: looks of sessions until it is clear."""
    recorded = [session(generator, **options) for _ in range(3)]
    seen, verdict = [], "inconclusive"
    while verdict == "inconclusive" and len(seen) < looks:
        now, latest = [], "inconclusive"
        while not is_settled(latest, len(now), most):
            now.append(session(generator, slowdown, **options))
            latest = judge(recorded, now, 1.05).verdict
        seen.append(now)
        verdict = conclude(recorded, seen, 1.05).verdict
    return verdict


def test_a_slowdown_of_5_percent_is_caught_in_19_of_20_and_nothing_alarms_in_99_of_100():
    generator = np.random.default_rng(0)
    caught = [gate_verdict(generator, 1.05) for _ in range(150)].count("slower")
    false = [gate_verdict(generator, 1.0) for _ in range(150)].count("slower")
    assert caught >= 143
    assert false <= 1


@pytest.mark.parametrize(("slowdown", "verdict"), [(0.8, "faster"), (0.999, "ok"), (1.3, "slower"), (3.0, "slower")])
def test_large_changes_have_their_verdict(slowdown, verdict):
    assert gate_verdict(np.random.default_rng(1), slowdown) == verdict


def test_a_machine_that_does_other_work_is_inconclusive_rather_than_alarming():
    generator = np.random.default_rng(2)
    verdicts = [gate_verdict(generator, 1.0, noise=0.3, luck=0.05) for _ in range(100)]
    assert verdicts.count("slower") <= 4
    assert "inconclusive" in verdicts


@pytest.mark.parametrize("disturbed", [0.5, 2.0])
def test_one_disturbed_process_neither_hides_a_slowdown_nor_alarms(disturbed):
    generator = np.random.default_rng(7)
    recorded = [session(generator) for _ in range(3)]
    for slowdown, verdict in ((1.06, "slower"), (1.0, "ok")):
        now = [session(generator, slowdown) for _ in range(4)] + [session(generator, disturbed)]
        assert judge(recorded, now, 1.05).verdict == verdict


def test_drift_of_the_machine_is_no_slowdown():
    generator = np.random.default_rng(3)
    recorded = [session(generator) for _ in range(3)]
    slow = [ProcessTimes(*(tuple(2.5 * s for s in times) for times in vars(each).values())) for each in recorded]
    assert judge(recorded, slow, 1.05).verdict == "ok"


def test_an_alarm_needs_every_retry():
    assert [is_settled("slower", n, 3) for n in (1, 2, 3)] == [False, False, True]
    assert [is_settled("inconclusive", n, 3) for n in (1, 2, 3)] == [False, False, True]
    assert [is_settled("ok", n, 5) for n in (2, 3, 5)] == [False, True, True]
    assert is_settled("stale", 1, 3)


@pytest.fixture(scope="module")
def pristine(tmp_path_factory):
    return shared_bundle(tmp_path_factory.mktemp("pristine"), SPEC)


@pytest.fixture
def bundle(pristine, tmp_path):
    return shutil.copytree(pristine, tmp_path / "bundles" / "one")


@pytest.fixture(autouse=True)
def quickly():
    with no_care():
        yield


def recorded_as(folder, sessions):
    """Make a bundle claim made-up sessions."""
    speedup = speedup_of(sessions, 0.0)

    def change(manifest):
        manifest["samples"] = [{name: list(times) for name, times in vars(each).items()} for each in sessions]
        manifest["speedup"] = vars(speedup)

    edit_manifest(folder, change)


@pytest.fixture
def measured(monkeypatch):
    """Replay made-up sessions instead of measuring; the first process of a test is started, builds and verifies."""
    measure = gate.measure_once
    given, built = [], []

    def measure_once(*arguments):
        if not built:
            built.append(measure(*arguments))
            if built[0].session is None:
                return built[0]
        return Recorded(given.pop(0))

    monkeypatch.setattr(gate, "measure_once", measure_once)
    return given


class Recorded(Timing):
    """A timing with a session of our own."""

    def __init__(self, session):
        object.__setattr__(self, "made_up", session)

    @property
    def session(self):
        return self.made_up


def check(folder, **options):
    (finding,) = regress([folder], RegressOptions(quick=True, **({"patience": 0} | options)))
    return finding


@pytest.mark.parametrize(
    ("slowdown", "verdict", "processes"), [(1.0, "ok", 3), (1.08, "slower", 5), (0.9, "faster", 3)]
)
def test_a_bundle_is_compared_with_its_recording(bundle, measured, slowdown, verdict, processes):
    generator = np.random.default_rng(4)
    recorded_as(bundle, [session(generator) for _ in range(3)])
    measured += [session(generator, slowdown) for _ in range(5)]
    finding = check(bundle)
    assert (finding.verdict, len(finding.samples)) == (verdict, processes)
    assert finding.slowdown == pytest.approx(slowdown, rel=0.03)
    assert finding.alarms == (verdict == "slower")


@pytest.fixture
def waits(monkeypatch, measured):
    """Pauses between looks, which take no time here, as nothing is built."""
    found = []
    monkeypatch.setattr(gate, "sleep", found.append)
    monkeypatch.setattr(gate, "measure_once", lambda *_: Recorded(measured.pop(0)))
    return found


def test_a_disturbance_longer_than_a_look_does_not_alarm(bundle, measured, waits):
    generator = np.random.default_rng(11)
    recorded_as(bundle, [session(generator) for _ in range(3)])
    measured += [session(generator, 1.448) for _ in range(5)] + [session(generator, 1.004) for _ in range(5)]
    finding = check(bundle, patience=60)
    assert (finding.verdict, finding.alarms) == ("ok", False)
    assert waits == [10.0]
    first, second = finding.notes[-2:]
    assert first.startswith("look 1: 4")
    assert "slower against its baseline" in first
    assert second.startswith("look 2: ")
    assert abs(finding.slowdown - 1.004) < 0.02


def test_a_slowdown_that_lasts_alarms_after_two_looks(bundle, measured, waits):
    generator = np.random.default_rng(12)
    recorded_as(bundle, [session(generator) for _ in range(3)])
    measured += [session(generator, 1.1) for _ in range(10)]
    finding = check(bundle, patience=60)
    assert (finding.verdict, waits, measured) == ("slower", [10.0], [])


@pytest.mark.parametrize(
    ("patience", "pauses"),
    [(0, []), (9, []), (29, [10.0]), (30, [10.0, 20.0]), (1e4, [10.0, 20.0, 40.0, 80.0])],
)
def test_patience_bounds_what_is_waited(patience, pauses):
    assert pauses_within(patience) == pauses


@pytest.mark.parametrize("patience", [-1, float("nan"), float("inf"), 1e9])
def test_absurd_patience_is_refused(patience):
    with pytest.raises(OptionError, match="patience must be from 0 to 86400"):
        RegressOptions(patience=patience)


def test_one_unlucky_process_does_not_alarm(bundle, measured):
    generator = np.random.default_rng(5)
    recorded_as(bundle, [session(generator) for _ in range(3)])
    measured += [session(generator, slowdown) for slowdown in (1.1, 1.0, 1.0, 1.0, 1.0)]
    assert check(bundle).verdict in ("ok", "inconclusive")


def test_a_bundle_that_computes_something_else_is_wrong(bundle):
    compute_something_else(bundle)
    finding = check(bundle)
    assert (finding.verdict, finding.alarms) == ("wrong", True), finding.why
    assert "wrong-result" in finding.why


def test_a_bundle_of_another_machine_is_stale(bundle):
    from autotune.core.host.machine import Machine

    def change(manifest):
        manifest["machine"]["l2_bytes"] = 123456
        manifest["fingerprint"] = Machine(**manifest["machine"]).fingerprint

    edit_manifest(bundle, change)
    finding = check(bundle)
    assert (finding.verdict, finding.alarms) == ("stale", False)
    assert "another machine" in finding.why
    assert "L2 was 120 KiB" in " ".join(finding.notes)


def test_an_edited_payload_is_stale(bundle):
    text = (bundle / "payload.mlir").read_text()
    edit_file(bundle, "payload.mlir", text + "// as an older release built it\n")
    finding = check(bundle)
    assert (finding.verdict, finding.why) == ("stale", "its payload is built otherwise now; tune it again")


def test_times_of_emulated_tiles_are_no_record(bundle, measured, autotune, monkeypatch):
    monkeypatch.setenv("AUTOTUNE_TILES", "emulate")
    recorded = (bundle / "manifest.json").read_bytes()
    code, _, said = autotune("regress", bundle, "--update")
    assert (code, "unset AUTOTUNE_TILES" in said) == (2, True)
    assert (bundle / "manifest.json").read_bytes() == recorded
    measured += [session(np.random.default_rng(9)) for _ in range(5)]
    finding = check(bundle)
    assert finding.verdict == "stale"
    assert "unset it" in finding.why


def test_slow_bundles_are_left_out_of_a_quick_check(bundle):
    generator = np.random.default_rng(6)
    slow = [ProcessTimes(*(tuple(1e4 * s for s in times) for times in vars(session(generator)).values()))]
    recorded_as(bundle, slow)
    finding = check(bundle)
    assert (finding.verdict, finding.why, finding.samples) == ("inconclusive", "left out by --quick", ())


def test_update_accepts_what_is_measured(bundle, measured):
    generator = np.random.default_rng(7)
    recorded_as(bundle, [session(generator, 0.5) for _ in range(3)])
    now = [session(generator) for _ in range(5)]
    measured += now
    assert check(bundle, update=True).verdict == "slower"
    assert read_bundle(bundle).manifest.samples == tuple(now)
    measured += now
    assert check(bundle).verdict == "ok"


def test_command_reports_in_every_form_and_exits_1_on_alarm(bundle, measured, autotune, tmp_path):
    generator = np.random.default_rng(8)
    recorded_as(bundle, [session(generator) for _ in range(3)])
    measured += [session(generator, 1.2) for _ in range(5)]
    code, out, _ = autotune(
        "regress", bundle, "--quick", "--patience", 0, "--output", tmp_path / "f.json", "--junit", tmp_path / "j.xml"
    )
    assert code == 1
    assert out.splitlines()[1].split()[1] == "slower"
    (found,) = json.loads((tmp_path / "f.json").read_text())
    assert (found["verdict"], len(found["samples"])) == ("slower", 5)
    suite = ElementTree.parse(tmp_path / "j.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("1", "1")


def test_command_updates_and_writes_the_history(bundle, measured, autotune, tmp_path):
    generator = np.random.default_rng(9)
    recorded_as(bundle, [session(generator) for _ in range(3)])
    for _ in range(2):
        measured += [session(generator, 1.2) for _ in range(5)]
        code, _, said = autotune("regress", bundle, "--quick", "--update", "--history", tmp_path / "h.jsonl")
        assert code == 0, said
    frame = read_history(tmp_path / "h.jsonl")
    assert tuple(frame.columns) == COLUMNS
    assert list(frame["verdict"]) == ["slower", "ok"]


@pytest.mark.parametrize("factor", ["1", "0.5", "-2", "1000", "nan"])
def test_absurd_factor_is_refused(bundle, autotune, factor):
    code, out, said = autotune("regress", bundle, "--factor", factor)
    assert (code, out, len(said.splitlines())) == (2, "", 1)
    assert "factor" in said


def test_folder_without_bundles_is_refused(tmp_path):
    with pytest.raises(BundleError, match="run autotune tune PAYLOAD, or name bundles"):
        bundles_in(tmp_path)


def test_where_there_is_no_bundle_of_this_machine_those_of_others_are_named(tmp_path, bundle, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(bundle, tmp_path / "results" / "other-machine" / "bundles" / "nano")
    with pytest.raises(BundleError, match="name one of those in results/other-machine/bundles"):
        bundles_in(Path("tuned/this-machine/bundles"))


def test_every_bundle_of_a_folder_is_found(bundle):
    assert bundles_in(bundle.parent) == [bundle]


FINDINGS = [
    RegressionFinding(
        "a", "one & only", "slower", "7.0% slower <against> its baseline", 1.07, Interval(2, 3, 4), seconds=1.5
    ),
    RegressionFinding("b", "two", "stale", "another machine"),
    RegressionFinding("c", "three", "ok", "0.1% faster"),
]


def test_junit_report_counts_failures_and_skipped():
    suite = ElementTree.fromstring(junit(FINDINGS).partition("?>")[2])
    assert [suite.get(key) for key in ("tests", "failures", "skipped")] == ["3", "1", "1"]
    assert [[child.tag for child in case] for case in suite] == [["failure"], ["skipped"], []]


def test_history_is_a_frame_and_grows(tmp_path):
    for day in (1, 2):
        append_history(tmp_path / "deep" / "h.jsonl", to_checks(FINDINGS, datetime(2026, 1, day, tzinfo=UTC)))
    frame = read_history(tmp_path / "deep" / "h.jsonl")
    assert len(frame) == 6
    assert frame["time"].is_monotonic_increasing
    assert frame["speedup"].isna().tolist() == [False, True, True] * 2


def test_judgement_does_not_depend_on_the_order_of_sessions():
    generator = np.random.default_rng(10)
    recorded, now = ([session(generator) for _ in range(3)] for _ in range(2))
    before = judge(recorded, now, 1.05)
    random.Random(0).shuffle(now)
    assert isinstance(before, Judgement)
    after = judge(recorded[::-1], now, 1.05)
    assert (after.verdict, after.slowdown) == (before.verdict, before.slowdown)
    assert after.pvalue == pytest.approx(before.pvalue)


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [
        (("ok", "faster"), 0),
        (("ok", "inconclusive"), TOO_NOISY),
        (("slower", "inconclusive"), 1),
        (("wrong",), 1),
        (("left out",), 0),
    ],
)
def test_what_was_too_noisy_to_judge_has_an_exit_code_of_its_own(verdicts, code):
    measured = (ProcessTimes((1.0,), (2.0,), ()),)
    found = [
        RegressionFinding("b", "p", "inconclusive", "left out by --quick")
        if verdict == "left out"
        else RegressionFinding("b", "p", verdict, "why", samples=measured)
        for verdict in verdicts
    ]
    assert exit_code(found) == code


def test_what_was_too_noisy_to_judge_shows_no_speedup_but_the_bounds(capsys):
    """A speed-up of 1022 where 286 was recorded is a number that cannot be."""
    speedup, recorded = Interval(10, 1022, 2000), Interval(285, 286, 287)
    times = (ProcessTimes((1.0,), (2.0,), ()),)
    why = too_noisy(1.0, 0.9)
    show_findings([RegressionFinding("b", "p", "inconclusive", why, 1.0, speedup, recorded, samples=times)])
    out = capsys.readouterr().out
    assert "1022" not in out
    assert "between 0.53x and 1.9x of the recorded speed: too noisy to judge" in " ".join(out.split())
