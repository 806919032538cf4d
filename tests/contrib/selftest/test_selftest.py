"""The self-test: its judges on made-up times, its checks in small amounts, and the command."""

import json
import subprocess
import sys

import pytest
from bundle_support import no_care

from autotune.compiler.codegen.openmp import usable_threads
from autotune.contrib.selftest import figures as promises
from autotune.contrib.selftest import run as selftest
from autotune.contrib.selftest import sandbox as selftest_sandbox
from autotune.contrib.selftest.figures import Amounts, Direct, Instant, judge_isolation, judge_pairs, share_figure
from autotune.contrib.selftest.run import check_crashes, check_isolation
from autotune.core.host.machine import this_machine
from autotune.worker.bench.noise import NoisePair
from autotune.worker.worker import Worker

STEADY = [NoisePair((1.0, 1.001) * 30, (1.001, 1.0) * 30)] * 8
SLOWER = [NoisePair((1.0, 1.001) * 30, (1.05, 1.051) * 30)] * 8


@pytest.fixture(scope="module")
def worker():
    with Worker(60.0) as shared:
        yield shared


@pytest.fixture
def quickly(monkeypatch):
    """What is found is not looked at; tuners are killed in the midst of their first trials."""
    monkeypatch.setattr(selftest, "LONGEST_LIVES", ((Direct, 1.0), (Instant, 0.5)))
    monkeypatch.setattr(selftest_sandbox, "BLOCK", 1)
    with no_care():
        yield


def test_pairs_that_are_told_apart_as_they_should_keep_both_promises():
    equal, found = judge_pairs(STEADY, SLOWER)
    assert (equal.value, equal.holds, found.value, found.holds) == (0, True, 1, True)
    assert found.detail.startswith("8 of 8, 95 % interval 63.1% to 100.0%")


def test_unequal_pairs_below_the_floor_are_not_found():
    equal, found = judge_pairs(SLOWER, STEADY)
    assert (equal.value, equal.holds, found.value, found.holds) == (0, True, 0, False)


def test_floor_of_one_half_of_the_pairs_judges_the_other():
    halves = [pair for pairs in zip(STEADY, SLOWER, strict=True) for pair in (pairs[0], pairs[0], pairs[1], pairs[1])]
    equal, _ = judge_pairs(halves, SLOWER)
    assert (equal.value, equal.holds) == (0.5, False)  # the slower half against the floor of the steady one


@pytest.mark.parametrize(("cost", "holds"), [(0.02, True), (0.30, False)])
def test_isolation_is_judged_trial_by_trial_against_the_same_trials(cost, holds):
    direct = [0.2 + 0.3 * (number % 7) for number in range(60)]
    figure = judge_isolation([seconds * (1 + cost) for seconds in direct], direct)
    assert figure.value == pytest.approx(1 - 1 / (1 + cost))
    assert figure.holds is holds


def test_isolation_is_not_proven_by_an_interval_that_goes_beyond_the_law():
    direct = [1.0] * 100
    isolated = [1.05 if number // 10 % 2 else 1.4 for number in range(100)]
    figure = judge_isolation(isolated, direct)
    assert not figure.holds
    assert "95 % interval" in figure.detail


@pytest.mark.parametrize(("count", "law", "holds"), [(1, "at most 5 %", True), (2, "at most 5 %", False)])
def test_share_is_judged_by_its_law(count, law, holds):
    assert share_figure("winners", count, 20, law, "").holds is holds
    assert share_figure("found", 20 - count, 20, "at least 95 %", "").holds is holds


def test_crashes_leak_nothing(cold_start):
    leaks = []
    with Worker(60.0) as worker:
        for _ in range(3):
            respawn, leaked = check_crashes(Amounts(crashes=5), worker)
            leaks.append(leaked)
    assert respawn.holds == (0 < respawn.value < 1)  # as it may be beside other work
    assert any((leaked.value, leaked.holds) == (0, True) for leaked in leaks), leaks  # others' memory comes and goes


KILLS = """
from autotune.contrib.selftest import run
from autotune.contrib.selftest.figures import Amounts, Direct, Instant
run.LONGEST_LIVES = ((Direct, 1.0), (Instant, 0.5))  # killed in the midst of their first trials
lost, again = run.check_kills(Amounts(kills=8))
print(lost.value, again.value, lost.holds, again.holds, lost.detail)
"""


def test_tuner_killed_at_random_moments_loses_nothing_and_repeats_nothing():
    """In a process of its own: one that has run threads of OpenMP or of MLIR forks children that wait for them."""
    done = subprocess.run([sys.executable, "-c", KILLS], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("0 0 True True 8 kills, ")
    assert not done.stdout.endswith(" 0 trials finished\n")


def test_isolation_is_compared_over_the_same_trials(monkeypatch):
    now, tried = [0.0], {"isolated": [], "direct": []}

    def takes(name, seconds, first):
        def evaluate(_, job):
            tried[name] += job.candidates
            now[0] += seconds if len(tried[name]) > 1 else first
            return Instant().evaluate(job)

        return evaluate

    monkeypatch.setattr(Direct, "evaluate", takes("direct", 1.0, first=100.0))
    isolated = type("Isolated", (), {"evaluate": takes("isolated", 1.25, first=1000.0)})
    (figure,) = check_isolation(Amounts(trials=3), isolated(), clock=lambda: now[0])
    assert tried["isolated"] == tried["direct"]
    assert len(set(tried["direct"])) == 4  # the first one warms up
    assert figure.value == pytest.approx(1 - 1 / 1.25)
    assert "48 trials a minute, 60 without isolation, 3 each, in turn" in figure.detail
    assert not figure.holds


def test_isolation_is_measured_of_trials_that_run(worker):
    (figure,) = check_isolation(Amounts(trials=1), worker)
    assert "1 each, in turn" in figure.detail
    assert figure.value < 1


@pytest.mark.usefixtures("quickly")
def test_command_prints_every_promise_and_keeps_its_report(autotune, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    few = Amounts(crashes=2, trials=2, kills=1, pairs=1, sweeps=1, sweep_trials=2, checks=0)
    monkeypatch.setattr(promises, "FULL", few)
    code, out, said = autotune("doctor", "--self", "--json")
    found = json.loads(out)
    assert len(found["figures"]) == 10 + 2 * (usable_threads(2) > 1)  # two of them are of threads
    assert code == int(not all(figure["holds"] for figure in found["figures"]))  # as it may be beside other work
    assert [line.split()[1] for line in said.splitlines()] == [
        "crashes",
        "kill",
        "isolation",
        "sandbox",
        "threads",
        "statistics",
        "winners",
    ]
    (path,) = tmp_path.glob("tuned/*/selftest.json")
    assert json.loads(path.read_text()) == found
    assert found["machine"]["cpu"] == this_machine().cpu
    assert found["seconds"] > 0


@pytest.mark.usefixtures("quickly")
def test_quick_command_prints_a_table_and_keeps_nothing(autotune, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        promises, "QUICK", Amounts(crashes=1, trials=1, kills=1, pairs=1, sweeps=1, sweep_trials=1, checks=0)
    )
    code, out, _ = autotune("doctor", "--self", "--quick")
    assert code == int("BROKEN" in out)
    assert "at most 10 %" in out
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--baseline", "psychic"), "baseline must be one of"),
        (("--quick", "--baseline", "psychic"), "baseline must be one of"),
        (("--quick", "more"), "more"),
        (("--slow",), "--slow"),
    ],
)
def test_misuse_is_refused_before_anything_is_crashed(refused, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    refused("doctor", "--self", *arguments, words=words)


def test_place_that_cannot_be_written_is_refused_before_anything_is_crashed(refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tuned").touch()
    refused("doctor", "--self", words="tuned")
