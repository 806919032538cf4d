"""The place of an extremum: the first of equal elements, by vectors, as NumPy finds it."""

import numpy as np
import pytest
from tuning_support import compiled_steps, default_steps, run_steps

import autotune.tensor as T
from autotune.compiler.normalise.gather.long_rows import BLOCK, LEAST
from autotune.compiler.tasks.partition import partition
from autotune.core.host.machine import this_machine
from autotune.registry import family_for
from autotune.worker.loading.reading import open_payload

TEXT = """#whole = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
func.func @f(%x: tensor<9xSIZExf32>) -> (tensor<9xf32>, tensor<9xi64>) {
  %zero = arith.constant 0 : i64
  %low = arith.constant START : f32
  %e = tensor.empty() : tensor<9xi64>
  %z = linalg.fill ins(%zero : i64) outs(%e : tensor<9xi64>) -> tensor<9xi64>
  %f = tensor.empty() : tensor<9xf32>
  %l = linalg.fill ins(%low : f32) outs(%f : tensor<9xf32>) -> tensor<9xf32>
  %r:2 = linalg.generic {indexing_maps = [#whole, #row, #row],
    iterator_types = ["parallel", "reduction"]} ins(%x : tensor<9xSIZExf32>)
    outs(%l, %z : tensor<9xf32>, tensor<9xi64>) {
  ^bb0(%v: f32, %m: f32, %p: i64):
    %i = linalg.index 1 : index
    %c = arith.index_cast %i : index to i64
    %n = arith.EXTREMUM %v, %m : f32
    %b = arith.cmpf COMPARES, %v, %m : f32
    %s = arith.select %b, %c, %p : i64
    linalg.yield %n, %s : f32, i64
  } -> (tensor<9xf32>, tensor<9xi64>)
  return %r#0, %r#1 : tensor<9xf32>, tensor<9xi64>
}"""
KINDS = {
    "max": ("0xFF800000", "maximumf", "ogt", np.max, np.argmax),
    "min": ("0x7F800000", "minimumf", "olt", np.min, np.argmin),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [5, 64, 77])
def test_the_first_place_of_an_extremum_is_found_by_vectors(kind, size, tmp_path):
    start, extremum, compares, best, place = KINDS[kind]
    text = TEXT.replace("SIZE", str(size)).replace("START", start)
    path = tmp_path / "mine.mlir"
    path.write_text(text.replace("EXTREMUM", extremum).replace("COMPARES", compares))
    payload = open_payload(path)
    parts = partition(payload)
    steps = default_steps(parts, this_machine())
    assert len(steps) == len(parts.tasks) > 1
    x = np.random.default_rng(0).integers(-3, 4, (9, size)).astype("f4")  # equal elements everywhere
    inputs = payload.make_inputs(0) | {payload.arguments[0].name: x}
    got = run_steps(payload, parts, inputs, steps)
    np.testing.assert_array_equal(got[0], best(x, axis=1))
    np.testing.assert_array_equal(got[1], place(x, axis=1))


@pytest.mark.parametrize("kind", KINDS)
def test_an_extremum_over_two_axes_whose_places_nobody_reads_is_one_op(kind, tmp_path):
    """PyTorch's importer finds the places along each axis besides."""
    start, extremum, compares, best, _ = KINDS[kind]
    again = """%z0 = linalg.fill ins(%zero : i64) outs(%e0 : tensor<i64>) -> tensor<i64>
  %f0 = tensor.empty() : tensor<f32>
  %l0 = linalg.fill ins(%low : f32) outs(%f0 : tensor<f32>) -> tensor<f32>
  %q:2 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> ()>, affine_map<(i) -> ()>],
    iterator_types = ["reduction"]} ins(%r#0 : tensor<9xf32>) outs(%l0, %z0 : tensor<f32>, tensor<i64>) {"""
    body = TEXT[TEXT.index("  ^bb0") : TEXT.index("  } ->")].replace("index 1", "index 0")
    given = f"{body}  }} -> (tensor<f32>, tensor<i64>)\n  return %q#0 : tensor<f32>\n}}"
    text = f"{TEXT[: TEXT.index('  return')]}  %e0 = tensor.empty() : tensor<i64>\n  {again}\n{given}"
    text = text.replace("-> (tensor<9xf32>, tensor<9xi64>) {\n  %zero", "-> tensor<f32> {\n  %zero")
    path = tmp_path / "mine.mlir"
    path.write_text(
        text.replace("SIZE", "77").replace("START", start).replace("EXTREMUM", extremum).replace("COMPARES", compares)
    )
    payload = open_payload(path)
    parts = partition(payload)
    assert len(parts.tasks) == 1
    inputs = payload.make_inputs(0)
    (got,) = run_steps(payload, parts, inputs, default_steps(parts, this_machine()))
    assert got == best(inputs[payload.arguments[0].name])


def one_row(size, kind="max", start=None, first=0):
    """A payload of one row."""
    worst, extremum, compares, *_ = KINDS[kind]
    text = TEXT.replace("9x", "1x").replace("SIZE", str(size)).replace("START", start or worst)
    text = text.replace("arith.constant 0 : i64", f"arith.constant {first} : i64")
    return text.replace("EXTREMUM", extremum).replace("COMPARES", compares)


def finder(path, text):
    """A function that gives what a payload finds in a row; the payload's parts."""
    path.write_text(text)
    payload = open_payload(path)
    parts = partition(payload)
    covered = all(family_for(task) for task in parts.tasks)
    compute = compiled_steps(payload, parts, default_steps(parts, this_machine()) if covered else [])
    others = payload.make_inputs(0)

    def find(x):
        most, place = compute(others | {payload.arguments[0].name: x[None]})
        return most[0], place[0]

    return find, parts


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [LEAST, LEAST + 1, LEAST + 700, 9 * BLOCK - 1])
def test_places_in_one_long_row_are_found_by_blocks(kind, size, tmp_path):
    *_, best, place = KINDS[kind]
    rng, text = np.random.default_rng(1), one_row(size, kind)
    path, sign = tmp_path / "mine.mlir", 1 if kind == "max" else -1
    rows = [rng.integers(-3, 4, size).astype("f4"), np.full(size, -np.inf * sign, "f4"), np.zeros(size, "f4")]
    for far in (0, BLOCK - 1, BLOCK, size // BLOCK * BLOCK - 1, size - BLOCK, size - 1):
        rows.append(rng.standard_normal(size).astype("f4"))
        rows[-1][far] = 9 * sign
    for numbers in ([size - 1], [5, BLOCK + 5], [size - 1, size - 2]):
        rows.append(rng.standard_normal(size).astype("f4"))
        rows[-1][numbers] = np.nan
    find, parts = finder(path, text)
    for x in rows:
        most, at = find(x)
        assert at == place(x)
        np.testing.assert_equal(most, best(x))
    assert all(BLOCK in task.nest.sizes for task in parts.tasks if np.prod(task.nest.sizes) > size // BLOCK + BLOCK)


@pytest.mark.parametrize(("start", "first"), [("2.0", 0), ("0xFF7FFFFF", 0), (None, 7)])
def test_what_starts_elsewhere_is_what_is_written(start, first, tmp_path):
    """Where no element is greater than the number that results start from, the place is the one it starts from."""
    x = np.full(LEAST, -np.inf, "f4")
    find, _ = finder(tmp_path / "mine.mlir", one_row(LEAST, start=start, first=first))
    assert find(x)[1] == first


@pytest.mark.parametrize("size", [129, 960, 1000])
def test_places_in_rows_that_are_reduced_in_strands_count_from_the_first_column(size):
    x = np.random.default_rng(0).standard_normal((9, size)).astype("f4")
    found = T.compile(lambda x: (T.argmax(x, axis=1), T.argmin(x, axis=1)))(x)
    np.testing.assert_array_equal(found, [np.argmax(x, axis=1), np.argmin(x, axis=1)])
