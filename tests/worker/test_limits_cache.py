"""Roofs and noise are measured once an hour, unless the machine's clock is another one now."""

import json
import time

import pytest

from autotune.core.host.machine import Roofs, this_machine
from autotune.worker import limits_cache
from autotune.worker.limits_cache import (
    HOUR,
    MachineLimits,
    is_valid,
    limits_file,
    limits_of,
    read_limits,
    write_limits,
)
from autotune.worker.worker import Worker

FOUND = MachineLimits(Roofs(1e11, 1e10, 5e10), 0.02)


@pytest.fixture(autouse=True)
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(limits_cache, "is_valid", is_valid)  # as a user has it


@pytest.fixture
def measured(monkeypatch):
    """What was measured in full, in place of seconds of measuring; the sample now is as fast as its entry `rate`."""
    seen = {"full": 0, "rate": 1e11}

    def roofs(self, machine):
        seen["full"] += 1
        return FOUND.roofs

    monkeypatch.setattr(Worker, "roofs", roofs)
    monkeypatch.setattr(Worker, "call", lambda self, function, argument, seconds: seen["rate"])
    monkeypatch.setattr(limits_cache, "measure_noise", lambda machine, bench, pairs: FOUND.floor)
    return seen


def test_the_second_command_measures_nothing_but_a_sample(measured):
    with Worker() as worker:
        assert [limits_of(this_machine(), worker) for _ in range(3)] == [FOUND] * 3
    assert measured["full"] == 1


@pytest.mark.parametrize(("rate", "full"), [(0.97e11, 1), (1.2e11, 2), (0.8e11, 2), (0.4e11, 1), ("crashed", 2)])
def test_another_clock_is_measured_again_and_a_busy_core_is_not(measured, rate, full):
    with Worker() as worker:
        limits_of(this_machine(), worker)
        measured["rate"] = rate
        assert limits_of(this_machine(), worker) == FOUND
    assert measured["full"] == full


@pytest.mark.parametrize(
    "change",
    [{"written": time.time() - HOUR - 1}, {"written": time.time() + 1e6}, {"format_version": 0}, {"roofs": {}}, None],
)
def test_what_is_old_or_spoilt_is_not_believed(change):
    machine = this_machine()
    assert read_limits(machine) is None
    write_limits(machine, FOUND)
    assert read_limits(machine) == FOUND
    path = limits_file(machine)
    path.write_text(json.dumps(json.loads(path.read_text()) | change) if change else "{")
    assert read_limits(machine) is None
