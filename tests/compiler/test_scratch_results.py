"""Buffers that lie in a result until it is written: only where nobody reads what is overwritten by then."""

import numpy as np
import pytest
from tuning_support import run_tuned

from autotune.compiler.lowering.stages import compile_to
from autotune.compiler.tasks.partition import partition
from autotune.compiler.tasks.payload_file import read_payload
from autotune.core.host.machine import this_machine
from autotune.tuning.candidates import default_candidate

SIDE = 211  # no multiple of a vector
KIND, TURNED = "affine_map<(r, c) -> (r, c)>", "affine_map<(r, c) -> (c, r)>"


def payload_of(side, *results, shape=None):
    """A payload whose e = exp(x), s = sum of e, and whose results are written so, each with the map of e there.

    Args:
        side: Rows and columns of x.
        results: Op and map of each result.
        shape: Shape of a single result, as ``1x3x3``; by default that of x.
    """
    kind = f"tensor<{side}x{side}xf32>"
    ops = "\n".join(
        f"""%r{n} = linalg.generic {{indexing_maps = [{amap}, affine_map<(r, c) -> ()>, {KIND}],
        iterator_types = ["parallel", "parallel"]}} ins(%e, %s : {kind}, tensor<f32>) outs(%empty : {kind}) {{
      ^bb0(%a: f32, %b: f32, %o: f32):
        %v = {op} %a, %b : f32
        linalg.yield %v : f32
      }} -> {kind}"""
        for n, (op, amap) in enumerate(results)
    )
    names, kinds = (", ".join(each) for each in ([f"%r{n}" for n in range(len(results))], [kind] * len(results)))
    if shape is not None:
        sizes = shape.replace("x", ", ")
        names, kinds = "%y", f"tensor<{shape}xf32>"
        ops += f"""
      %y = tensor.expand_shape %r0 [[0, 1], [2]] output_shape [{sizes}] : {kind} into {kinds}"""
    return read_payload(
        "scaled.mlir",
        f"""func.func @scaled(%x: {kind}) -> ({kinds}) {{
      %empty = tensor.empty() : {kind}
      %one = tensor.empty() : tensor<f32>
      %zero = arith.constant 0.0 : f32
      %zeros = linalg.fill ins(%zero : f32) outs(%one : tensor<f32>) -> tensor<f32>
      %e = linalg.exp ins(%x : {kind}) outs(%empty : {kind}) -> {kind}
      %s = linalg.reduce {{ arith.addf }} ins(%e : {kind}) outs(%zeros : tensor<f32>) dimensions = [0, 1]
      {ops}
      return {names} : {kinds}
    }}""",
    )


def held_in(text, side):
    """The lines of a program that give a buffer of the size of x."""
    return [line for line in text.splitlines() if "memref.view" in line and line.endswith(f"memref<{side}x{side}xf32>")]


@pytest.mark.parametrize(
    ("side", "results", "buffers"),
    [
        (SIDE, [("arith.divf", KIND)], 0),
        (17, [("arith.divf", KIND)], 1),  # is small
        (SIDE, [("arith.divf", TURNED)], 1),
        (SIDE, [("arith.divf", KIND), ("arith.mulf", KIND)], 0),
        (SIDE, [("arith.divf", KIND), ("arith.mulf", TURNED)], 1),
    ],
)
def test_a_buffer_lies_in_a_result_where_each_element_is_read_before_it_is_written(side, results, buffers):
    payload, machine = payload_of(side, *results), this_machine()
    text = compile_to("arena", payload, default_candidate(partition(payload), machine)).text
    assert len(held_in(text, side)) == buffers
    inputs = payload.make_inputs(0)
    given, _ = run_tuned(payload, inputs, machine)
    (x,) = inputs.values()
    e = np.exp(x.astype(np.float64))
    for found, (op, amap) in zip(given, results, strict=True):
        mine = e.T if amap == TURNED else e
        wanted = mine / e.sum() if op == "arith.divf" else mine * e.sum()
        np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_a_buffer_lies_in_a_result_of_another_shape():
    payload, machine = payload_of(SIDE, ("arith.divf", KIND), shape=f"1x{SIDE}x{SIDE}"), this_machine()
    assert not held_in(compile_to("arena", payload, default_candidate(partition(payload), machine)).text, SIDE)
    inputs = payload.make_inputs(0)
    (found,), _ = run_tuned(payload, inputs, machine)
    (x,) = inputs.values()
    e = np.exp(x.astype(np.float64))
    np.testing.assert_allclose(found, (e / e.sum())[None], rtol=1e-5)
