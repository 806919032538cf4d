"""Long rows that are shifted are shifted again by each reader; short ones once, into the innermost cache."""

import numpy as np
import pytest
from tuning_support import agrees, loaded, run_tuned

from autotune.compiler.lowering.stages import compile_to
from autotune.compiler.tasks.elementwise import LONG_ROW
from autotune.compiler.tasks.partition import partition
from autotune.core.host.machine import this_machine
from autotune.tuning.candidates import default_candidate


def normalised(columns, step="%s = arith.subf %v, %m : f32"):
    """Deviations of rows from given means, over the sum of their squares, as importers write them."""
    x, row = f"tensor<3x{columns}xf32>", "tensor<3xf32>"
    loops = 'iterator_types = ["parallel", "parallel"]'
    return f"""#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
func.func @f(%x: {x}, %mean: {row}) -> {x} {{
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : {x}
  %d = linalg.generic {{indexing_maps = [#id, #row, #id], {loops}}} ins(%x, %mean : {x}, {row}) outs(%e : {x}) {{
  ^bb0(%v: f32, %m: f32, %o: f32):
    {step}
    linalg.yield %s : f32
  }} -> {x}
  %r = tensor.empty() : {row}
  %z = linalg.fill ins(%zero : f32) outs(%r : {row}) -> {row}
  %q = linalg.generic {{indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}}
    ins(%d : {x}) outs(%z : {row}) {{
  ^bb0(%v: f32, %o: f32):
    %s = arith.mulf %v, %v : f32
    %t = arith.addf %o, %s : f32
    linalg.yield %t : f32
  }} -> {row}
  %e2 = tensor.empty() : {x}
  %y = linalg.generic {{indexing_maps = [#id, #row, #id], {loops}}} ins(%d, %q : {x}, {row}) outs(%e2 : {x}) {{
  ^bb0(%v: f32, %m: f32, %o: f32):
    %s = arith.divf %v, %m : f32
    linalg.yield %s : f32
  }} -> {x}
  return %y : {x}
}}"""


@pytest.mark.parametrize("columns", [LONG_ROW - 16, LONG_ROW])
def test_no_long_row_is_held_beside_what_is_read_and_written(columns, tmp_path):
    payload = loaded(tmp_path, normalised(columns))
    parts = partition(payload)
    text = compile_to("bufferized", payload, default_candidate(parts, this_machine())).text
    held = [line for line in text.splitlines() if "memref.alloc" in line and f"x{columns}x" in line]
    assert bool(held) == (columns < LONG_ROW)
    inputs = payload.make_inputs(0)
    x, mean = inputs.values()
    apart = x.astype(np.float64) - mean[:, None]
    for seed in (None, 1):
        got, _ = run_tuned(payload, inputs, this_machine(), seed)
        agrees(payload, got, [apart / (apart * apart).sum(1, keepdims=True)])


def test_what_takes_more_than_a_shift_is_computed_once(tmp_path):
    step = "%c = arith.subf %v, %m : f32\n    %s = math.exp %c : f32"
    text = partition(loaded(tmp_path, normalised(LONG_ROW, step))).payload.text
    assert text.count("math.exp") == 1
