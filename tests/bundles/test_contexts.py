"""Calls from many threads at once: each computes what it would alone, and waits only where every context is in use."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from autotune.bundles.call import PayloadFunction
from autotune.compiler.codegen.openmp import find_openmp
from autotune.compiler.tasks.partition import partition
from autotune.core.context_pool import ContextPool
from autotune.core.host.machine import this_machine
from autotune.registry import load_payload
from autotune.tuning.candidates import default_candidate
from schedules import shares

CALLERS = 8


@pytest.mark.parametrize("threads", [1, pytest.param(2, marks=pytest.mark.skipif(not find_openmp(), reason="OpenMP"))])
def test_many_callers_at_once_get_what_each_asked_for(threads, monkeypatch):
    monkeypatch.setattr(shares, "FORK_CYCLES", 0)
    payload, machine = load_payload("attention,heads=2,seq=32,d=16"), this_machine(threads)
    function = PayloadFunction(payload, default_candidate(partition(payload), machine), machine)
    inputs = [payload.make_inputs(seed) for seed in range(CALLERS)]
    expected = [payload.reference(**each)[0] for each in inputs]
    start = threading.Barrier(CALLERS)

    def worst(caller):
        start.wait()
        return np.max([np.abs(function(**inputs[caller]) - expected[caller]) for _ in range(50)])  # NaN, if one is

    with ThreadPoolExecutor(CALLERS) as callers:
        assert np.max(list(callers.map(worst, range(CALLERS)))) < 1e-4


def test_no_two_callers_have_one_context_and_there_are_no_more_than_may_be():
    lock, busy, made, most_seen = threading.Lock(), set(), [], []

    def make():
        made.append(object())
        return made[-1]

    pool = ContextPool(make, most=3)

    def use(_):
        with pool.take() as context:
            with lock:
                assert id(context) not in busy
                busy.add(id(context))
                most_seen.append(len(busy))
            time.sleep(0.001)
            with lock:
                busy.discard(id(context))

    with ThreadPoolExecutor(CALLERS) as callers:
        list(callers.map(use, range(100)))
    assert len(made) == max(most_seen) == 3


def test_a_lone_caller_makes_one_context():
    made = []
    pool = ContextPool(lambda: made.append(1), most=3)
    for _ in range(5):
        with pool.take():
            pass
    assert len(made) == 1


def test_a_context_that_cannot_be_made_is_told_and_keeps_nobody_waiting():
    def fail():
        raise ValueError("no memory")

    pool = ContextPool(fail, most=1)
    for _ in range(2):
        with pytest.raises(ValueError, match="no memory"), pool.take():
            pass
