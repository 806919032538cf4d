"""Why a process ended, how long it may take, and what must be left alone: the pure parts of isolation."""

import signal
import time

import numpy as np
import pytest

from autotune.core.evaluator import TimeLimits
from autotune.core.host.stopwatch import Moment
from autotune.core.payload import Argument
from autotune.core.trial import Samples, Trial
from autotune.worker.bench.fences import FENCE_BYTES, fenced_empty, word_sum
from autotune.worker.isolation.cause import find_cause
from autotune.worker.isolation.fault import FaultReport, read_fault_report
from autotune.worker.isolation.limits import MOST_DISTURBED, CallTimeline, learn_time_limits

FAULT = '\nfault: {{"address": {}, "mapped_bytes": {}, "limit_bytes": 1000}}\n'


@pytest.mark.parametrize(
    ("code", "said", "outcome", "words"),
    [
        (-signal.SIGSEGV, "", "crashed", "SIGSEGV"),
        (-signal.SIGABRT, "Assertion failed\nmore\nand more\nhidden", "crashed", "SIGABRT | Assertion failed | more"),
        (3, "", "crashed", "exit code 3"),
        (-signal.SIGKILL, "", "crashed", "killed from outside (SIGKILL)"),
        (-signal.SIGTERM, "cannot allocate memory", "crashed", "killed from outside (SIGTERM"),
        (-signal.SIGXCPU, "", "timed-out", "processor time"),
        (-signal.SIGABRT, "std::bad_alloc", "out-of-memory", "bad_alloc"),
        (-signal.SIGSEGV, FAULT.format(8, 900), "out-of-memory", "at address 0x8, a null pointer"),
        (-signal.SIGSEGV, FAULT.format(8, 100), "crashed", "at address 0x8"),
        (-signal.SIGSEGV, FAULT.format(2**40, 900), "crashed", "at address 0x10000000000"),
        (-64, "", "crashed", "SIGRTMAX"),
    ],
)
def test_cause_of_death_is_named(code, said, outcome, words):
    found = find_cause(code, said)
    assert (found.outcome, words in found.diagnostic, "\n" in found.diagnostic) == (outcome, True, False)


def test_a_process_that_the_system_killed_was_killed_for_memory_only_where_that_ran_out():
    causes = [find_cause(-signal.SIGKILL, "", memory_ran_out=ran_out) for ran_out in (True, False)]
    assert [(cause.outcome, cause.is_foreign) for cause in causes] == [("out-of-memory", False), ("crashed", True)]
    assert "memory" not in causes[1].diagnostic


@pytest.mark.parametrize("said", ["", "no words", "fault: {", "fault: [1]", 'fault: {"a": 1}'])
def test_words_that_make_no_sense_are_none(said):
    assert read_fault_report(said) is None


def test_last_words_are_read_back():
    assert read_fault_report("noise\n" + FAULT.format(5, 6)) == FaultReport(5, 6, 1000)


def made(number, compile_seconds, seconds=1e-3, outcome="ok"):
    samples = Samples((seconds,)) if outcome == "ok" else None
    return Trial("t", number, {}, outcome, str(number), "f", samples, phases={"lower": 0.1, "jit": compile_seconds})


def test_patience_is_learnt_from_good_trials_alone():
    assert learn_time_limits([made(i, 1.0) for i in range(4)]) == TimeLimits()
    crashed = [made(9, 500.0, outcome="timed-out")]
    learnt = learn_time_limits([made(i, 1.0) for i in range(9)] + crashed)
    assert learnt.compile_seconds == pytest.approx(8 * 1.1)
    assert learnt.run_seconds == 2.0
    assert learn_time_limits([made(i, 0.0, seconds=1.0) for i in range(9)]).run_seconds == 200.0


def test_compile_phases_share_one_bound_and_candidates_do_not():
    timeline, time_limits = CallTimeline(), TimeLimits(compile_seconds=5.0, run_seconds=1.0)
    assert timeline.deadline(time_limits) == float("inf")
    timeline.enter(Moment("transform"))
    first = timeline.deadline(time_limits)
    timeline.enter(Moment("jit"))
    assert timeline.deadline(time_limits) == first
    timeline.enter(Moment("verify"))
    assert timeline.deadline(time_limits) < first
    assert set(timeline.phases) == {"transform", "jit"}
    timeline.enter(Moment("transform", 1))
    assert timeline.phases == {}
    assert timeline.deadline(time_limits) > first
    timeline.enter(Moment("measure", 1))
    assert timeline.deadline(time_limits) == float("inf")


@pytest.mark.parametrize("limits", [TimeLimits(compile_seconds=5.0), TimeLimits(seconds=5.0)], ids=["phase", "call"])
@pytest.mark.parametrize(
    ("share", "ends"),
    [(1.0, 5.0), (2.0, 5.0), (0.5, 10.0), (0.25, 20.0), (0.0, MOST_DISTURBED * 5.0)],
    ids=["alone", "two-threads", "two-share", "four-share", "sleeps"],
)
def test_a_phase_and_a_call_are_limited_in_processor_time(share, ends, limits, monkeypatch):
    """A process that gets a share of a core ends when that adds up to its limit; one that only waits, later."""
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    timeline = CallTimeline(busy=lambda: share * now)
    timeline.enter(Moment("transform"))
    while now < (until := timeline.deadline(limits)):
        now = until
    assert now - 100.0 == pytest.approx(ends)


@pytest.mark.parametrize("shape", [(3, 5), (1,), (64, 64), (7,)])
@pytest.mark.parametrize("dtype", ["f32", "f64", "i32"])
def test_fence_sees_a_byte_beyond_either_end(shape, dtype):
    fence = fenced_empty(Argument("c", "output", shape, dtype))
    assert fence.array.ctypes.data % 64 == 0
    fence.array.fill(1)
    assert fence.trespass() == ""
    fence.after[12] = 0
    assert "byte 12 past its end" in fence.trespass()
    fence.mend()
    fence.before[FENCE_BYTES - 4] = 0
    assert "4 bytes before" in fence.trespass()
    fence.mend()
    assert fence.trespass() == ""


@pytest.mark.parametrize("size", [1, 7, 8, 1001])
def test_sum_of_words_changes_with_any_byte(size):
    array = np.arange(size, dtype=np.uint8)
    before = word_sum(array)
    for place in range(size):
        array[place] ^= 0x10
        assert word_sum(array) != before
        array[place] ^= 0x10
    assert word_sum(array) == before
