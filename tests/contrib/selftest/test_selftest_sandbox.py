"""The self-test of the sandbox: its judge on made-up times, and its check with real workers, walled and bare."""

import pytest

from autotune.contrib.selftest import sandbox as selftest_sandbox
from autotune.contrib.selftest.figures import Amounts
from autotune.contrib.selftest.sandbox import check_sandbox, judge_cost
from autotune.worker.isolation.sandbox import available_mechanisms
from autotune.worker.worker import Worker

BARE = [0.2 + 0.001 * (number % 7) for number in range(60)]


@pytest.mark.parametrize(("cost", "holds"), [(0.0, True), (0.005, True), (0.05, False)])
def test_cost_is_judged_against_the_same_trials_without_a_sandbox(cost, holds):
    figure = judge_cost([seconds * (1 + cost) for seconds in BARE], BARE)
    assert figure.value == pytest.approx(cost)
    assert figure.holds is holds


@pytest.mark.parametrize("sandboxed", [True, False])
def test_holes_are_found_where_there_is_no_sandbox(sandboxed, monkeypatch):
    monkeypatch.setattr(selftest_sandbox, "BLOCK", 2)
    with Worker(60.0, sandboxed=sandboxed) as worker:
        holes, cost = check_sandbox(Amounts(trials=2), worker)
    assert holes.holds is (sandboxed and set(available_mechanisms()) == {"landlock", "seccomp"})
    assert "write a file" in holes.detail
    assert "trials in each" in cost.detail
