"""Kernels written by hand: they compute what they say, so that their work is what is counted."""

import numpy as np
import pytest
from tuning_support import run

from autotune.compiler.codegen.openmp import find_openmp
from autotune.compiler.lowering.pipeline import PLAIN, TAIL, tail
from autotune.worker.bench.kernels import copy_payload, fma_payload, on_threads, read_payload, spin_payload
from autotune.worker.bench.roofs import REFERENCE_CHAINS, STEPS

LANES = 8
REFERENCE = "6b94e9ee5c095738eb0e7674282594af1e8e474224cc60096041c8970adb2633"


def called(payload, **inputs):
    (out,) = run(payload, inputs, None, TAIL)
    return out


def test_reference_kernel_is_the_one_that_stored_times_were_normalised_by():
    assert fma_payload(16, REFERENCE_CHAINS, STEPS).sha256 == REFERENCE


@pytest.mark.parametrize("chains", [1, 2, 8])
def test_spin_adds_up_what_its_chains_come_to(chains):
    x = np.linspace(-0.5, 0.4, LANES, dtype="f4")
    expected = np.zeros(LANES)
    for i in range(chains):
        held = np.full(LANES, i + 0.5)
        for _ in range(5):
            held = held * x + 1
        expected += held
    np.testing.assert_allclose(called(spin_payload(LANES, 5, chains), **{"in": x}), expected, rtol=1e-5)


@pytest.mark.parametrize("size", [LANES * 8 * 4, 3 * LANES * 8 * 4 + 20])
def test_read_sums_every_whole_step_of_its_array(size):
    payload = read_payload(LANES, size)
    (count,) = payload.arguments[0].shape
    assert size - LANES * 8 * 4 < 4 * count <= size
    x = np.arange(count, dtype="f4")
    np.testing.assert_allclose(called(payload, **{"in": x}).sum(), x.sum())


@pytest.mark.parametrize("count", [LANES, LANES * 3 + 5, 3])
def test_copy_copies_every_element(count):
    x = np.arange(count, dtype="f4")
    np.testing.assert_array_equal(called(copy_payload(count, LANES), x=x), x)


def test_on_one_thread_a_kernel_is_itself():
    kernel = fma_payload(LANES, 2, 3)
    assert on_threads(kernel, 1) is kernel


@pytest.mark.skipif(find_openmp() is None, reason="no OpenMP runtime is installed")
@pytest.mark.parametrize("pipeline", [PLAIN, tail(1), tail(3)])
def test_every_thread_does_the_work_of_a_kernel_on_a_row_of_its_own(pipeline):
    size = LANES * 8 * 4 * 2
    x = np.arange(3 * size // 4, dtype="f4").reshape(3, -1)
    payload = on_threads(read_payload(LANES, size), 3)
    (found,) = run(payload, {"in": x}, None, pipeline)
    np.testing.assert_allclose(found.sum(axis=1), x.sum(axis=1))
