"""Answers of a process that untrusted code may have taken over: data at best, never code, a crash or a hang."""

import os
import pickle
import struct
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from bundle_support import shared_bundle
from hostile_process import give_array, give_moment, raise_ours, say, say_for_a_number, say_for_evaluations
from test_worker import GOOD, job

from autotune.core.errors import AnswerError, AutotuneError, CompileError, KernelError, PayloadError
from autotune.core.evaluator import Evaluation
from autotune.core.host.stopwatch import Moment
from autotune.core.trial import RIGHT, Samples
from autotune.worker.bench.ready_answers import CODECS
from autotune.worker.isolation.answers import (
    ERRORS,
    RAISED,
    RETURNED,
    Raised,
    Returned,
    error_of,
    evaluations,
    joined,
    kind_of,
    plain_error,
    read_answer,
    record_of,
    write_answer,
    write_moment,
)
from autotune.worker.isolation.channel import HEADER, MOST_BYTES, Channel
from autotune.worker.isolation.process import Call, run
from autotune.worker.isolation.typed_json import LENGTH, codec, dump
from autotune.worker.worker import Worker

TIMED = Evaluation("ok", Samples((1e-3, 2e-3)), 1e-6, phases={"lower": 0.1})


class Runs:
    """Makes a folder when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


def with_pointers():
    """A pickle of an array whose bytes NumPy would take for the addresses of objects."""
    return (
        b"cnumpy._core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntS'b'\ntR(I1\n(I1\ntcnumpy\ndtype\n(S'O8'\nI00\nI01\n"
        b"tR(I3\nS'|'\nNNNI-1\nI-1\nI0\ntbI00\nS'AAAAAAAA'\ntb."
    )


def hashed_for_ever():
    """A pickle of a tuple of itself twice, 60 deep, as a key: 2^60 hashes."""
    return b"\x80\x04}" + b")" + b"2\x86" * 60 + b"Ns."


def overwrites(name):
    """A pickle that overwrites an attribute of a class of the tuner."""
    return b"\x80\x04cautotune.core.trial\nSamples\nN}" + b"X" + struct.pack("<I", len(name)) + name + b"Ns\x86b."


@pytest.mark.parametrize(
    "error", [CompileError("jit", "no"), KernelError("crashed", "no"), ValueError("no"), KeyError("k")]
)
def test_error_comes_back_as_it_was(error):
    error.add_note("where")
    again = read_answer(joined(write_answer(Raised(error), int)), int).error
    assert (type(again), str(again), again.__notes__, again.args) == (type(error), str(error), ["where"], error.args)
    assert getattr(again, "stage", None) == getattr(error, "stage", None)


def test_every_error_of_ours_crosses_and_every_class_takes_what_crosses():
    for name, kind in ERRORS.items():
        error = error_of(record_of(kind("a", "b") if name in ("CompileError", "KernelError") else kind("b")))
        assert (type(error), error.args) == (kind, ("b",))
    assert {each.__name__ for each in AutotuneError.__subclasses__()} <= ERRORS.keys()


def test_error_of_somebody_elses_class_becomes_words():
    error = pickle.PicklingError("why")
    error.add_note("where")
    plain = plain_error(error)
    assert (type(plain), str(plain), plain.__notes__) == (RuntimeError, "PicklingError: why", ["where"])
    assert type(plain_error(UnicodeDecodeError("utf-8", b"\xff", 0, 1, "why"))) is ValueError
    with pytest.raises(MemoryError) as raised:
        np.empty(1 << 60, np.uint8)
    assert type(plain_error(raised.value)) is MemoryError


@pytest.mark.parametrize("record", ["SystemExit", "Exception", "Evaluation", "os.system", "", "SubprocessError"])
def test_error_of_any_other_class_is_refused(record):
    data = RAISED + joined(dump({"name": record, "message": "x", "first": "", "notes": []}, dict))
    with pytest.raises(AnswerError):
        read_answer(data, int)


def test_value_is_of_the_type_that_was_promised():
    assert read_answer(joined(write_answer(Returned([TIMED]), list[Evaluation])), list[Evaluation]) == Returned([TIMED])
    with pytest.raises(AnswerError, match="must be as promised"):
        read_answer(joined(write_answer(Returned([1]), list[int])), list[Evaluation])
    assert read_answer(joined(write_moment(Moment("lower", 3))), int) == Moment("lower", 3)


def test_value_that_is_not_what_its_function_declares_is_a_fault_that_is_said():
    answer = read_answer(joined(write_answer(Returned(object()), int)), int)
    assert (type(answer.error), "an answer must be of" in str(answer.error)) == (TypeError, True)


def test_partial_application_answers_as_its_function_does():
    assert kind_of(partial(give_moment, 1)) is Moment


@pytest.mark.parametrize(
    "data",
    [b"", b"nonsense", RETURNED, RETURNED + LENGTH.pack(1 << 63), pickle.dumps(Returned([TIMED])), hashed_for_ever()],
)
def test_bytes_that_are_no_answer_are_refused(data):
    with pytest.raises(AnswerError):
        read_answer(data, list[Evaluation])


@pytest.mark.parametrize("moment", [Moment("x" * 2000), Moment("nowhere"), Moment("lower", 1 << 70)])
def test_moment_is_of_a_phase_that_there_is(moment):
    with pytest.raises(AnswerError):
        read_answer(joined(write_moment(moment)), int)


@pytest.mark.parametrize(
    "found",
    [
        Evaluation("ok"),
        Evaluation("ok", Samples(())),
        Evaluation("ok", Samples((-1.0,))),
        Evaluation("ok", Samples((float("nan"),))),
        Evaluation("ok", Samples((1.0,), quiet_reference=1.0)),
        Evaluation("ok", Samples((1.0,), calls=0)),
        Evaluation("ok", Samples((1.0,), joules=float("inf"))),
        Evaluation("crashed", phases={"lower": float("nan")}),
        Evaluation("crashed", phases={"elsewhere": 1.0}),
        Evaluation("crashed", first_call=-1.0),
        Evaluation("crashed", diagnostic="x" * (1 << 20)),
        None,
    ],
)
def test_evaluation_whose_numbers_are_none_is_no_evaluation(found):
    assert evaluations([found], 1) == []
    assert evaluations([TIMED], 1) == [TIMED]


def framed(data):
    return HEADER.pack(len(data)) + data


NONSENSE = {
    "code": framed(pickle.dumps(Returned(Runs("/tmp/autotune-must-not-be")))),
    "array-of-pointers": framed(with_pointers()),
    "hashes-without-end": framed(hashed_for_ever()),
    "another-class": framed(overwrites(b"median")),
    "no-format": framed(b"nonsense"),
    "deep": framed(RETURNED + LENGTH.pack(100_000) + b"[" * 100_000),
    "another-type": framed(RETURNED + joined(dump({"answer": 1}, dict))),
    "moment-of-nonsense": framed(joined(write_moment(Moment("x")))),
    "endless": HEADER.pack(MOST_BYTES + 1),
}


@pytest.fixture(scope="module")
def worker():
    with Worker(20.0) as shared:
        yield shared


@pytest.mark.parametrize("what", NONSENSE)
def test_nonsense_is_a_crash_at_once_and_the_next_candidate_is_fine(worker, what):
    median = Samples.median
    found = worker.call(say_for_a_number, NONSENSE[what])
    assert found.outcome == "crashed"  # what is waited for to the limit has timed out
    assert "must" in found.diagnostic
    assert Samples.median is median
    assert not Path("/tmp/autotune-must-not-be").exists()
    assert worker.call(abs, -1) == 1


def test_next_candidate_is_fine(worker):
    assert worker.call(say_for_a_number, NONSENSE["no-format"]).outcome == "crashed"
    assert worker.evaluate(job(GOOD))[0].outcome in RIGHT


def test_half_a_message_is_waited_for_as_long_as_any(worker):
    found = worker.call(say, HEADER.pack(100) + b"half", 1.5)
    assert (found.outcome, "1.5 s" in found.diagnostic) == ("timed-out", True)


@pytest.mark.parametrize(
    "answer",
    [[], [Evaluation("ok")], [TIMED] * 2, [Evaluation("ok", Samples((float("nan"),)))]],
    ids=["none", "no-times", "two", "no-number"],
)
def test_answer_that_is_no_evaluation_is_a_crash(worker, answer, monkeypatch):
    data = framed(joined(write_answer(Returned(answer), list[Evaluation])))
    monkeypatch.setattr("autotune.worker.worker.evaluate", partial(say_for_evaluations, data))
    (found,) = worker.evaluate(job(GOOD))
    assert (found.outcome, "no evaluation" in found.diagnostic) == ("crashed", True)


@pytest.mark.parametrize("error", [RecursionError("x"), AttributeError("x"), KeyError("x"), TypeError("\x1b[31m")])
def test_error_that_nobody_should_raise_ends_a_candidate(worker, error, monkeypatch):
    data = framed(joined(write_answer(Raised(error), int)))
    monkeypatch.setattr("autotune.worker.worker.evaluate", partial(say_for_evaluations, data))
    (found,) = worker.evaluate(job(GOOD))
    assert (found.outcome, type(error).__name__ in found.diagnostic) == ("crashed", True)


def test_error_of_ours_is_raised(worker):
    with pytest.raises(PayloadError, match="by intent"):
        worker.call(raise_ours, None)


@pytest.mark.parametrize("what", ["array-of-pointers", "hashes-without-end", "another-class", "another-type"])
def test_bundle_whose_process_answers_with_anything_is_one_line(what, tmp_path, monkeypatch, autotune):
    folder = shared_bundle(tmp_path / "bundle", "matmul,m=8,n=8,k=8")
    monkeypatch.setattr("autotune.worker.worker.evaluate", partial(say_for_evaluations, NONSENSE[what]))
    code, out, said = autotune("replay", folder, "--timeout", 10)
    assert (code, out.count("crashed"), "must be" in out, "Traceback" in out + said) == (1, 1, True, False)


def test_moment_of_a_candidate_that_is_none_blames_all(worker, monkeypatch):
    data = framed(joined(write_moment(Moment("verify", 1000))))
    monkeypatch.setattr("autotune.worker.worker.evaluate", partial(say_for_evaluations, data))
    found = worker.evaluate(job(GOOD, GOOD), seconds=1.0)
    assert [each.outcome for each in found] == ["timed-out"] * 2


def test_large_arrays_cross_and_cannot_be_written_to(worker):
    found = worker.call(give_array, 1 << 20)
    assert found.dtype == np.float64
    assert not found.flags.writeable
    np.testing.assert_array_equal(found, np.arange(1 << 20).reshape(2, -1))


def test_answer_of_a_process_is_what_the_same_call_gives_here():
    assert read_answer(joined(run(Call(abs, -3))), kind_of(abs)) == Returned(3)


def test_message_that_nobody_takes_is_given_up():
    mine, theirs = Channel.pair()
    with pytest.raises(TimeoutError):
        mine.send([bytes(1 << 24)], time.monotonic() + 0.05)
    mine.close()
    theirs.close()


def test_channel_carries_messages_and_hangs_up():
    mine, theirs = Channel.pair()
    mine.send([b"ab", memoryview(b"c")])
    assert theirs.receive() == b"abc"
    with pytest.raises(TimeoutError):
        theirs.receive(time.monotonic() + 0.05)
    mine.close()
    with pytest.raises(EOFError):
        theirs.receive()
    theirs.close()


def codecs_there(_: int) -> int:
    """How many types can be written and read here without another thought."""
    return codec.cache_info().currsize


def test_what_a_process_answers_with_its_keeper_made_ready(cold_start):
    with Worker() as worker:
        assert worker.call(codecs_there, 0) >= len(CODECS) >= 5


def test_a_tuner_makes_ready_what_it_reads():
    """A command that has no answer to read does not pay for it."""
    code = "import sys, autotune.worker.worker; print('autotune.worker.bench.ready_answers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
