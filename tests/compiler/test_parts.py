"""Tensors that are put together: ops write their parts where these are to be, and nothing is copied."""

import numpy as np
import pytest
from tuning_support import agrees, loaded, run_tuned

from autotune.compiler.lowering.stages import compile_to
from autotune.compiler.normalise.shapes.parts import Slice
from autotune.compiler.tasks.partition import partition
from autotune.core.host.machine import this_machine
from autotune.tuning.candidates import default_candidate

ROWS = 'indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]'


def doubled(name, given, columns):
    """An op that doubles a tensor of six rows."""
    kind = f"tensor<6x{columns}xf32>"
    return f"""%e{name} = tensor.empty() : {kind}
  %{name} = linalg.generic {{{ROWS}}} ins(%{given} : {kind}) outs(%e{name} : {kind}) {{
  ^bb0(%v: f32, %o: f32):
    %s = arith.addf %v, %v : f32
    linalg.yield %s : f32
  }} -> {kind}"""


CONCATENATED = f"""  {doubled("p", "x", 32)}
  {doubled("q", "y", 40)}
  %r = tensor.concat dim(1) %q, %y, %p : (tensor<6x40xf32>, tensor<6x40xf32>, tensor<6x32xf32>) -> tensor<6x112xf32>
  return %r : tensor<6x112xf32>"""
IN_STEPS = f"""  {doubled("p", "x", 32)}
  {doubled("q", "x", 32).replace("arith.addf", "arith.mulf")}
  %e = tensor.empty() : tensor<12x32xf32>
  %a = tensor.insert_slice %p into %e[1, 0] [6, 32] [2, 1] : tensor<6x32xf32> into tensor<12x32xf32>
  %r = tensor.insert_slice %q into %a[0, 0] [6, 32] [2, 1] : tensor<6x32xf32> into tensor<12x32xf32>
  return %r : tensor<12x32xf32>"""
OVERLAPPING = f"""  {doubled("p", "x", 32)}
  {doubled("q", "x", 32).replace("arith.addf", "arith.mulf")}
  %e = tensor.empty() : tensor<9x32xf32>
  %a = tensor.insert_slice %q into %e[3, 0] [6, 32] [1, 1] : tensor<6x32xf32> into tensor<9x32xf32>
  %r = tensor.insert_slice %p into %a[0, 0] [6, 32] [1, 1] : tensor<6x32xf32> into tensor<9x32xf32>
  return %r : tensor<9x32xf32>"""
READ_AGAIN = f"""  {doubled("p", "x", 32)}
  {doubled("q", "p", 32)}
  %r = tensor.concat dim(0) %p, %q : (tensor<6x32xf32>, tensor<6x32xf32>) -> tensor<12x32xf32>
  return %r : tensor<12x32xf32>"""
TWICE = f"""  {doubled("p", "x", 32)}
  %r = tensor.concat dim(0) %p, %p : (tensor<6x32xf32>, tensor<6x32xf32>) -> tensor<12x32xf32>
  return %r : tensor<12x32xf32>"""
WITH_NOTHING = f"""  {doubled("p", "x", 32)}
  %none = tensor.extract_slice %x[0, 0] [0, 32] [1, 1] : tensor<6x32xf32> to tensor<0x32xf32>
  %c = tensor.cast %none : tensor<0x32xf32> to tensor<?x32xf32>
  %d = tensor.cast %p : tensor<6x32xf32> to tensor<?x32xf32>
  %r = tensor.concat dim(0) %c, %d : (tensor<?x32xf32>, tensor<?x32xf32>) -> tensor<6x32xf32>
  return %r : tensor<6x32xf32>"""
CASES = {
    "beside nothing": (WITH_NOTHING, "6x32", 0, lambda x, y: 2 * x),
    "side by side": (CONCATENATED, "6x112", 1, lambda x, y: np.hstack([2 * y, y, 2 * x])),
    "every other row": (IN_STEPS, "12x32", 0, lambda x, y: np.stack([x * x, 2 * x], 1).reshape(12, 32)),
    "parts that overlap": (OVERLAPPING, "9x32", 4, lambda x, y: np.vstack([2 * x, x[3:] * x[3:]])),
    "a part that is read again": (READ_AGAIN, "12x32", 1, lambda x, y: np.vstack([2 * x, 4 * x])),
    "a part that stands there twice": (TWICE, "12x32", 2, lambda x, y: np.vstack([2 * x, 2 * x])),
}


def test_parts_take_turns_or_overlap():
    rows = Slice.dense([0, 0], [4, 8])
    assert rows.is_apart(Slice.dense([4, 0], [4, 8]))
    assert rows.is_apart(Slice.dense([0, 8], [4, 8]))
    assert not rows.is_apart(Slice.dense([3, 7], [4, 8]))
    even, odd = (Slice([begin, 0], [4, 8], [2, 1]) for begin in (0, 1))
    assert even.is_apart(odd)
    assert not even.is_apart(Slice([1, 0], [4, 8], [3, 1]))


@pytest.mark.parametrize("name", CASES)
def test_parts_are_written_where_they_are_to_be(name, tmp_path):
    body, shape, copies, expected = CASES[name]
    payload = loaded(
        tmp_path,
        f"""#id = affine_map<(i, j) -> (i, j)>
func.func @f(%x: tensor<6x32xf32>, %y: tensor<6x40xf32>) -> tensor<{shape}xf32> {{
{body}
}}""",
    )
    inputs = payload.make_inputs(0)
    agrees(payload, run_tuned(payload, inputs, this_machine())[0], [expected(*inputs.values())])
    text = compile_to("bufferized", payload, default_candidate(partition(payload), this_machine())).text
    assert text.count("linalg.copy") + text.count("memref.copy") <= copies
