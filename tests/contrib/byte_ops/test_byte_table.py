"""Functions of one byte, read from a table: the same bytes as by the arithmetic of each element."""

import numpy as np
import pytest
from byte_support import function_of_bytes as text_of
from precision_support import computed
from tuning_support import loaded, run

from autotune.compiler.codegen.openmp import find_openmp
from autotune.compiler.ir.module import context, parse
from autotune.compiler.passes.pipelines import tail
from autotune.compiler.tasks.partition import partition
from autotune.contrib.byte_ops.marks import CHOOSES, TABLE
from autotune.contrib.byte_ops.table_code import write_byte_tables
from autotune.contrib.byte_ops.table_family import BYTE_TABLE, LEAST
from autotune.contrib.emit.levels import FEATURES, INTRINSICS
from autotune.core.host.machine import this_machine
from autotune.core.host.matrix_unit import cpu_flags
from autotune.core.scripts.assembly import assemble, write_step
from autotune.registry import families_for
from schedules.vectorize import VECTORIZE

SHAPES = ((LEAST,), (LEAST + 61,), (3, 1500), (9, 7, 71))


@pytest.fixture(autouse=True)
def able(monkeypatch):
    """A processor that chooses bytes, or is taken for one; what it has is asked where code is written."""
    monkeypatch.setattr("autotune.contrib.byte_ops.family.cpu_flags", lambda: cpu_flags() | {CHOOSES})


def function_of_bytes(folder, shape, *body, **kinds):
    """A payload of an element-wise op of one tensor."""
    return loaded(folder, text_of(shape, *body, **kinds))


def bytes_for(payload):
    """Inputs in which every byte is."""
    (name,) = (a.name for a in payload.arguments if a.role == "input")
    shape = payload.arguments[0].shape
    return {name: np.resize(np.arange(256).astype(np.int8), shape)}


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("vectors", [1, 4])
def test_a_table_gives_the_bits_that_arithmetic_gives(shape, vectors, tmp_path):
    payload = function_of_bytes(tmp_path, shape)
    inputs = bytes_for(payload)
    (found,) = computed(BYTE_TABLE, payload, inputs, vectors=vectors)
    (wanted,) = computed(VECTORIZE, payload, inputs)
    np.testing.assert_array_equal(found, wanted)
    assert len(np.unique(wanted)) > 50


def test_without_the_instruction_the_table_is_read_one_by_one(monkeypatch, tmp_path):
    payload = function_of_bytes(tmp_path, SHAPES[-1])
    inputs = bytes_for(payload)
    (found,) = computed(BYTE_TABLE, payload, inputs)
    monkeypatch.setattr("autotune.contrib.byte_ops.table_code.cpu_flags", frozenset)
    (emulated,) = computed(BYTE_TABLE, payload, inputs)
    np.testing.assert_array_equal(emulated, found)


def test_a_number_that_is_computed_outside_of_an_op_is_in_every_lane():
    """As loops of other ops may have it computed when a script comes to this one."""
    text = f"""func.func @f(%x: memref<64xi8>, %y: memref<64xi8>) {{
  %wide = arith.constant 3 : i32
  %three = arith.trunci %wide : i32 to i8
  linalg.generic {{indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}}
    ins(%x : memref<64xi8>) outs(%y : memref<64xi8>) attrs = {{{TABLE} = 1 : i64}} {{
  ^bb0(%a: i8, %o: i8):
    %b = arith.addi %a, %three : i8
    linalg.yield %b : i8
  }}
  return
}}"""
    with context():
        module = parse(text, "mine")
        write_byte_tables(module)
        assert module.operation.verify()
        assert "linalg" not in str(module)
        assert "vector.broadcast %" in str(module)


@pytest.mark.skipif(find_openmp() is None, reason="no OpenMP runtime is installed")
def test_threads_share_rows(tmp_path):
    payload = function_of_bytes(tmp_path, (64, 257))
    parts, inputs, machine = partition(payload), bytes_for(payload), this_machine(2)
    (task,) = parts.tasks
    step = write_step(task, BYTE_TABLE, BYTE_TABLE.default(task, machine), machine)
    assert step.config["pieces_m"] == 2
    (together,) = run(payload, inputs, assemble([step]), tail(2), text=parts.payload.text)
    (alone,) = computed(BYTE_TABLE, payload, inputs)
    np.testing.assert_array_equal(together, alone)


def test_it_comes_first_where_numbers_of_f32_are_computed_of_enough_bytes(tmp_path):
    relu = "\n    %z = arith.constant 0 : i8\n    %b = arith.maxsi %x, %z : i8"
    real = "\n    %b = arith.sitofp %x : i8 to f32"
    covered = {
        "sigmoid": function_of_bytes(tmp_path, (LEAST,)),
        "few": function_of_bytes(tmp_path, (LEAST - 1,)),
        "cheap": function_of_bytes(tmp_path, (LEAST,), relu),
        "real": function_of_bytes(tmp_path, (LEAST,), real, made="f32"),
    }
    first = {name: families_for(partition(payload).tasks[0])[0].name for name, payload in covered.items()}
    assert first == {"sigmoid": "byte_table", "few": "vectorize", "cheap": "vectorize", "real": "vectorize"}


def test_a_library_asks_for_the_feature_that_its_instruction_needs():
    assert INTRINSICS["x86.avx512.vpermi2var.qi"] in FEATURES
