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
