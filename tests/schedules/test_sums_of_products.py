"""Rows of products are summed by vectors: also short ones, in a batch, whose one tile holds all of a row."""

import re

import numpy as np
import pytest
from tuning_support import run_tuned

from autotune.compiler.lowering.stages import compile_to
from autotune.compiler.tasks.partition import partition
from autotune.compiler.tasks.payload_file import read_payload
from autotune.core.host.machine import this_machine
from autotune.tuning.candidates import default_candidate

ADDED_ONE_BY_ONE = re.compile(r"vector\.fma .* : vector<1xf32>")


def dots(batch, rows, columns):
    """A payload that multiplies each row of several matrices by a vector of its matrix, and sums."""
    x, v, y = (
        f"tensor<{sizes}xf32>" for sizes in (f"{batch}x{rows}x{columns}", f"{batch}x{columns}", f"{batch}x{rows}")
    )
    maps = ", ".join(f"affine_map<(b, m, k) -> ({places})>" for places in ("b, m, k", "b, k", "b, m"))
    text = f"""func.func @dots(%x: {x}, %v: {v}) -> {y} {{
      %zero = arith.constant 0.0 : f32
      %e = tensor.empty() : {y}
      %z = linalg.fill ins(%zero : f32) outs(%e : {y}) -> {y}
      %r = linalg.generic {{indexing_maps = [{maps}], iterator_types = ["parallel", "parallel", "reduction"]}}
        ins(%x, %v : {x}, {v}) outs(%z : {y}) {{
      ^bb0(%a: f32, %b: f32, %o: f32):
        %p = arith.mulf %a, %b : f32
        %s = arith.addf %p, %o : f32
        linalg.yield %s : f32
      }} -> {y}
      return %r : {y}
    }}"""
    return read_payload("dots.mlir", text)


@pytest.mark.parametrize("columns", [16, 42, 64, 202, 1000])
def test_rows_of_a_batch_are_summed_by_vectors(columns):
    payload = dots(3, 5, columns)
    candidate = default_candidate(partition(payload), this_machine())
    assert not ADDED_ONE_BY_ONE.search(compile_to("bufferized", payload, candidate).text)
    inputs = payload.make_inputs(0)
    (given,), _ = run_tuned(payload, inputs, this_machine())
    x, v = (array.astype(np.float64) for array in inputs.values())
    np.testing.assert_allclose(given, np.einsum("bmk,bk->bm", x, v), rtol=1e-4, atol=1e-4)
