"""Rounding: what a right program of badly conditioned results may be off is measured; it explains no other error."""

from dataclasses import replace

import numpy as np
import pytest
from tuning_support import default_steps

from autotune.compiler.lowering.program import compile_program
from autotune.compiler.passes.pipelines import TAIL
from autotune.compiler.tasks.partition import partition
from autotune.core.candidate import Candidate
from autotune.core.host.machine import this_machine
from autotune.core.payload import DTYPES, Argument, Payload
from autotune.core.scripts.assembly import assemble
from autotune.core.stats import tolerance
from autotune.registry import load_payload
from autotune.worker.bench.rounding import a_unit_off
from autotune.worker.bench.testbench import Testbench
from autotune.worker.bench.verify import MOST_SUMS, MOVES, allowed_error, verify


@pytest.fixture(scope="module")
def bench():
    """Attention with logits of 40 and more; what is right is said by its plain lowering."""
    scaled = load_payload("attention,heads=2,seq=94,d=152")
    text = scaled.text.replace("8.111071057e-02", "4.0")
    assert text != scaled.text
    return Testbench(replace(scaled, text=text, reference=None), seed=0)


def of_sums(bench):
    return allowed_error(bench.payload, "f32", float(np.max(np.abs(bench.expected[0][0]))))


def test_program_as_right_as_the_plain_one_is_right(bench):
    parts = partition(bench.payload)
    script = assemble(default_steps(parts, this_machine()))
    program = compile_program(bench.payload, Candidate(script, TAIL, text=parts.payload.text))
    verdict = bench.verify_alone(program)
    assert verdict.outcome == "ok", verdict.diagnostic
    assert verdict.max_error > of_sums(bench)  # or this test shows nothing


def test_error_that_rounding_does_not_explain_is_wrong(bench):
    wrong = bench.expected[0][0].copy()
    wrong[1, 2, 3] += MOVES * bench.moved(0)[0] * 1.1
    verdict = bench.judge(0, [wrong])
    assert verdict.outcome == "wrong-result"
    assert "out[1, 2, 3] is" in verdict.diagnostic


def test_what_is_asked_leaves_arrays_as_they_are(bench):
    bench.restart(bench.cases[0])
    for array in bench.written:
        array.fill(7.0)
    before = [array.copy() for array in bench.arrays]
    bench._moved.clear()
    assert bench.moved(0)[0] > 0
    assert all(np.array_equal(a, b) for a, b in zip(bench.arrays, before, strict=True))


def test_sums_are_allowed_no_more_than_before():
    payload = load_payload("matmul,m=64,n=48,k=512")
    plain = Testbench(replace(payload, reference=None), seed=0)
    magnitude = float(np.max(np.abs(plain.expected[0][0])))
    of_sums = tolerance("f32", payload.reduction, magnitude)
    assert allowed_error(payload, "f32", magnitude, plain.moved(0)[0]) == of_sums


def test_results_that_turn_by_rounding_are_allowed_a_share_of_their_size():
    payload = Payload("p", "", "f", (Argument("y", "output", (3,)),), reduction=1)
    expected = np.array([1.0, 0.0, 1.0])
    turned = np.array([1.0, 1.0, 1.0])
    assert verify(payload, [turned.astype(np.float32)], [expected], moved=[1.0]).outcome == "wrong-result"
    assert allowed_error(payload, "f32", 1.0, 1.0) == MOST_SUMS * tolerance("f32", 1, 1.0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_are_a_unit_off_and_others_are_not(dtype):
    rng = np.random.default_rng(0)
    array = np.array([1, -2, 3, 0, 100], DTYPES[dtype])
    near = a_unit_off(array, rng)
    assert near.dtype == array.dtype
    if dtype.startswith("i"):
        assert np.array_equal(near, array)
        return
    changed = near != array
    assert changed.tolist() == [True, True, True, False, True]
    assert np.array_equal(np.nextafter(near, array), array)
    strange = np.array([np.inf, -np.inf, np.nan], DTYPES[dtype])
    assert np.array_equal(a_unit_off(strange, rng), strange, equal_nan=True)
