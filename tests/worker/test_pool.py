"""Pools of real workers: one at a time measures, nobody else on its core; what fails takes no other with it."""

import os
import random
import signal
import threading
import time
from contextlib import contextmanager

import psutil
import pytest
from listener_support import Recorder
from test_worker import FAULTS, GOOD, job

from autotune.core.host.cores import physical_cores
from autotune.core.host.machine import this_machine
from autotune.registry import load_payload
from autotune.store.store import Store
from autotune.tuning.options import TuneOptions
from autotune.tuning.stages.opening import open_searches, setting_of
from autotune.tuning.stages.running import run_on_slots
from autotune.worker.bench import measuring_core
from autotune.worker.bench.measuring_core import MeasuringCore, keep_to, this_process_on, threads_of
from autotune.worker.loading.reading import partition
from autotune.worker.pool import PoolWorker, WorkerPool
from autotune.worker.worker import Worker

CORES = (physical_cores() * 2)[-2:]  # twice the only one of a machine that has no more
BAD = ("code-aborts", "wrong-result", "script-that-finds-nothing", "code-exits-as-if-all-were-well", "compiler-aborts")


@pytest.fixture(scope="module")
def pool():
    with WorkerPool(CORES, 20.0).searching() as shared:
        yield shared


def evaluate(pool, candidates):
    """What becomes of candidates, as many under way as there may be, by the order they were given in."""
    numbers, found, left = [], {}, list(candidates)
    while left or len(found) < len(numbers):
        while left and len(numbers) - len(found) < pool.count():
            numbers.append(pool.submit(job(left.pop(0))))
        number, (answer,) = pool.wait()
        assert number not in found
        found[number] = answer
    return [found[number] for number in numbers]


@pytest.mark.parametrize("seed", [0, 1])
def test_every_job_is_done_once_and_one_that_fails_takes_no_other_with_it(pool, seed):
    wanted = [("ok", GOOD)] * 8 + [(FAULTS[fault][1], FAULTS[fault][0]) for fault in BAD]
    random.Random(seed).shuffle(wanted)
    found = evaluate(pool, [candidate for _, candidate in wanted])
    assert [each.outcome for each in found] == [outcome for outcome, _ in wanted], found
    good = [each for each in found if each.outcome == "ok"]
    assert all(set(each.phases) == {"transform", "lower", "jit", "verify", "measure"} for each in good)
    assert all(len(each.samples.seconds) == len(each.samples.reference_seconds) == 3 for each in good)


def test_a_pool_judges_as_a_worker_does(pool):
    candidates = [GOOD, *(FAULTS[fault][0] for fault in BAD)]
    with Worker(20.0) as worker:
        alone = [found for each in candidates for found in worker.evaluate(job(each))]
    together = evaluate(pool, candidates)
    judged = [[(e.outcome, e.max_error, e.scheduled, e.compiled) for e in found] for found in (alone, together)]
    assert judged[0] == judged[1]


@contextmanager
def watched(pool, monkeypatch):
    """Notes of each change of who measures: the process or none, and where every process of the pool may run then."""
    seen, give = [], pool.core._give

    def and_note(process):
        give(process)
        seen.append((process, {each: os.sched_getaffinity(each) for each in processes_of(pool)}))

    monkeypatch.setattr(pool.core, "_give", and_note)
    yield seen
    monkeypatch.undo()


def processes_of(pool):
    return [each._process.pid for each in pool._workers if each._process is not None]


def test_one_at_a_time_measures_and_nobody_else_is_on_its_core(pool, monkeypatch):
    evaluate(pool, [GOOD] * 2)
    with watched(pool, monkeypatch) as seen:
        evaluate(pool, [GOOD] * 10)
    assert len(seen) == 20
    assert all((process is None) == bool(number % 2) for number, (process, _) in enumerate(seen))
    for process, places in seen:
        for each, place in places.items():
            if process is None:
                assert place == set(pool.core.cores)
            else:
                assert place == ({pool.core.core} if each == process else set(pool.core.others))


def test_tuner_keeps_off_the_core_while_there_is_a_pool_and_comes_back(pool):
    assert os.sched_getaffinity(0) == set(pool.core.others)
    with this_process_on({CORES[-1]}):
        started = threading.Thread(target=time.sleep, args=(0.5,))
        started.start()
        assert all(os.sched_getaffinity(each) == {CORES[-1]} for each in threads_of(os.getpid()))
    assert all(os.sched_getaffinity(each) == set(pool.core.others) for each in threads_of(os.getpid()))
    started.join()


def test_process_that_is_gone_is_no_matter():
    assert threads_of(0) == threads_of(2**22 + 1) == set()
    keep_to(2**22 + 1, CORES)
    with MeasuringCore(CORES).hold(2**22 + 1):
        pass


def test_thread_that_a_thread_starts_meanwhile_is_moved_too(monkeypatch):
    numbers = [{1}, {1, 2}, {1, 2, 3}, {1, 2, 3}]
    moved = []
    monkeypatch.setattr(measuring_core, "threads_of", lambda _: numbers.pop(0))
    monkeypatch.setattr(measuring_core.os, "sched_setaffinity", lambda thread, _: moved.append(thread))
    keep_to(1, CORES)
    assert moved == [1, 2, 3]


def at_the_next_measurement(pool, monkeypatch, end):
    """Do something to whoever measures next, once."""
    give = pool.core._give
    left = [1]

    def then(process):
        give(process)
        if process is not None and left:
            left.pop()
            end(process)

    monkeypatch.setattr(pool.core, "_give", then)


def test_process_that_is_killed_from_outside_costs_nothing(pool, monkeypatch):
    evaluate(pool, [GOOD] * 2)
    at_the_next_measurement(pool, monkeypatch, lambda process: os.kill(process, signal.SIGKILL))
    assert [each.outcome for each in evaluate(pool, [GOOD] * 6)] == ["ok"] * 6


def test_keeper_that_is_killed_costs_nothing(pool, monkeypatch):
    evaluate(pool, [GOOD] * 2)
    at_the_next_measurement(pool, monkeypatch, lambda process: psutil.Process(process).parent().kill())
    assert [each.outcome for each in evaluate(pool, [GOOD] * 6)] == ["ok"] * 6


def test_closing_ends_what_is_under_way_at_once(monkeypatch):
    kill, killed = PoolWorker.kill, []
    monkeypatch.setattr(PoolWorker, "kill", lambda worker: (killed.append(worker), kill(worker)))
    pool, places = WorkerPool(CORES, 60.0), os.sched_getaffinity(0)
    evaluate(pool, [GOOD] * 2)
    for _ in range(2):
        pool.submit(job(FAULTS["code-loops-for-ever"][0]))
    time.sleep(0.3)
    running = processes_of(pool)
    assert running
    pool.close()
    pool.close()
    assert killed  # not waited for to its limit
    assert not [each for each in running if psutil.pid_exists(each)]
    assert os.sched_getaffinity(0) == places


def sweep(path, trials, heard):
    payload = load_payload("matmul,m=32,n=32,k=32")
    with Store.open(path) as store, WorkerPool(CORES, 20.0).searching() as pool:
        options = TuneOptions(trials=trials)
        searches = open_searches(partition(payload).tasks, setting_of(payload, this_machine(), store, options))
        run_on_slots(searches, options, pool, heard)


def recorded(path):
    with Store.open(path) as store:
        return [trial.key for each in store.sweeps() for trial in each.recorded]


def test_sweep_that_is_interrupted_resumes_and_runs_nothing_twice(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        sweep(tmp_path / "s", 10, Recorder(interrupt_after=4))
    before = recorded(tmp_path / "s")
    assert len(before) == 4
    heard = Recorder()
    sweep(tmp_path / "s", 10, heard)
    after = recorded(tmp_path / "s")
    assert after[:4] == before
    assert len(set(after)) == len(after) == len(heard.trials) >= 10
