"""Products with the zeros of a pad are left out, and no others: an infinite weight shows each that is computed."""

import numpy as np
import pytest
from tuning_support import MACHINES, agrees, compiled_tuned, loaded, run, run_tuned

from autotune.compiler.ir.module import context
from autotune.compiler.lowering.rewrites import Unit
from autotune.compiler.lowering.stages import compile_to
from autotune.compiler.lowering.steps import requested_rewrites
from autotune.compiler.passes.pipelines import PLAIN
from autotune.compiler.tasks.partition import partition
from autotune.core.host.machine import this_machine
from autotune.tuning.candidates import default_candidate

NAMES = {2: "conv_2d_nchw_fchw", 3: "conv_3d_ncdhw_fcdhw"}


def kind(*sizes):
    return f"tensor<{'x'.join(map(str, sizes))}xf32>"


def convolution(channels, filters, sides, window, pads, *, value="0.0", batch=1, step=1):
    """A convolution of a tensor that is padded by so many positions in front and behind."""
    rank = len(sides)
    low, high = ([0, 0, *(pad[end] for pad in pads)] for end in (0, 1))
    padded = [side + a + b for side, (a, b) in zip(sides, pads, strict=True)]
    made = [(side - taps) // step + 1 for side, taps in zip(padded, window, strict=True)]
    x, p, k, y = (
        kind(batch, channels, *sides),
        kind(batch, channels, *padded),
        kind(filters, channels, *window),
        kind(batch, filters, *made),
    )
    places = ", ".join(f"%i{d}: index" for d in range(rank + 2))
    steps = f"{{strides = dense<{step}> : vector<{rank}xi64>, dilations = dense<1> : vector<{rank}xi64>}}"
    return f"""func.func @f(%x: {x}, %k: {k}) -> {y} {{
  %value = arith.constant {value} : f32
  %zero = arith.constant 0.0 : f32
  %p = tensor.pad %x low{low} high{high} {{
  ^bb0({places}):
    tensor.yield %value : f32
  }} : {x} to {p}
  %e = tensor.empty() : {y}
  %z = linalg.fill ins(%zero : f32) outs(%e : {y}) -> {y}
  %r = linalg.{NAMES[rank]} {steps} ins(%p, %k : {p}, {k}) outs(%z : {y}) -> {y}
  return %r : {y}
}}"""


def bufferized(payload):
    return compile_to("bufferized", payload, default_candidate(partition(payload), MACHINES["avx512"])).text


def inside(size, made, tap, before, step=1):
    """Which of the windows have a tap of theirs inside of what is padded."""
    return [0 <= step * window + tap - before < size for window in range(made)]


PLANES = [
    ((16, 32, (9, 9), (3, 3), ((1, 1), (1, 1))), {}),
    ((16, 64, (14, 7), (3, 5), ((1, 1), (2, 2))), {}),
    ((24, 16, (8, 16), (3, 7), ((2, 2), (6, 6))), {}),
    ((16, 32, (11, 13), (3, 3), ((1, 0), (1, 0))), {"step": 2}),
    ((16, 32, (6, 32), (3, 7), ((2, 2), (6, 6))), {}),
]
VOLUMES = [
    ((16, 16, (5, 6, 9), (3, 3, 3), ((2, 2), (2, 2), (2, 2))), {}),
    ((8, 16, (4, 5, 12), (3, 1, 5), ((1, 1), (0, 0), (4, 4))), {"batch": 2}),
]


@pytest.mark.parametrize(("given", "more"), PLANES + VOLUMES)
def test_products_with_zeros_of_a_pad_are_left_out_and_no_others(given, more, tmp_path):
    payload = loaded(tmp_path, convolution(*given, **more))
    inputs = payload.make_inputs(0)
    expected = run(payload, inputs, None, PLAIN)
    agrees(payload, run_tuned(payload, inputs, this_machine(), 3)[0], expected)
    compute, _ = compiled_tuned(payload, MACHINES["avx512"])
    agrees(payload, compute(inputs), expected)
    text = bufferized(payload)
    assert "affine.max" in text
    assert "linalg.fill" not in text, "zeros that nobody reads"

    _, _, sides, window, pads = given
    (x, _), (k, kernel) = inputs.items()
    made = expected[0].shape[2:]
    for tap in ([0] * len(window), [taps - 1 for taps in window]):
        infinite = kernel.copy()
        infinite[(slice(None), slice(None), *tap)] = np.inf
        (result,) = compute({x: np.ones_like(inputs[x]), k: infinite})
        meets = np.ones(made, bool)
        for axis, each in enumerate(zip(sides, made, tap, (pad[0] for pad in pads), strict=True)):
            row = inside(*each, more.get("step", 1))
            meets &= np.reshape(row, [-1 if d == axis else 1 for d in range(len(made))])
        assert np.array_equal(np.isinf(result), np.broadcast_to(meets, result.shape))
        assert not np.isnan(result).any()


@pytest.mark.parametrize("given", [PLANES[0][0], VOLUMES[0][0]])
def test_a_pad_by_another_number_is_multiplied(given, tmp_path):
    payload = loaded(tmp_path, convolution(*given, value="0.5"))
    inputs = payload.make_inputs(0)
    agrees(payload, run_tuned(payload, inputs, this_machine())[0], run(payload, inputs, None, PLAIN))
    text = bufferized(payload)
    assert "affine.max" not in text
    assert "linalg.fill" in text


@pytest.mark.parametrize("filters", [4, 16])
def test_vectors_along_rows_that_begin_in_a_pad_are_multiplied(filters, tmp_path):
    """A vector of 16 that begins in front of a row holds 15 of its elements."""
    payload = loaded(tmp_path, convolution(16, filters, (6, 6, 32), (3, 3, 3), ((1, 1), (1, 1), (1, 1)), batch=2))
    inputs = payload.make_inputs(0)
    agrees(payload, run_tuned(payload, inputs, this_machine())[0], run(payload, inputs, None, PLAIN))


def test_a_program_without_pads_does_not_ask_for_the_rewrite(tmp_path):
    asked = {}
    for pads in ((0, 0), (1, 1)):
        payload = loaded(tmp_path, convolution(16, 32, (9, 9), (3, 3), (pads, pads)))
        with context():
            unit = Unit.open(payload, default_candidate(partition(payload), this_machine()))
            asked[pads] = any(name.startswith("skip-pads@") for name in requested_rewrites(unit))
    assert asked == {(0, 0): False, (1, 1): True}
