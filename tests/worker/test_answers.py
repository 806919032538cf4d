"""Answers of a process that a stranger's code may have taken over: data at best, never code or a hang."""

import io
import os
import pickle
import stat
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from test_worker import GOOD, job

from autotune.compiler.tasks.oracle import contract
from autotune.core.errors import CompileError
from autotune.core.evaluator import Evaluation
from autotune.core.stopwatch import Moment
from autotune.core.trial import RIGHT, Samples
from autotune.worker.answers import MOMENT, check_answer, plain_error, read_answer
from autotune.worker.channel import HEADER, MOST_BYTES, Channel
from autotune.worker.process import Raised, Returned
from autotune.worker.worker import Worker


class Runs:
    """Runs a command when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


GOOD_ANSWERS = [
    Returned([Evaluation("ok", Samples((1e-3, 2e-3)), 1e-6, phases={"lower": 0.1})]),
    Raised(CompileError("jit", "no")),
    Raised(ValueError("no")),
    Moment("lower", 3),
    Returned(np.arange(6, dtype=np.float32).reshape(2, 3)),
    Returned({"a": (1, None, True, b"x", frozenset({1}))}),
    Returned(Path("a") / "b"),
]


def pickled(answer):
    """An answer as its process pickles it; Dask, which other tests import, changes how errors are pickled here."""
    stream = io.BytesIO()
    pickler = pickle.Pickler(stream)
    pickler.dispatch_table = {}
    pickler.dump(answer)
    return stream.getvalue()


@pytest.mark.parametrize("answer", GOOD_ANSWERS, ids=repr)
def test_data_comes_back_as_it_was(answer):
    again = read_answer(pickled(answer))
    assert type(again) is type(answer)
    assert pickled(again) == pickled(answer)


def test_reference_of_a_task_comes_back():
    again = read_answer(pickle.dumps(partial(contract, 1)))
    assert (again.func, again.args) == (contract, (1,))


@pytest.mark.parametrize(
    "name",
    [
        *("os\nsystem", "builtins\neval", "builtins\ngetattr", "subprocess\nPopen", "autotune.cli\nmain", "sys\nexit"),
        *("autotune.store.places\nhome", "autotune.worker.answers\npickle.loads", "numpy\nload", "no.such\nmodule"),
    ],
)
def test_answer_that_names_anything_else_is_refused(name):
    with pytest.raises(pickle.UnpicklingError, match="answers must be data"):
        read_answer(f"c{name}\n.".encode())


@pytest.mark.parametrize("data", [b"", b"nonsense", b"\x80\x05.", b"\x80\x05N", b"}" * 1000, pickle.dumps(1)[:-1]])
def test_bytes_that_are_no_pickle_are_refused(data):
    with pytest.raises(pickle.UnpicklingError):
        read_answer(data)


def test_object_that_runs_something_is_refused(tmp_path):
    with pytest.raises(pickle.UnpicklingError):
        read_answer(pickle.dumps(Returned(Runs(str(tmp_path / "made")))))
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("found", [Moment([], 3), Moment("x", "y"), 3, None, [Moment("x", 1)]], ids=repr)
def test_fields_are_of_their_types(found):
    with pytest.raises(pickle.UnpicklingError, match="must be"):
        check_answer(found, MOMENT)


def test_error_of_somebody_elses_class_becomes_words():
    error = pickle.PicklingError("why")
    error.add_note("where")
    plain = plain_error(error)
    assert (type(plain), str(plain), plain.__notes__) == (RuntimeError, "PicklingError: why", ["where"])
    assert plain_error(ours := CompileError("jit", "no")) is ours


def say(data):
    """Write bytes to the tuner, as code that found the descriptor of the line can. In the isolated process only."""
    for name in os.listdir("/proc/self/fd"):
        handle = int(name)
        try:
            if stat.S_ISSOCK(os.fstat(handle).st_mode):
                os.write(handle, data)
        except OSError:
            continue
    time.sleep(60)


def framed(answer):
    data = answer if isinstance(answer, bytes) else pickle.dumps(answer)
    return HEADER.pack(len(data)) + data


NONSENSE = {
    "code": framed(Returned(Runs("/tmp/autotune-must-not-be"))),
    "no-pickle": framed(b"nonsense"),
    "another-type": framed({"answer": 1}),
    "moment-of-nonsense": framed(Moment([], {})),
    "endless": HEADER.pack(MOST_BYTES + 1),
}


@pytest.fixture(scope="module")
def worker():
    with Worker(20.0) as shared:
        yield shared


@pytest.mark.parametrize("what", NONSENSE)
def test_nonsense_is_a_crash_at_once_and_the_next_candidate_is_fine(worker, what):
    found = worker.call(say, NONSENSE[what])
    assert found.outcome == "crashed"
    assert "must be" in found.diagnostic
    assert not Path("/tmp/autotune-must-not-be").exists()
    assert worker.evaluate(job(GOOD))[0].outcome in RIGHT


def test_half_a_message_is_waited_for_as_long_as_any(worker):
    found = worker.call(say, HEADER.pack(100) + b"half", 1.5)
    assert (found.outcome, "1.5 s" in found.diagnostic) == ("timed-out", True)


def lies(answer):
    """An answer that is no evaluation, as a process taken over may give. In the isolated process only."""
    say(framed(Returned(answer)))


@pytest.mark.parametrize("answer", [[], [1], ["ok"], [Evaluation("great")], [Evaluation("ok")] * 2], ids=repr)
def test_answer_that_is_no_evaluation_is_a_crash(worker, answer, monkeypatch):
    monkeypatch.setattr("autotune.worker.worker.evaluate", partial_answer(answer))
    (found,) = worker.evaluate(job(GOOD))
    assert (found.outcome, "no evaluation" in found.diagnostic) == ("crashed", True)


def partial_answer(answer):
    return partial(ignore_job, answer)


def ignore_job(answer, _):
    lies(answer)


def test_moment_of_a_candidate_that_is_none_blames_all(worker, monkeypatch):
    monkeypatch.setattr("autotune.worker.worker.evaluate", blame)
    found = worker.evaluate(job(GOOD, GOOD), seconds=1.0)
    assert [each.outcome for each in found] == ["timed-out"] * 2


def blame(_):
    say(framed(Moment("verify", 1000)))


def test_message_that_nobody_takes_is_given_up():
    mine, theirs = Channel.pair()
    with pytest.raises(TimeoutError):
        mine.send(bytes(1 << 24), time.monotonic() + 0.05)
    mine.close()
    theirs.close()


def test_channel_carries_messages_and_hangs_up():
    mine, theirs = Channel.pair()
    mine.send(b"abc")
    assert theirs.receive() == b"abc"
    with pytest.raises(TimeoutError):
        theirs.receive(time.monotonic() + 0.05)
    mine.close()
    with pytest.raises(EOFError):
        theirs.receive()
    theirs.close()
