"""Groups over rows of bytes: the loops of family `fused`, whose arithmetic on bytes other code replaces."""

import numpy as np
import pytest
from byte_support import FACTOR, QUANTIZE, generic, kind, softmax_of_bytes
from precision_support import computed
from tuning_support import loaded

from autotune.compiler.tasks.partition import partition
from autotune.contrib.byte_ops.marks import EXP, MULTIPLIES, PACKS, PACKS_BYTES, SUMS
from autotune.contrib.byte_ops.rows_family import BYTE_ROWS
from autotune.core.host.machine import this_machine
from autotune.core.host.matrix_unit import cpu_flags
from autotune.registry import families_for, load_payload

needs_vectors = pytest.mark.skipif(this_machine().isa != "avx512f", reason="this machine has no vectors of 512 bits")


@pytest.fixture(autouse=True)
def able(monkeypatch):
    """A processor that has the instructions, or is taken for one; what it has is asked where code is written."""
    flags = cpu_flags() | {MULTIPLIES, PACKS_BYTES}
    monkeypatch.setattr("autotune.contrib.byte_ops.rows_family.cpu_flags", lambda: flags)


def centred(rows, columns):
    """Text of rows of bytes less their means, rounded to bytes."""
    matrix, sums = kind((rows, columns)), kind((rows,), "i32")
    adds = "\n    %w = arith.extsi %i0 : i8 to i32\n    %y = arith.addi %w, %i1 : i32"
    body = f"""
    %p = arith.sitofp %i0 : i8 to f32
    %q = arith.sitofp %i1 : i32 to f32
    %s = arith.constant {1 / columns:.17e} : f32
    %t = arith.mulf %q, %s : f32
    %v = arith.subf %p, %t : f32"""
    ops = [
        generic("of_sum", ("i, j", "i"), ("%x", [matrix]), ("%zeros", sums), adds),
        generic(
            "found",
            ("i, j", "i", "i, j"),
            ("%x", "%of_sum", [matrix, sums]),
            ("%into", matrix),
            body + QUANTIZE.format(zero=5),
        ),
    ]
    return f"""func.func @f(%x: {matrix}) -> {matrix} {{
  %none = arith.constant 0 : i32
  %sums = tensor.empty() : {sums}
  %zeros = linalg.fill ins(%none : i32) outs(%sums : {sums}) -> {sums}
  %into = tensor.empty() : {matrix}{"".join(ops)}
  return %found : {matrix}
}}"""


def softmax_wanted(x):
    """The softmax, in float64."""
    e = np.exp((x.astype(float) - x.max(1, keepdims=True)) * FACTOR)
    return np.rint(e / e.sum(1, keepdims=True) * 255) - 128


def centred_wanted(x):
    """Rows less their means, in float32."""
    means = x.sum(1, dtype=np.int32, keepdims=True).astype(np.float32) * np.float32(1 / x.shape[1])
    return np.clip(np.rint(x - means) + 5, -128, 127)


GROUPS = {"softmax": (softmax_of_bytes, softmax_wanted), "centred": (centred, centred_wanted)}
CONFIGS = ({"rows": 8, "fuse": False}, {"vectors": 8})


@needs_vectors
@pytest.mark.parametrize("columns", [128, 100])
@pytest.mark.parametrize("name", GROUPS)
def test_rows_are_as_defined_with_and_without_the_instructions(name, columns, monkeypatch, tmp_path):
    text, wanted = GROUPS[name]
    payload = loaded(tmp_path, text(8, columns))
    (argument,) = (each.name for each in payload.arguments if each.role == "input")
    x = np.random.default_rng(1).integers(-128, 128, (8, columns)).astype(np.int8)
    x[0] = 7
    for config in CONFIGS:
        (found,) = computed(BYTE_ROWS, payload, {argument: x}, **config)
        np.testing.assert_array_equal(found, wanted(x))
    for module in ("contrib.byte_ops.packs_code", "compiler.passes.rounding"):
        monkeypatch.setattr(f"autotune.{module}.cpu_flags", frozenset)
    (emulated,) = computed(BYTE_ROWS, payload, {argument: x})
    np.testing.assert_array_equal(emulated, wanted(x))


def scripts(folder, name):
    """A group's task, and the script of a config of it."""
    (task,) = partition(loaded(folder, GROUPS[name][0](8, 128))).tasks
    machine = this_machine()
    return task, lambda **config: BYTE_ROWS.build(task, {**BYTE_ROWS.default(task, machine), **config}, machine)


def test_it_comes_first_and_marks_the_arithmetic_of_bytes(tmp_path):
    task, softmax_script = scripts(tmp_path, "softmax")
    assert families_for(task)[0].name == "byte_rows"
    assert [mark in softmax_script() for mark in (EXP, SUMS, PACKS)] == [True, False, True]
    assert EXP not in softmax_script(math="polynomial")
    _, centred_script = scripts(tmp_path, "centred")
    assert [mark in centred_script() for mark in (EXP, SUMS, PACKS)] == [False, True, True]


def test_groups_without_bytes_and_processors_without_the_instructions_are_not_covered(monkeypatch, tmp_path):
    (real,) = partition(load_payload("softmax,rows=8,cols=64")).tasks
    assert not BYTE_ROWS.covers(real)
    task, _ = scripts(tmp_path, "softmax")
    monkeypatch.setattr("autotune.contrib.byte_ops.rows_family.cpu_flags", frozenset)
    assert not BYTE_ROWS.covers(task)
    assert MULTIPLIES in BYTE_ROWS.lacking
