"""Convolutions that a family computes, with what is around them, compared with the float64 oracle."""

import numpy as np
from c_support import call_from_c, emit
from tuning_support import loaded, run

from autotune.compiler.passes.pipelines import TAIL
from autotune.compiler.tasks.partition import partition
from autotune.core.candidate import Candidate
from autotune.core.host.machine import this_machine
from autotune.core.scripts.assembly import assemble, panels_of, write_step
from autotune.registry import family_for, load_payload


def steps_of(payload, family, machine, **config):
    """Steps of a payload, those that a family covers by it, with some knobs given; and how many that are."""
    parts, steps = partition(payload), []
    for task in parts.tasks:
        chosen = family if family.covers(task) else family_for(task)
        knobs = {**chosen.default(task, machine), **(config if chosen is family else {})}
        steps.append(write_step(task, chosen, knobs, machine))
    return parts, steps, sum(map(family.covers, parts.tasks))


def error_of(spec, family, *, machine=None, pipeline=TAIL, taken=1, **config):
    """Largest difference to the float64 oracle, over the largest output."""
    payload, machine = load_payload(spec), machine or this_machine()
    parts, steps, count = steps_of(payload, family, machine, **config)
    assert count == taken
    inputs = payload.make_inputs(0)
    (got,) = run(payload, inputs, assemble(steps), pipeline, text=parts.payload.text, panels=panels_of(steps))
    (expected,) = payload.reference(**inputs)
    return np.abs(got - expected).max() / np.abs(expected).max()


def windows_of(x, side, step=1, apart=1, padding=0):
    """Windows of images with channels last, ``(n, h, w, c, i, j)``."""
    x = np.pad(x, [(0, 0), (padding, padding), (padding, padding), (0, 0)])
    reach = (side - 1) * apart + 1
    windows = np.lib.stride_tricks.sliding_window_view(x, (reach, reach), (1, 2))
    return windows[:, ::step, ::step, :, ::apart, ::apart]


def convolved(x, kernel, step=1, apart=1, padding=0):
    """A convolution in float64."""
    windows = windows_of(x, len(kernel), step, apart, padding)
    return np.einsum("nhwcij,ijcf->nhwf", windows, kernel, optimize=True)


def check_c_words(payload, family, folder):
    """C that is emitted stores a kernel in the words that a program is given; False where a family does not take it."""
    parts, steps, taken = steps_of(payload, family, this_machine())
    if not taken:
        return False
    inputs, panels = payload.make_inputs(0), panels_of(steps)
    weights = emit(payload, Candidate(assemble(steps), TAIL, parts.payload.text, tuple(panels)), folder)
    assert [weight.precision for weight in weights] == [family.name]
    (found,) = call_from_c(folder, payload, weights, inputs).values()
    (expected,) = run(payload, inputs, assemble(steps), TAIL, text=parts.payload.text, panels=panels)
    np.testing.assert_array_equal(found, expected)
    return True


def filled_convolution(folder, start):
    """A convolution whose sums start from a number."""
    x, k, y = "tensor<1x10x10x16xf32>", "tensor<3x3x16x16xf32>", "tensor<1x8x8x16xf32>"
    return loaded(
        folder,
        f"""func.func @f(%x: {x}, %k: {k} {{autotune.role = "weight"}}) -> {y} {{
          %start = arith.constant {start} : f32
          %empty = tensor.empty() : {y}
          %filled = linalg.fill ins(%start : f32) outs(%empty : {y}) -> {y}
          %r = linalg.conv_2d_nhwc_hwcf ins(%x, %k : {x}, {k}) outs(%filled : {y}) -> {y}
          return %r : {y}
        }}""",
    )
