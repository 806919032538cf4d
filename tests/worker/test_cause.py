"""Why a process ended, how long it may take, and what must be left alone: the pure parts of isolation."""

import signal

import numpy as np
import pytest

from autotune.core.payload import Argument
from autotune.core.stopwatch import Moment
from autotune.core.trial import Samples, Trial
from autotune.worker.cause import find_cause
from autotune.worker.fault import LastWords, read_last_words
from autotune.worker.fences import FENCE_BYTES, fenced_empty, word_sum
from autotune.worker.limits import Course, Patience, learn_patience

FAULT = '\nlast words: {{"address": {}, "mapped_bytes": {}, "limit_bytes": 1000}}\n'


@pytest.mark.parametrize(
    ("code", "said", "outcome", "words"),
    [
        (-signal.SIGSEGV, "", "crashed", "SIGSEGV"),
        (-signal.SIGABRT, "Assertion failed\nmore\nand more\nhidden", "crashed", "SIGABRT | Assertion failed | more"),
        (3, "", "crashed", "exit code 3"),
        (-signal.SIGKILL, "", "out-of-memory", "the system killed it"),
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


@pytest.mark.parametrize("said", ["", "no words", "last words: {", "last words: [1]", 'last words: {"a": 1}'])
def test_words_that_make_no_sense_are_none(said):
    assert read_last_words(said) is None


def test_last_words_are_read_back():
    assert read_last_words("noise\n" + FAULT.format(5, 6)) == LastWords(5, 6, 1000)


def made(number, compile_seconds, seconds=1e-3, outcome="ok"):
    samples = Samples((seconds,)) if outcome == "ok" else None
    return Trial("t", number, {}, outcome, str(number), "f", samples, phases={"lower": 0.1, "jit": compile_seconds})


def test_patience_is_learnt_from_good_trials_alone():
    assert learn_patience([made(i, 1.0) for i in range(4)]) == Patience()
    crashed = [made(9, 500.0, outcome="timed-out")]
    learnt = learn_patience([made(i, 1.0) for i in range(9)] + crashed)
    assert learnt.compile_seconds == pytest.approx(8 * 1.1)
    assert learnt.run_seconds == 2.0
    assert learn_patience([made(i, 0.0, seconds=1.0) for i in range(9)]).run_seconds == 200.0


def test_compile_phases_share_one_bound_and_candidates_do_not():
    course, patience = Course(), Patience(compile_seconds=5.0, run_seconds=1.0)
    assert course.deadline(patience) == float("inf")
    course.enter(Moment("transform"))
    first = course.deadline(patience)
    course.enter(Moment("jit"))
    assert course.deadline(patience) == first
    course.enter(Moment("verify"))
    assert course.deadline(patience) < first
    assert set(course.phases) == {"transform", "jit"}
    course.enter(Moment("transform", 1))
    assert course.phases == {}
    assert course.deadline(patience) > first
    course.enter(Moment("measure", 1))
    assert course.deadline(patience) == float("inf")


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
