"""Convolutions that a family computes, with what is around them, compared with the float64 oracle."""

import numpy as np
from tuning_support import loaded, run

from autotune.compiler.passes.pipelines import TAIL
from autotune.compiler.tasks.partition import partition
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
