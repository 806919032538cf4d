"""Processes that are killed from outside: one such death costs nothing, and is no lack of memory."""

import os
import signal
from itertools import count
from multiprocessing.connection import wait
from types import SimpleNamespace

import pytest
from test_worker import FAULTS, GOOD, job

from autotune.compiler.passes.pipelines import PLAIN, TAIL
from autotune.core.candidate import Candidate
from autotune.core.errors import MachineError
from autotune.core.host.machine import Roofs, this_machine
from autotune.core.payload import Argument, Payload
from autotune.core.trial import RIGHT
from autotune.registry import load_payload
from autotune.worker.bench.entry import Entry
from autotune.worker.bench.libraries import take_expected
from autotune.worker.isolation.answers import check_roofs
from autotune.worker.isolation.limits import CallTimeline, count_oom_kills
from autotune.worker.isolation.process import ProcessSettings, serve
from autotune.worker.race import library
from autotune.worker.worker import Worker
from payload.comparators.numpy import NUMPY

ENDLESS = FAULTS["code-loops-for-ever"][0]


@pytest.fixture(scope="module")
def worker():
    with Worker(20.0) as shared:
        yield shared


@pytest.fixture
def kill_at(worker, monkeypatch):
    """Send signals to the process of the worker, one each time that it reports a phase, and see it die.

    It may have answered meanwhile: one that died a moment later would be a death of the next call.
    """
    enter = CallTimeline.enter

    def kill(phase, *signals):
        left = list(signals)

        def and_kill(timeline, moment):
            enter(timeline, moment)
            if left and phase in (moment.phase, "any"):
                process = worker._process
                os.kill(process.pid, left.pop())
                assert wait([process.gone], 30)

        monkeypatch.setattr(CallTimeline, "enter", and_kill)

    return kill


def test_a_process_whose_tuner_is_killed_and_swept_away_while_it_starts_ends_without_a_word(tmp_path, capfd):
    pid = os.fork()
    if pid == 0:
        serve(None, ProcessSettings(str(tmp_path / "gone"), None, sandboxed=True), os.getppid())
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("phase", "number"), [("lower", signal.SIGKILL), ("verify", signal.SIGTERM), ("measure", signal.SIGKILL)]
)
def test_candidate_whose_process_is_killed_from_outside_is_tried_once_more(worker, kill_at, phase, number):
    kill_at(phase, number)
    (found,) = worker.evaluate(job(GOOD))
    assert found.outcome in RIGHT, found.diagnostic


def test_candidate_whose_processes_are_killed_again_and_again_crashed(worker, kill_at):
    kill_at("verify", *[signal.SIGKILL] * 2)
    (found,) = worker.evaluate(job(ENDLESS))
    assert found.outcome == "crashed"
    assert found.diagnostic == "in verify: it was killed from outside (SIGKILL), 2 times in a row"
    assert found.phases


def test_process_that_is_killed_between_two_jobs_is_no_matter(worker, kill_at):
    worker.evaluate(job(GOOD))
    os.kill(worker._process.pid, signal.SIGKILL)
    assert wait([worker._process.gone], 30)
    kill_at("verify", signal.SIGKILL)  # one death of the next job is left
    assert worker.evaluate(job(GOOD))[0].outcome in RIGHT


def test_candidate_whose_process_the_system_kills_for_memory_is_out_of_memory_at_once(worker, kill_at, monkeypatch):
    monkeypatch.setattr("autotune.worker.worker.count_oom_kills", count().__next__)
    kill_at("verify", *[signal.SIGKILL] * 2)
    (found,) = worker.evaluate(job(ENDLESS))
    assert found.outcome == "out-of-memory"
    assert "as it does when memory runs out (SIGKILL)" in found.diagnostic


def test_kills_for_memory_are_counted_where_the_kernel_says_them():
    with open("/proc/vmstat") as file:
        said = [int(line.split()[1]) for line in file if line.startswith("oom_kill ")]
    assert count_oom_kills() >= (said or [0])[0]


def test_roofs_whose_processes_are_killed_are_told_so(worker, kill_at):
    kill_at("any", *[signal.SIGKILL] * 2)
    with pytest.raises(MachineError, match=r"crashed: in \w+: it was killed from outside") as raised:
        worker.roofs(this_machine())
    assert "memory" not in str(raised.value)
    assert "quieter" not in str(raised.value)


@pytest.mark.parametrize("rate", [0.0, -1.0, float("inf"), float("nan")])
@pytest.mark.parametrize("place", range(3))
def test_roofs_that_are_no_rates_are_refused(rate, place):
    rates = [1.0, 1.0, 1.0]
    assert check_roofs(Roofs(*rates)) == Roofs(*rates)
    rates[place] = rate
    with pytest.raises(MachineError, match="finite and above zero"):
        check_roofs(Roofs(*rates))


def test_library_whose_process_is_killed_before_it_was_told_all_is_told_again(worker, monkeypatch):
    payload = load_payload("matmul,m=8,n=8,k=8")
    monkeypatch.setattr("autotune.worker.race.PART_ELEMENTS", 32)  # two parts of an output
    parts = []
    with Worker(20.0, library=True) as theirs:

        def call(function, argument):
            if function is take_expected:
                parts.append(argument.start)
                if len(parts) == 2:
                    os.kill(theirs._process.pid, signal.SIGKILL)
            return theirs.call(function, argument)

        home = SimpleNamespace(call=call)
        entry = library(Entry("numpy", payload, NUMPY), home, worker)
        assert entry.enter().status == "ok"
    assert len(parts) == 4


@pytest.mark.parametrize("pipeline", [PLAIN, TAIL])
def test_program_that_gets_no_memory_for_one_large_intermediate_is_out_of_memory(pipeline):
    """Most of the worker's memory is free when it faults."""
    y, big = Argument("y", "output", (1,)), "memref<40000x40000xf32>"
    text = f"""func.func @f(%y: {y.type}) {{
      %i = arith.constant 0 : index
      %one = arith.constant 1.0 : f32
      %big = memref.alloc() : {big}
      linalg.fill ins(%one : f32) outs(%big : {big})
      %x = memref.load %big[%i, %i] : {big}
      memref.store %x, %y[%i] : {y.type}
      return
    }}"""
    payload = Payload("big", text, "f", (y,))
    with Worker(20.0, memory_bytes=2 << 30) as small:
        (found,) = small.evaluate(job(Candidate(None, pipeline), payload=payload))
    assert found.outcome == "out-of-memory", found.diagnostic
    assert "0x0, a null pointer" in found.diagnostic
