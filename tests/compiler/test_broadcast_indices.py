"""Places that are repeated before elements are read at them are read as they were."""

import re

import pytest
from tuning_support import agrees, loaded, run_tuned

from autotune.compiler.ir.module import context, parse
from autotune.compiler.normalise.gather.indices import gather_before_broadcast
from autotune.core.host.machine import this_machine
from autotune.registry import family_for

COPIES = {  # how ids become an array like the result, and what that is in NumPy
    "generic": (
        """%p = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>],
    iterator_types = ["parallel", "parallel"]} ins(%ids : tensor<9xi64>) outs(%e : tensor<9x40xi64>) {
  ^bb0(%a: i64, %o: i64):
    linalg.yield %a : i64
  } -> tensor<9x40xi64>""",
        1,
    ),
    "named": ("%p = linalg.broadcast ins(%ids : tensor<9xi64>) outs(%e : tensor<9x40xi64>) dimensions = [1]", 1),
    "twice": (
        """%f = tensor.empty() : tensor<40x9xi64>
  %t = linalg.broadcast ins(%ids : tensor<9xi64>) outs(%f : tensor<40x9xi64>) dimensions = [0]
  %p = linalg.transpose ins(%t : tensor<40x9xi64>) outs(%e : tensor<9x40xi64>) permutation = [1, 0]""",
        1,
    ),
    "computed": (
        """%p = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>],
    iterator_types = ["parallel", "parallel"]} ins(%ids : tensor<9xi64>) outs(%e : tensor<9x40xi64>) {
  ^bb0(%a: i64, %o: i64):
    %one = arith.constant 1 : i64
    %b = arith.xori %a, %one : i64
    linalg.yield %b : i64
  } -> tensor<9x40xi64>""",
        2,
    ),
}
TEXT = """func.func @f(%x: tensor<16x40xf32>, %ids: tensor<9xi64> {autotune.low = 0 : i64, autotune.high = 16 : i64})
    -> tensor<9x40xf32> {
  %e = tensor.empty() : tensor<9x40xi64>
  COPY
  %g = tensor.empty() : tensor<9x40xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
    iterator_types = ["parallel", "parallel"]} ins(%p : tensor<9x40xi64>) outs(%g : tensor<9x40xf32>) {
  ^bb0(%place: i64, %o: f32):
    %row = arith.index_cast %place : i64 to index
    %column = linalg.index 1 : index
    %v = tensor.extract %x[%row, %column] : tensor<16x40xf32>
    linalg.yield %v : f32
  } -> tensor<9x40xf32>
  return %y : tensor<9x40xf32>
}"""


@pytest.mark.parametrize("name", COPIES)
def test_a_gather_is_given_places_as_they_were(name, tmp_path):
    copy, ops = COPIES[name]
    with context():
        module = parse(TEXT.replace("COPY", copy), "mine")
        gather_before_broadcast(module)
        assert len(re.findall(r"= linalg\.(?:generic|broadcast|transpose)", str(module))) == ops
    payload = loaded(tmp_path, TEXT.replace("COPY", copy))
    inputs = payload.make_inputs(0)
    x, ids = (inputs[argument.name] for argument in payload.arguments[:2])
    got, parts = run_tuned(payload, inputs, this_machine())
    agrees(payload, got, [x[ids ^ 1 if name == "computed" else ids].astype("f8")])
    assert [family_for(task).name for task in parts.tasks if task.root.gathers] == ["gather"]


def test_what_is_no_copy_of_whole_rows_stays():
    copy = COPIES["generic"][0].replace("affine_map<(i, j) -> (i)>", "affine_map<(i, j) -> (i mod 9)>")
    with context():
        module = parse(TEXT.replace("COPY", copy), "mine")
        before = str(module)
        gather_before_broadcast(module)
        assert str(module) == before
