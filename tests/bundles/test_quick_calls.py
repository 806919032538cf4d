"""Whole calls by compiled code: what is out of the ordinary is Python's, and nobody waits for what is free."""

import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from types import BuiltinFunctionType

import numpy as np
import pytest

import autotune as at
from autotune.bundles import contexts

SPEC = "matmul,m=24,n=32,k=16,constant_b=1"
RNG = np.random.default_rng(0)
A = RNG.standard_normal((24, 16), dtype=np.float32)
B, OTHER = RNG.standard_normal((2, 16, 32), dtype=np.float32)
CALLERS, CALLS = 8, 300


@pytest.fixture
def function():
    found = at.compile(SPEC)
    found.keep(b=B)
    return found


@pytest.fixture
def by_python(function, monkeypatch):
    """Numbers of arrays of the calls that Python has done since."""
    done, call = [], contexts.CallContext.call

    def counted(self, plan, arrays):
        done.append(len(arrays))
        return call(self, plan, arrays)

    monkeypatch.setattr(contexts.CallContext, "call", counted)
    return done


def agree(found, wanted):
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_a_plain_call_is_none_of_pythons(function, by_python):
    agree(function(A), A @ B)
    assert isinstance(function.__call__, BuiltinFunctionType)
    assert by_python == []


@pytest.mark.parametrize(
    "call",
    [
        lambda function: function(a=A),
        lambda function: function(np.asfortranarray(A)),
        lambda function: function(A.tolist()),
        lambda function: function(A.astype(A.dtype.newbyteorder())),
    ],
)
def test_what_is_out_of_the_ordinary_is_pythons_and_the_next_call_is_not(call, function, by_python):
    agree(call(function), A @ B)
    assert len(by_python) == 1
    agree(function(A), A @ B)
    assert len(by_python) == 1


@pytest.mark.parametrize("arguments", [(), (A, B, A), (A[:3],), (None,), ("A",), (A.astype(np.int64) > 0, 1)])
def test_what_cannot_be_is_refused_and_the_next_call_is_right(arguments, function):
    with pytest.raises(at.AutotuneError):
        function(*arguments)
    agree(function(A), A @ B)


def test_a_weight_of_one_call_is_not_that_of_the_next(function):
    agree(function(A, OTHER), A @ OTHER)
    agree(function(A), A @ B)


def test_a_call_of_before_weights_were_kept_does_not_read_others():
    function = at.compile(SPEC)
    before = function.__call__
    function.keep(b=B)
    agree(function(A), A @ B)
    with pytest.raises(at.AutotuneError):
        before()
    agree(before(A, OTHER), A @ OTHER)
    agree(function(A), A @ B)


def test_a_result_that_cannot_be_made_is_an_error_and_the_context_is_free_again(monkeypatch):
    function = at.compile("matmul,m=256,n=256,k=8")  # whose result is large
    given = [RNG.standard_normal(shape, dtype=np.float32) for shape in ((256, 8), (8, 256))]

    def fail(*_):
        raise MemoryError("no room")

    with monkeypatch.context() as patch:
        patch.setattr(contexts, "aligned_array", fail)
        with pytest.raises(MemoryError, match="no room"):
            function(*given)
    agree(function(*given), given[0] @ given[1])


def test_many_threads_get_what_each_asked_for(function):
    inputs = RNG.standard_normal((CALLERS, 24, 16), dtype=np.float32)
    start = threading.Barrier(CALLERS)

    def worst(caller):
        start.wait()
        mine = inputs[caller]
        found = [function(mine) if n % 3 else function(a=mine) for n in range(CALLS)]
        return max(np.abs(each - mine @ B).max() for each in found)

    with ThreadPoolExecutor(CALLERS) as callers:
        assert max(callers.map(worst, range(CALLERS))) < 1e-4


def test_a_function_leaves_no_cycle():
    function = at.compile(SPEC)
    seen = weakref.ref(function._calls.caller)
    gc.disable()
    try:
        del function
        assert seen() is None
    finally:
        gc.enable()
