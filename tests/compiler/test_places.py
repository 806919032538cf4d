"""The place of an extremum: the first of equal elements, by vectors, as NumPy finds it."""

import numpy as np
import pytest
from tuning_support import default_steps, run_steps

import autotune.tensor as T
from autotune.compiler.tasks.partition import partition
from autotune.core.host.machine import this_machine
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


@pytest.mark.parametrize("size", [129, 960, 1000])
def test_places_in_rows_that_are_reduced_in_strands_count_from_the_first_column(size):
    x = np.random.default_rng(0).standard_normal((9, size)).astype("f4")
    found = T.compile(lambda x: (T.argmax(x, axis=1), T.argmin(x, axis=1)))(x)
    np.testing.assert_array_equal(found, [np.argmax(x, axis=1), np.argmin(x, axis=1)])
