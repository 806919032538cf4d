"""Loops keep what says to LLVM that they stay rolled, up to its branches."""

import pytest
from mlir import ir

from autotune.compiler.ir.module import context, every_op, parse
from autotune.compiler.lowering.pipeline import run_pipeline
from autotune.compiler.lowering.rewrites import Unit
from autotune.compiler.passes.pipelines import TAIL
from autotune.compiler.passes.rolled_loops import keep_rolled

COPY = """
func.func @copy(%from: memref<8xf32>, %to: memref<8xf32>) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %eight = arith.constant 8 : index
  scf.for %i = %zero to %eight step %one {
    %x = memref.load %from[%i] : memref<8xf32>
    memref.store %x, %to[%i] : memref<8xf32>
  }
  return
}
"""


@pytest.mark.parametrize("rolled", [True, False])
def test_a_branch_has_the_annotation_of_its_loop(*, rolled: bool):
    with context():
        module = parse(COPY, "test")
        if rolled:
            keep_rolled(next(op for op in every_op(module) if op.name == "scf.for"))
        run_pipeline(Unit(module), TAIL)
        found = [op.attributes["loop_annotation"] for op in every_op(module) if "loop_annotation" in op.attributes]
        wanted = [ir.Attribute.parse("#llvm.loop_annotation<unroll = <disable = true>>")] if rolled else []
        assert found == wanted
