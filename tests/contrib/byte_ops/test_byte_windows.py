"""Sums of products of neighbours in rows of bytes: the whole numbers that NumPy gives, whatever windows there are."""

from itertools import product

import numpy as np
import pytest
from byte_support import sums_of_windows
from precision_support import computed
from tuning_support import loaded, run

from autotune.compiler.codegen.openmp import find_openmp
from autotune.compiler.passes.pipelines import tail
from autotune.compiler.tasks.partition import partition
from autotune.contrib.byte_ops.marks import CHOOSES, MULTIPLIES
from autotune.contrib.byte_ops.windows_family import BYTE_WINDOWS
from autotune.core.host.machine import this_machine
from autotune.core.host.matrix_unit import cpu_flags
from autotune.core.scripts.assembly import assemble, write_step
from autotune.registry import families_for

RNG = np.random.default_rng(5)


@pytest.fixture(autouse=True)
def able(monkeypatch):
    """A processor that chooses and multiplies bytes, or is taken for one; code is written for what there is."""
    monkeypatch.setattr("autotune.contrib.byte_ops.family.cpu_flags", lambda: cpu_flags() | {CHOOSES, MULTIPLIES})


def convolution(folder, channels, plane, window, *, stride=1, weights=None, others=1, narrow=False):
    """A convolution of each channel of (channels, h, w) by itself, its places one by one, and what follows it."""
    size = [(side - places) // stride + 1 for side, places in zip(plane, window, strict=True)]
    taps = list(product(*map(range, window)))
    weights = RNG.integers(-127, 128, (len(taps), channels)) if weights is None else weights
    text = sums_of_windows(plane, window, weights, stride=stride, others=others, narrow=narrow)
    payload = loaded(folder, text)
    x, residual = (RNG.integers(-128, 128, a.shape).astype(np.int8) for a in payload.arguments if a.role == "input")
    given = dict(zip([a.name for a in payload.arguments if a.role == "input"], (x, residual), strict=True))
    wanted = residual.astype(np.int64) + others
    for (i, j), w in zip(taps, weights, strict=True):
        part = x[:, i : i + (size[0] - 1) * stride + 1 : stride, j : j + (size[1] - 1) * stride + 1 : stride]
        wanted += part.astype(np.int64) * w[:, None, None]
    return payload, given, (wanted >> 9).astype(np.int8)


@pytest.mark.parametrize(
    ("plane", "window", "stride"),
    [
        ((5, 9), (3, 3), 1),
        ((7, 58), (3, 3), 1),
        ((7, 130), (2, 5), 1),
        ((9, 35), (3, 3), 2),
        ((8, 150), (2, 7), 2),
        ((9, 61), (3, 2), 3),
        ((9, 64), (2, 3), 4),
        ((11, 80), (2, 3), 5),
        ((6, 28), (4, 1), 1),
    ],
    ids=str,
)
def test_sums_of_windows_are_those_of_whole_numbers(plane, window, stride, tmp_path):
    payload, given, wanted = convolution(tmp_path, 3, plane, window, stride=stride)
    (found,) = computed(BYTE_WINDOWS, payload, given)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("lanes", [16, 32, 64])
def test_steps_of_every_length_give_them(lanes, tmp_path):
    payload, given, wanted = convolution(tmp_path, 2, (4, 101), (3, 3))
    (found,) = computed(BYTE_WINDOWS, payload, given, lanes=lanes)
    np.testing.assert_array_equal(found, wanted)


def test_without_the_instruction_they_are_multiplications(monkeypatch, tmp_path):
    payload, given, wanted = convolution(tmp_path, 2, (4, 40), (3, 3))
    monkeypatch.setattr("autotune.compiler.passes.rounding.cpu_flags", frozenset)
    (found,) = computed(BYTE_WINDOWS, payload, given)
    np.testing.assert_array_equal(found, wanted)


def test_the_whole_range_of_bytes_is_summed(tmp_path):
    ends = np.array([[127, -127], [-127, 127], [1, 127], [-127, -127], [127, 0], [127, -1]])
    payload, given, _ = convolution(tmp_path, 2, (6, 40), (2, 3), weights=ends, others=-7)
    (x, residual) = given.values()
    x[...] = np.resize(np.array([-128, 127, 127, -128, 0], np.int8), x.shape)
    (found,) = computed(BYTE_WINDOWS, payload, given)
    wanted = residual.astype(np.int64) - 7
    for (i, j), w in zip(product(range(2), range(3)), ends, strict=True):
        wanted += x[:, i : i + 5, j : j + 38].astype(np.int64) * w[:, None, None]
    np.testing.assert_array_equal(found, (wanted >> 9).astype(np.int8))


def test_sums_of_16_bits_that_do_not_fit_wrap_as_they_are_written(tmp_path):
    payload, given, _ = convolution(tmp_path, 2, (6, 40), (2, 3), weights=np.full((6, 2), 127), narrow=True)
    (x, residual) = given.values()
    x[...] = np.resize(np.array([-128, 127, 5], np.int8), x.shape)
    (found,) = computed(BYTE_WINDOWS, payload, given)
    wanted = residual.astype(np.int64) + 1
    for i, j in product(range(2), range(3)):
        once = x[:, i : i + 5, j : j + 38].astype(np.int16) * np.int16(127)
        wanted += once + once
    np.testing.assert_array_equal(found, (wanted >> 9).astype(np.int8))


@pytest.mark.skipif(find_openmp() is None, reason="no OpenMP runtime is installed")
def test_threads_share_channels(tmp_path):
    payload, given, wanted = convolution(tmp_path, 64, (4, 66), (3, 3))
    parts, machine = partition(payload), this_machine(2)
    (task,) = parts.tasks
    step = write_step(task, BYTE_WINDOWS, BYTE_WINDOWS.default(task, machine), machine)
    assert step.config["pieces_m"] == 2
    (found,) = run(payload, given, assemble([step]), tail(2), text=parts.payload.text)
    np.testing.assert_array_equal(found, wanted)


def test_it_comes_first_where_there_are_enough_products(tmp_path):
    names = {}
    for window in ((1, 3), (3, 3)):
        payload, *_ = convolution(tmp_path, 2, (6, 40), window)
        names[window] = [family.name for family in families_for(partition(payload).tasks[0])]
    assert names == {(1, 3): ["vectorize"], (3, 3): ["byte_windows", "vectorize"]}
