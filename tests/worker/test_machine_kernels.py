"""Kernels written by hand: they compute what they say, so that their work is what is counted."""

import re
from dataclasses import replace

import numpy as np
import pytest
from tuning_support import run

from autotune.compiler.codegen.object_code import disassemble
from autotune.compiler.codegen.openmp import find_openmp
from autotune.compiler.lowering.emit import Emission, emit_program
from autotune.compiler.lowering.program import compile_program
from autotune.compiler.passes.dots import INTRINSICS
from autotune.compiler.passes.pipelines import PLAIN, TAIL, tail
from autotune.compiler.passes.tiles import DOTS
from autotune.contrib.targets.target_file import find_target
from autotune.core.candidate import Candidate, Claim
from autotune.core.host.machine import this_machine
from autotune.core.precision import TILES, VECTORS
from autotune.worker.bench.kernels import (
    TILES_OF_SUMS,
    copy_payload,
    dot_payload,
    fma_payload,
    on_threads,
    read_payload,
    spin_payload,
    tile_payload,
)
from autotune.worker.bench.roofs import REFERENCE_CHAINS, STEPS, units

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


@pytest.mark.parametrize("precision", [each for each in VECTORS if each.parts == 1], ids=lambda each: each.name)
def test_dots_sum_products_of_words(precision):
    if precision.lacking:
        pytest.skip(precision.lacking)
    kernel = dot_payload(INTRINSICS[precision.element], precision.element, 1, 3)
    x = np.full(16, 0.5, "f4")  # a word of 0x3f000000: values 0 and 0x3f00, 63 and 0 as bytes
    start, each = {
        "bf16": (0.5, 0.25),
        "int16": (0x3F000000, 0x3F00**2),
        "int8": (0x3F000000, 0x3F**2),
    }[precision.name]
    out = compile_program(kernel, Candidate(None, TAIL))
    held = [x.copy()]
    out.bind(held).run(1)
    found = held[0] if precision.name == "bf16" else held[0].view("i4")
    np.testing.assert_array_equal(found, np.full(16, start + 3 * each, found.dtype))


@pytest.mark.parametrize("element", ["bf16", "i8"])
def test_tiles_of_sums_stay_in_the_unit(element):
    kernel = tile_payload(DOTS[element], 7)
    target = find_target("sapphirerapids")
    emitted = emit_program(Emission(Claim(kernel, Candidate(None, TAIL)), "object", target))
    text = disassemble(emitted.data, kernel.entry)
    assert len(re.findall("tdpbf16ps|tdpbssd", text)) % TILES_OF_SUMS == 0 < text.count("tdp")
    assert text.count("tileloadd") == text.count("tilestored") == TILES_OF_SUMS


def test_a_unit_is_measured_where_it_is():
    found = {precision.unit for precision in units(replace(this_machine(), tiles=""))}
    assert found == {each.unit for each in VECTORS if not each.lacking}
    assert {precision.unit for precision in TILES} == {"tile_bf16", "tile_int8"}


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
