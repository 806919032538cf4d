"""The live self-test of `regress`: its judge on made-up verdicts, and what it checks and works beside."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from bundle_support import no_care

from autotune.bundles.finding import RegressionFinding
from autotune.contrib.selftest import regress as selftest_regress
from autotune.contrib.selftest.regress import check_regress, judge_checks, other_work, pretend_faster
from autotune.store.bundle import read_bundle

RESULTS = Path(__file__).parents[3] / "results"
RIGHT = (Counter(ok=19, inconclusive=1), Counter(slower=15, inconclusive=5), Counter(slower=19, inconclusive=1))


@pytest.mark.parametrize(
    ("place", "verdict", "broken"),
    [(0, "slower", 0), (0, "wrong", 0), (1, "ok", 1), (1, "faster", 1), (2, "inconclusive", 2), (2, "ok", 2)],
)
def test_each_promise_is_broken_by_its_own_verdicts(place, verdict, broken):
    assert all(figure.holds for figure in judge_checks(*RIGHT))
    spoilt = list(RIGHT)
    spoilt[place] = Counter({verdict: 2}) + spoilt[place]
    held = [figure.holds for figure in judge_checks(*spoilt)]
    assert held == [number != broken for number in range(3)]


def test_other_work_is_there_while_it_lasts_and_no_longer():
    with other_work():
        lines = {child: child.as_dict(["cmdline"], ad_value=[])["cmdline"] for child in psutil.Process().children()}
        (busy,) = [child for child, line in lines.items() if selftest_regress.BUSY in line]  # a zombie has no line
    assert not busy.is_running()


def test_checks_are_of_the_program_and_of_two_that_record_more(monkeypatch):
    seen = []

    def check(bundle, options, listener):
        if not options.update:
            seen.append(bundle.manifest.speedup.estimate)
        samples = bundle.manifest.samples
        return RegressionFinding("bundle", "selftest", "ok", "made up", samples=samples)

    monkeypatch.setattr(selftest_regress, "check", check)
    with no_care():
        figures = check_regress(2)
    assert seen[1] / seen[0] == pytest.approx(1.05)
    assert seen[2] / seen[0] == pytest.approx(1.10)
    assert seen[3:] == seen[:3]
    assert [figure.holds for figure in figures] == [True, False, False]
    assert check_regress(0) == []


def test_pretended_bundle_follows_from_its_samples(bundle):
    faster = pretend_faster(bundle, 1.05)
    assert faster.manifest.speedup.estimate == pytest.approx(1.05 * bundle.manifest.speedup.estimate)
    assert replace(faster.manifest, samples=(), speedup=None) == replace(bundle.manifest, samples=(), speedup=None)


@pytest.fixture(scope="module")
def bundle():
    return read_bundle(next(iter(sorted(RESULTS.glob("*/bundles/matmul_m64_n64_k64")))))
