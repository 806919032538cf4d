"""Arrays of results: memory is used again when nobody sees it any more, and never before."""

import threading

import numpy as np
import pytest

from autotune.bundles.contexts import LEAST_BYTES, MOST_FREE, Results

SHAPE = (4, LEAST_BYTES // 16)
FLOAT = np.dtype(np.float32)


@pytest.fixture
def results():
    return Results(SHAPE, FLOAT, "small")


def test_an_array_is_as_asked_for(results):
    array = results.empty()
    assert (array.shape, array.dtype) == (SHAPE, FLOAT)
    assert array.flags.c_contiguous
    assert array.flags.aligned
    assert array.flags.writeable


def test_memory_of_a_dropped_array_is_used_again(results):
    array = results.empty()
    address = array.ctypes.data
    del array
    assert results.empty().ctypes.data == address


@pytest.mark.parametrize("view", [lambda a: a[1:], lambda a: a.T, memoryview, lambda a: a.view(np.int32).ravel()[::3]])
def test_memory_is_left_alone_while_a_view_of_it_is_alive(results, view):
    array = results.empty()
    array[...] = 7.0
    kept, before = view(array), array.ctypes.data
    del array
    other = results.empty()
    other[...] = 0.0
    assert other.ctypes.data != before
    assert np.asarray(kept).view(np.float32).flat[0] == 7.0
    del kept
    assert results.empty().ctypes.data == before


def test_what_was_changed_of_a_dropped_array_is_not_seen_again(results):
    array = results.empty()
    array.shape = (-1,)
    array.flags.writeable = False
    address = array.ctypes.data
    del array
    other = results.empty()
    assert other.ctypes.data == address
    assert other.shape == SHAPE
    assert other.flags.writeable


def test_little_memory_is_kept_back(results):
    arrays = [results.empty() for _ in range(5)]
    assert len({array.ctypes.data for array in arrays}) == 5
    arrays.clear()
    assert len(results._recent) == MOST_FREE


def test_an_array_outlives_what_made_it():
    results = Results(SHAPE, FLOAT, "huge")
    array = results.empty()
    array[...] = 3.0
    del results
    assert array.sum() == 3.0 * array.size


def test_threads_never_share_an_array(results):
    wrong = []

    def fill(value):
        for _ in range(30):
            array = results.empty()
            array[...] = value
            wrong.extend(array[array != value][:1])

    threads = [threading.Thread(target=fill, args=(float(value),)) for value in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
