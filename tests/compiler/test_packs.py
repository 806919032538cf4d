"""Packs and foralls, which upstream's bufferization or our arena does not know: they become what both know."""

import numpy as np
import pytest
from tuning_support import PACKED, run, tensor_payload

from autotune.compiler.ir.module import context, parse
from autotune.compiler.passes.foralls import serialise_foralls
from autotune.compiler.passes.pipelines import PLAIN, TAIL
from autotune.compiler.tasks.partition import partition
from autotune.core.payload import Argument
from autotune.core.scripts.assembly import DESTINATIONS, LOWERING, assemble
from autotune.registry import load_baseline

SUMS = tensor_payload(
    "sums",
    [Argument("a", "input", (32, 32)), Argument("out", "output", (32, 32))],
    """%empty = tensor.empty() : tensor<32x32xf32>
    %twice = linalg.add ins(%a, %a : tensor<32x32xf32>, tensor<32x32xf32>)
      outs(%empty : tensor<32x32xf32>) -> tensor<32x32xf32>
    %empty_2 = tensor.empty() : tensor<32x32xf32>
    %result = linalg.mul ins(%twice, %twice : tensor<32x32xf32>, tensor<32x32xf32>)
      outs(%empty_2 : tensor<32x32xf32>) -> tensor<32x32xf32>""",
)


@pytest.mark.parametrize("pipeline", [PLAIN, load_baseline("passes").pipeline, load_baseline("loops").pipeline])
def test_packs_are_lowered_where_nobody_schedules_them(pipeline):
    inputs = PACKED.make_inputs(0)
    (found,) = run(PACKED, inputs, None, pipeline)
    np.testing.assert_allclose(found, 2 * inputs["a"])


def test_packs_are_lowered_before_a_payload_is_partitioned():
    parts = partition(PACKED)
    assert "linalg.pack" not in parts.payload.text
    inputs = PACKED.make_inputs(0)
    (found,) = run(PACKED, inputs, assemble([]), TAIL, text=parts.payload.text)
    np.testing.assert_allclose(found, 2 * inputs["a"])


def test_parallel_loops_beside_intermediates_lie_in_the_arena():
    tile = """
    %adds = transform.structured.match ops{["linalg.add"]} in %module : (!transform.any_op) -> !transform.any_op
    %add, %rows = transform.structured.tile_using_forall %adds tile_sizes [8, 16]
      : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
"""
    script = f"""module attributes {{transform.with_named_sequence}} {{
  transform.named_sequence @__transform_main(%module: !transform.any_op {{transform.consumed}}) {{
    {tile}{DESTINATIONS}{LOWERING}transform.yield
  }}
}}"""
    inputs = SUMS.make_inputs(0)
    (found,) = run(SUMS, inputs, script, TAIL)
    np.testing.assert_allclose(found, (2 * inputs["a"]) ** 2, rtol=1e-6)


def test_a_module_without_parallel_loops_stays_as_it_is():
    with context():
        module = parse(PACKED.text, "test")
        before = str(module)
        serialise_foralls(module)
        assert str(module) == before
