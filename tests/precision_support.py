"""Products of rounded operands: what they mean, in NumPy, and programs that compute them."""

import numpy as np
import pytest
from tuning_support import OPTIMISED, run, run_steps

from autotune.compiler.passes.pipelines import TAIL
from autotune.compiler.tasks.partition import partition
from autotune.core.host.machine import this_machine
from autotune.core.host.matrix_unit import ROWS
from autotune.core.scripts.assembly import assemble, panels_of, write_step
from autotune.registry import family_for, load_payload, rounding_families
from schedules.narrow import Narrow

WORDS = [family for family in rounding_families() if isinstance(family, Narrow)]  # features bring others
FAMILIES = [
    pytest.param(family, marks=pytest.mark.skipif(bool(lacking := family.precision.lacking), reason=lacking or "here"))
    for family in WORDS
    if not family.precision.by_tiles  # tests/compiler/test_tiles.py
]


def in_steps(values, axis, most):
    """Values rounded to whole steps, so many to the largest of a row or column."""
    largest = np.abs(values).max(axis=axis, keepdims=True)
    steps = np.where(largest > 0, np.float32(most) / np.where(largest > 0, largest, 1), 0).astype("f4")
    in_code = values.astype("f8") if axis == 1 else values  # A is rounded by a fused multiply-add, B by NumPy
    return np.rint(in_code * steps) * (largest * np.float32(1 / most)).astype("f8")


def product(precision, a, b):
    """A times B, operands rounded as a precision says, summed in float64."""
    if not precision.most:
        of_a, of_b = ([part.astype("f8") for part in precision.split(operand)] for operand in (a, b))
        return sum(of_a[i] @ of_b[j] for i, j in precision.products)
    if precision.chunk:  # columns are rounded as finely as sums allow
        scale, steps = precision.quantise(b)
        return in_steps(a, 1, precision.most) @ (steps.astype("f8") * scale)
    return in_steps(a, 1, precision.most) @ in_steps(b, 0, precision.most)


def flushed(values):
    """Numbers of f32, those below the smallest normal one as zeros of their sign."""
    return values * (np.abs(values) >= np.finfo("f4").smallest_normal)


def by_unit(precision, a, b):
    """A times B, bit for bit as a matrix unit sums it, of f32: parts in turn, then 16 words at a time.

    Of a word, first values are summed apart from second ones, and both sums are added to C; products of bf16 are exact.
    """
    if precision.most:
        return by_unit_in_steps(precision, a, b)
    words, k = precision.part_words(a.shape[1]) * 2, a.shape[1]
    padded = np.zeros((len(a), words), "f4"), np.zeros((words, b.shape[1]), "f4")
    padded[0][:, :k], padded[1][:k] = a, b
    of_a, of_b = ([flushed(part.astype("f4")) for part in precision.split(operand)] for operand in padded)
    total = np.zeros((len(a), b.shape[1]), "f4")
    for start in range(0, words, 2 * ROWS):
        for i, j in precision.products:
            first, second = np.zeros_like(total), np.zeros_like(total)
            for place in range(start, start + 2 * ROWS, 2):
                first = flushed(first + of_a[i][:, place, None] * of_b[j][place])
                second = flushed(second + of_a[i][:, place + 1, None] * of_b[j][place + 1])
            total = flushed(total + flushed(first + second))
    return total


def by_unit_in_steps(precision, a, b):
    """The same of int8: whole numbers, then the scales of row and column."""
    most, inverse = np.float32(precision.most), np.float32(1 / precision.most)
    largest = np.abs(a).max(axis=1, keepdims=True)
    steps = np.divide(most, largest, out=np.zeros_like(largest), where=largest > 0)
    rows = np.rint(a.astype("f8") * steps).astype("i4")
    scale, columns = precision.quantise(b)
    return (rows @ columns.astype("i4")).astype("f4") * (largest * inverse * scale)


def computed(family, payload, inputs, **config):
    """What a payload gives of whose tasks a family compiles all; some knobs given.

    It is not optimised by LLVM, which takes longer than all else: `error_of_whole` is, as programs of the tool are.
    """
    parts, machine = partition(payload), this_machine()
    steps = [write_step(task, family, {**family.default(task, machine), **config}, machine) for task in parts.tasks]
    return run(payload, inputs, assemble(steps), TAIL, text=parts.payload.text, panels=panels_of(steps))


def matrices(inputs, got, *, turned=False):
    """Every A, B (k, n) and C of a product, or of those of a batch."""
    whole = inputs["a"], inputs["b"].swapaxes(-1, -2) if turned else inputs["b"], got
    return zip(*whole, strict=True) if got.ndim == 3 else [whole]


def error_of_whole(family, spec):
    """Largest error, over the largest value, of a model whose products, of weights and attention, a family rounds."""
    payload, machine = load_payload(spec), this_machine()
    parts = partition(payload)
    taken = [family if family.covers(task) else family_for(task) for task in parts.tasks]
    assert taken.count(family) == 5 + family.precision.packs_in_call
    steps = [write_step(t, f, f.default(t, machine), machine) for t, f in zip(parts.tasks, taken, strict=True)]
    inputs = payload.make_inputs(0)
    (got,) = run_steps(payload, parts, inputs, steps, level=OPTIMISED)
    (expected,) = payload.reference(**inputs)
    return np.abs(got - expected).max() / np.abs(expected).max()
