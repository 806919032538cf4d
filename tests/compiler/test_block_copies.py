"""Rows that are copied as they are: in one call where they are long, and never others than the program says."""

import numpy as np
import pytest
from tuning_support import run_steps, run_tuned, write_step

from autotune.compiler.lowering.stages import compile_to
from autotune.compiler.tasks.partition import partition
from autotune.compiler.tasks.payload_file import read_payload
from autotune.core.host.machine import this_machine
from autotune.registry import family_for
from autotune.tuning.candidates import default_candidate


def kind(shape, element="f32"):
    return f"tensor<{'x'.join(map(str, shape))}x{element}>"


def sliced(shape, offsets, sizes, element="f32"):
    """A payload that gives a part of a tensor."""
    x, y = kind(shape, element), kind(sizes, element)
    text = f"""func.func @part(%x: {x}) -> {y} {{
      %y = tensor.extract_slice %x{list(offsets)} {list(sizes)} {[1] * len(shape)} : {x} to {y}
      return %y : {y}
    }}"""
    return read_payload("part.mlir", text)


def repeated(times, shape):
    """A payload that gives a tensor so many times over."""
    x, y = kind(shape), kind((times, *shape))
    loops = ", ".join(f"d{axis}" for axis in range(len(shape) + 1))
    inner = loops.partition(", ")[2]
    iterators = ", ".join(['"parallel"'] * (len(shape) + 1))
    text = f"""func.func @again(%x: {x}) -> {y} {{
      %e = tensor.empty() : {y}
      %y = linalg.generic {{indexing_maps = [affine_map<({loops}) -> ({inner})>, affine_map<({loops}) -> ({loops})>],
        iterator_types = [{iterators}]}} ins(%x : {x}) outs(%e : {y}) {{
      ^bb0(%a: f32, %b: f32):
        linalg.yield %a : f32
      }} -> {y}
      return %y : {y}
    }}"""
    return read_payload("again.mlir", text)


def joined(left, right, dim):
    """A payload that gives two tensors, one behind the other along a dimension."""
    shape = [a + b if axis == dim else a for axis, (a, b) in enumerate(zip(left, right, strict=True))]
    a, b, y = kind(left), kind(right), kind(shape)
    text = f"""func.func @joined(%a: {a}, %b: {b}) -> {y} {{
      %y = tensor.concat dim({dim}) %a, %b : ({a}, {b}) -> {y}
      return %y : {y}
    }}"""
    return read_payload("joined.mlir", text)


def gathered(columns, column="%c", value="%x"):
    """A payload that gives rows of a table, by number; `column` of each is read, and `value` given."""
    table, ids, y = kind((9, columns)), kind((5,), "i64"), kind((5, columns))
    text = f"""func.func @rows(%table: {table}, %ids: {ids}) -> {y} {{
      %e = tensor.empty() : {y}
      %last = arith.constant {columns - 1} : index
      %two = arith.constant 2.0 : f32
      %y = linalg.generic {{indexing_maps = [affine_map<(r, c) -> (r)>, affine_map<(r, c) -> (r, c)>],
        iterator_types = ["parallel", "parallel"]}} ins(%ids : {ids}) outs(%e : {y}) {{
      ^bb0(%id: i64, %b: f32):
        %i = arith.index_cast %id : i64 to index
        %c = linalg.index 1 : index
        %back = arith.subi %last, %c : index
        %x = tensor.extract %table[%i, {column}] : {table}
        %double = arith.mulf %x, %two : f32
        linalg.yield {value} : f32
      }} -> {y}
      return %y : {y}
    }}"""
    return read_payload("rows.mlir", text)


def numbered(payload):
    """Inputs of such a payload, with numbers of rows."""
    inputs = payload.make_inputs(0)
    inputs["arg1"] = np.array([8, 0, 3, 3, 1])
    return inputs


def copies(payload):
    return lowered(payload).count("memref.copy")


def lowered(payload):
    return compile_to("arena", payload, default_candidate(partition(payload), this_machine())).text


@pytest.mark.parametrize(
    ("shape", "offsets", "sizes", "element", "calls"),
    [
        ((3000,), (1,), (2990,), "f32", 1),
        ((3000,), (1,), (700,), "f32", 1),  # what is left behind the last vector
        ((5, 40, 50), (1, 0, 0), (3, 40, 50), "f32", 1),
        ((5, 40, 50), (0, 3, 0), (5, 30, 50), "f32", 1),
        ((5, 40, 50), (0, 3, 2), (5, 30, 40), "f32", 1),
        ((5, 40, 50), (0, 3, 2), (5, 30, 7), "f32", 0),
        ((2, 9000), (1, 0), (1, 9000), "i8", 1),
        ((2, 900), (0, 5), (2, 300), "f64", 1),
        ((2, 900), (0, 5), (2, 304), "f64", 0),
        ((3, 6, 900), (0, 1, 5), (3, 4, 304), "f32", 0),
    ],
)
def test_a_part_is_copied_by_rows(shape, offsets, sizes, element, calls):
    payload = sliced(shape, offsets, sizes, element)
    assert copies(payload) == calls
    ((name, x),) = payload.make_inputs(0).items()
    (given,), _ = run_tuned(payload, {name: x}, this_machine())
    wanted = x[tuple(slice(a, a + n) for a, n in zip(offsets, sizes, strict=True))]
    np.testing.assert_array_equal(given, wanted)


def test_rows_that_are_neither_short_nor_long_are_copied_by_vectors_and_loops_over_them_stay_rolled():
    text = lowered(sliced((28, 28, 512), (0, 0, 0), (28, 28, 480)))
    assert text.count("vector.load") == text.count("vector.store") == 1
    assert "vector<16xf32>" in text
    assert text.count("scf.for") == 3
    assert text.count("{llvm.loop_annotation = ") == 2
    assert "linalg.copy" not in text


@pytest.mark.parametrize(
    ("times", "shape", "calls"), [(3, (2048,), 1), (3, (40, 50), 1), (4, (1000,), 0), (2, (2051,), 1)]
)
def test_what_is_repeated_is_copied_a_row_at_a_time(times, shape, calls):
    payload = repeated(times, shape)
    assert copies(payload) == calls
    ((name, x),) = payload.make_inputs(0).items()
    (given,), _ = run_tuned(payload, {name: x}, this_machine())
    np.testing.assert_array_equal(given, np.broadcast_to(x, (times, *shape)))


@pytest.mark.parametrize(
    ("left", "right", "dim", "calls"),
    [((7, 12, 4), (7, 10, 4), 1, 2), ((7, 480), (7, 300), 1, 1), ((3, 50, 50), (4, 50, 50), 0, 2)],
)
def test_tensors_side_by_side_are_copied_by_rows(left, right, dim, calls):
    payload = joined(left, right, dim)
    assert copies(payload) == calls
    inputs = payload.make_inputs(0)
    (given,), _ = run_tuned(payload, inputs, this_machine())
    np.testing.assert_array_equal(given, np.concatenate(list(inputs.values()), dim))


@pytest.mark.parametrize(
    ("columns", "words", "calls"),
    [
        (700, {}, 1),
        (100, {}, 0),
        (700, {"column": "%back"}, 0),
        (700, {"value": "%double"}, 0),
    ],
)
def test_rows_by_number_are_copied_at_once_where_they_are_long_and_nothing_else(columns, words, calls):
    payload = gathered(columns, **words)
    assert copies(payload) == calls
    inputs = numbered(payload)
    (given,), _ = run_tuned(payload, inputs, this_machine())
    wanted = inputs["arg0"][inputs["arg1"]]
    wanted = wanted[:, ::-1] if words.get("column") else wanted
    np.testing.assert_array_equal(given, 2 * wanted if words.get("value") else wanted)


@pytest.mark.parametrize("columns", [3, 64, 700])
def test_rows_of_any_length_may_be_copied_at_once(columns):
    parts, machine = partition(gathered(columns)), this_machine()
    (task,) = parts.tasks
    family = family_for(task)
    configs = list(family.space(task, machine).configs())
    assert {config["at_once"] for config in configs} == {True, False}
    for config in configs:
        inputs = numbered(parts.payload)
        (given,) = run_steps(parts.payload, parts, inputs, [write_step(task, family, config, machine)])
        np.testing.assert_array_equal(given, inputs["arg0"][inputs["arg1"]])
