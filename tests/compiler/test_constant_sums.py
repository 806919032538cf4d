"""Reductions of what no input gives, such as counts of a pool's elements, are of every element."""

import pytest
from tuning_support import loaded, run

from autotune.compiler.tasks.partition import partition
from autotune.core.host.machine import this_machine
from autotune.tuning.candidates import default_candidate

READ, WRITE = "affine_map<(i, k) -> (k)>", "affine_map<(i, k) -> (i)>"
TEXT = f"""func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {{
  %start = arith.constant 1.0 : f32
  %two = arith.constant 2.0 : f32
  %window = tensor.empty() : tensor<3xf32>
  %e = tensor.empty() : tensor<8xf32>
  %z = linalg.fill ins(%start : f32) outs(%e : tensor<8xf32>) -> tensor<8xf32>
  %r = linalg.generic {{indexing_maps = [{READ}, {WRITE}], iterator_types = ["parallel", "reduction"]}}
    ins(%window : tensor<3xf32>) outs(%z : tensor<8xf32>) {{
  ^bb0(%w: f32, %o: f32):
    BODY
    linalg.yield %s : f32
  }} -> tensor<8xf32>
  %y = linalg.add ins(%x, %r : tensor<8xf32>, tensor<8xf32>) outs(%e : tensor<8xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}}"""
COUNT = """%i = linalg.index 0 : index
    %n = arith.index_cast %i : index to i32
    %v = arith.sitofp %n : i32 to f32
    %s = arith.addf %o, %v : f32"""
BODIES = {
    "a sum of a number": ("%s = arith.addf %o, %two : f32", lambda i: 1 + 3 * 2),
    "a product of a number": ("%s = arith.mulf %two, %o : f32", lambda i: 2**3),
    "a sum of a loop's count": (COUNT, lambda i: 1 + 3 * i),
}


@pytest.mark.parametrize("name", BODIES)
def test_a_reduction_combines_as_often_as_its_loops_run(name, tmp_path):
    body, expected = BODIES[name]
    payload = loaded(tmp_path, TEXT.replace("BODY", body))
    candidate, inputs = default_candidate(partition(payload), this_machine()), payload.make_inputs(0)
    found = run(payload, inputs, candidate.script, candidate.pipeline, text=candidate.text)
    (x,), (y,) = list(inputs.values())[:1], found
    assert y.tolist() == [x[i] + expected(i) for i in range(8)]
