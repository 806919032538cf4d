"""Products of rounded operands: what they mean, in NumPy, and programs that compute them."""

import ml_dtypes
import numpy as np
import pytest
from tuning_support import run

from autotune.compiler.lowering.pipeline import TAIL
from autotune.compiler.tasks.partition import partition
from autotune.core.host.machine import this_machine
from autotune.core.precision import PRECISIONS
from autotune.core.scripts.assembly import assemble, panels_of, write_step
from autotune.registry import rounding_families

FAMILIES = [
    pytest.param(family, marks=pytest.mark.skipif(bool(lacking := family.precision.lacking), reason=lacking or "here"))
    for family in rounding_families()
]


def in_steps(values, axis, most):
    """Values rounded to whole steps, so many to the largest of a row or column."""
    largest = np.abs(values).max(axis=axis, keepdims=True)
    steps = np.where(largest > 0, np.float32(most) / np.where(largest > 0, largest, 1), 0).astype("f4")
    in_code = values.astype("f8") if axis == 1 else values  # A is rounded by a fused multiply-add, B by NumPy
    return np.rint(in_code * steps) * (largest * np.float32(1 / most)).astype("f8")


def product(precision, a, b):
    """A times B, operands rounded as a precision says, summed in float64."""
    if precision == PRECISIONS["bf16"]:
        return a.astype(ml_dtypes.bfloat16).astype("f8") @ b.astype(ml_dtypes.bfloat16).astype("f8")
    return in_steps(a, 1, precision.most) @ in_steps(b, 0, precision.most)


def computed(family, payload, inputs, **config):
    """What a payload of one task gives, compiled by a family; some knobs given."""
    parts = partition(payload)
    (task,) = parts.tasks
    machine = this_machine()
    step = write_step(task, family, {**family.default(task, machine), **config}, machine)
    return run(payload, inputs, assemble([step]), TAIL, text=parts.payload.text, panels=panels_of([step]))
