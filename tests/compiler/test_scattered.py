"""Elements that are gathered of slices, and of views of slices, are those of the slices, wherever these lie."""

import numpy as np
import pytest
from tuning_support import run, run_tuned

from autotune.compiler.passes.pipelines import PLAIN
from autotune.compiler.tasks.payload_file import read_payload
from autotune.core.host.machine import this_machine

COUNT = 7
CASES = (  # the whole; offsets, sizes and strides of the slice; its shape; the dimension that is gathered along; a view
    ((8, 33), "[0, 0] [4, 33] [2, 1]", (4, 33), 1, None),
    ((8, 33), "[0, 0] [8, 16] [1, 2]", (8, 16), 1, None),
    ((8, 33), "[0, 3] [8, 20] [1, 1]", (8, 20), 1, None),
    ((8, 33), "[0, 0] [4, 33] [2, 1]", (4, 33), 0, None),
    ((40,), "[1] [13] [3]", (13,), 0, None),
    ((8, 5, 33), "[0, 2, 0] [8, 1, 33] [1, 1, 1]", (8, 33), 1, None),
    ((8, 5, 33), "[2, 0, 0] [1, 5, 33] [1, 1, 1]", (5, 33), 1, None),
    ((4, 1, 33), "[0, 0, 0] [2, 1, 33] [2, 1, 1]", (2, 33), 1, None),
    ((8, 33), "[0, 0] [4, 33] [2, 1]", (4, 33), 2, (2, 2, 33)),
    ((8, 5, 33), "[0, 2, 0] [8, 1, 33] [1, 1, 1]", (8, 33), 2, (8, 1, 33)),
    ((8, 5, 33), "[0, 1, 0] [8, 2, 33] [1, 1, 1]", (8, 2, 33), 1, (16, 33)),
)


def kind(shape, element="f32"):
    return f"tensor<{'x'.join(map(str, shape))}x{element}>"


def gathering(whole, place, shape, along, view):
    """A payload that gathers elements of a slice, or of a view of it."""
    read, lines, source = shape, "", "%slice"
    if view is not None:
        split = len(view) > len(shape)
        rest = "".join(f", [{axis + 2}]" for axis in range(max(len(view), len(shape)) - 2))
        name, into = ("expand_shape", f"output_shape {list(view)} ") if split else ("collapse_shape", "")
        if split and view == (8, 1, 33):
            rest, groups = "", "[0], [1, 2]"
        else:
            groups = f"[0, 1]{rest}"
        lines = f"%view = tensor.{name} %slice [{groups}] {into}: {kind(shape)} into {kind(view)}"
        read, source = view, "%view"
    given = [COUNT if axis == along else size for axis, size in enumerate(read)]
    axes = ", ".join(f"d{axis}" for axis in range(len(read)))
    loops = ", ".join(['"parallel"'] * len(read))
    places = "\n      ".join(f"%x{axis} = linalg.index {axis} : index" for axis in range(len(read)))
    indices = ", ".join("%at" if axis == along else f"%x{axis}" for axis in range(len(read)))
    return f"""func.func @f(%x: {kind(whole)}, %i: {kind([COUNT], "i32")}) -> {kind(given)} {{
    %slice = tensor.extract_slice %x{place} : {kind(whole)} to {kind(shape)}
    {lines}
    %empty = tensor.empty() : {kind(given)}
    %r = linalg.generic {{indexing_maps = [affine_map<({axes}) -> (d{along})>, affine_map<({axes}) -> ({axes})>],
        iterator_types = [{loops}]}} ins(%i : {kind([COUNT], "i32")}) outs(%empty : {kind(given)}) {{
    ^bb0(%index: i32, %o: f32):
      {places}
      %at = arith.index_cast %index : i32 to index
      %v = tensor.extract {source}[{indices}] : {kind(read)}
      linalg.yield %v : f32
    }} -> {kind(given)}
    return %r : {kind(given)}
}}"""


@pytest.mark.parametrize("case", CASES, ids=str)
def test_elements_of_slices_are_gathered(case):
    whole, _, shape, along, view = case
    payload = read_payload("f.mlir", gathering(*case))
    drawn = np.random.default_rng(0)
    table, indices, _ = payload.arguments
    inputs = {
        table.name: drawn.standard_normal(whole).astype(np.float32),
        indices.name: drawn.integers(0, (view or shape)[along], COUNT).astype(np.int32),
    }
    (wanted,) = run(payload, inputs, None, PLAIN)
    (given,), _ = run_tuned(payload, inputs, this_machine())
    np.testing.assert_array_equal(given, wanted)


PADDED = """func.func @f(%x: tensor<4x24xf32>, %i: tensor<3x24xi32>) -> (tensor<7x29xf32>, tensor<3x24xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x24xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, b)>],
                       iterator_types = ["parallel", "parallel"]}
    ins(%x : tensor<4x24xf32>) outs(%e : tensor<4x24xf32>) {
  ^bb0(%v: f32, %o: f32):
    %w = arith.addf %v, %v : f32
    linalg.yield %w : f32
  } -> tensor<4x24xf32>
  %p = tensor.pad %y low[1, 2] high[2, 3] {
  ^bb0(%a: index, %b: index):
    tensor.yield %zero : f32
  } : tensor<4x24xf32> to tensor<7x29xf32>
  %into = tensor.empty() : tensor<3x24xf32>
  %g = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, b)>],
                       iterator_types = ["parallel", "parallel"]}
    ins(%i : tensor<3x24xi32>) outs(%into : tensor<3x24xf32>) {
  ^bb0(%n: i32, %o: f32):
    %at = arith.index_cast %n : i32 to index
    %column = linalg.index 1 : index
    %v = tensor.extract %y[%at, %column] : tensor<4x24xf32>
    linalg.yield %v : f32
  } -> tensor<3x24xf32>
  return %p, %g : tensor<7x29xf32>, tensor<3x24xf32>
}"""


def test_elements_are_gathered_of_what_is_padded_too():
    payload = read_payload("padded.mlir", PADDED)
    inputs = payload.make_inputs(0)
    expected = run(payload, inputs, None, PLAIN)
    got, _ = run_tuned(payload, inputs, this_machine())
    for mine, theirs in zip(got, expected, strict=True):
        np.testing.assert_array_equal(mine, theirs)
