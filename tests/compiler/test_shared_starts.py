"""What an op changes stays as it was for all else that reads it, in whatever order results are written."""

import numpy as np
import pytest
from tuning_support import run, run_tuned

from autotune.compiler.passes.pipelines import PLAIN
from autotune.compiler.tasks.payload_file import read_payload
from autotune.core.host.machine import this_machine
from schedules.baseline import PASSES

KIND, PART, VIEW, MEMREF = "tensor<8xf32>", "tensor<3xf32>", "tensor<2x4xf32>", "memref<8xf32>"
BODY = f"""%zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : {KIND}
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : {KIND}) -> {KIND}
  %y = linalg.add ins(%a, %b : {KIND}, {KIND}) outs(%zeros : {KIND}) -> {KIND}
  %w = tensor.insert_slice %c into %y[0] [3] [1] : {PART} into {KIND}
  %u = tensor.insert_slice %c into %w[4] [3] [1] : {PART} into {KIND}
  %g = linalg.generic {{indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
      iterator_types = ["parallel"]}} ins(%a : {KIND}) outs(%y : {KIND}) {{
  ^bb0(%x: f32, %o: f32):
    %sum = arith.addf %x, %o : f32
    linalg.yield %sum : f32
  }} -> {KIND}
  %view = tensor.expand_shape %y [[0, 1]] output_shape [2, 4] : {KIND} into {VIEW}
  %v = tensor.insert_slice %c into %view[0, 0] [1, 3] [1, 1] : {PART} into {VIEW}
"""
KINDS = {"v": VIEW}


def of_tensors(*results):
    kinds = ", ".join(KINDS.get(name, KIND) for name in results)
    names = ", ".join(f"%{name}" for name in results)
    return f"""func.func @f(%a: {KIND}, %b: {KIND}, %c: {PART}) -> ({kinds}) {{
  {BODY}
  return {names} : {kinds}
}}"""


def of_memrefs(first, second):
    """A function that writes its first result before it makes the second."""
    reads = "\n  ".join(f"%{n} = bufferization.to_tensor %m{n} restrict : {MEMREF} to {KIND}" for n in "ab")
    writes = [
        f"bufferization.materialize_in_destination %{name} in restrict writable %o{number} : ({KIND}, {MEMREF}) -> ()"
        for number, name in enumerate((first, second))
    ]
    return f"""func.func @f(%ma: {MEMREF}, %mb: {MEMREF}, %mc: memref<3xf32>, %o0: {MEMREF}, %o1: {MEMREF}) {{
  {reads}
  %c = bufferization.to_tensor %mc restrict : memref<3xf32> to {PART}
  {BODY}
  {writes[0]}
  %second = tensor.empty() : {KIND}
  %q = linalg.mul ins(%y, %a : {KIND}, {KIND}) outs(%second : {KIND}) -> {KIND}
  %r = tensor.insert_slice %c into %y[5] [3] [1] : {PART} into {KIND}
  {writes[1]}
  return
}}"""


@pytest.mark.parametrize(
    "text",
    [
        of_tensors("w", "y"),
        of_tensors("y", "w"),
        of_tensors("u", "w", "y"),
        of_tensors("w", "u", "y"),
        of_tensors("g", "y"),
        of_tensors("w", "g", "y"),
        of_tensors("v", "y"),
        of_tensors("w", "y", "y"),
        of_memrefs("w", "y"),
        of_memrefs("w", "q"),
        of_memrefs("y", "r"),
    ],
)
def test_results_are_those_of_the_plain_lowering(text):
    payload = read_payload("f.mlir", text)
    drawn = np.random.default_rng(0)
    inputs = {a.name: drawn.standard_normal(a.shape).astype(np.float32) for a in payload.arguments}
    wanted = run(payload, inputs, None, PLAIN)
    tuned, _ = run_tuned(payload, inputs, this_machine())
    for given in (tuned, run(payload, inputs, None, PASSES.pipeline)):
        for ours, plain in zip(given, wanted, strict=True):
            np.testing.assert_array_equal(ours, plain)


def test_nothing_is_copied_that_nothing_else_reads():
    assert "alloc_tensor" in read_payload("f.mlir", of_tensors("u")).text
    alone = of_tensors("u")
    alone = alone[: alone.index("%g =")] + alone[alone.index("return") :]
    assert "alloc_tensor" not in read_payload("f.mlir", alone).text
