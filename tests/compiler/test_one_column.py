"""Products with one column: where A is stored (k, m) they are sums down columns; one tile is summed at once."""

import pytest
from tuning_support import agrees, default_steps, loaded, run

from autotune.compiler.ir.module import context, parse
from autotune.compiler.normalise.shapes.products import drop_one_column
from autotune.compiler.passes.pipelines import PLAIN
from autotune.compiler.tasks.partition import partition
from autotune.core.host.machine import this_machine
from autotune.registry import family_for
from autotune.tuning.candidates import candidate_whole

READS = {"A by rows": "(b, m, k)", "A by columns": "(b, k, m)"}


def product(read, b, *, batch=3, m=34, k=41):
    """A batch of products with one column."""
    a = f"{batch}x{m}x{k}" if read == "(b, m, k)" else f"{batch}x{k}x{m}"
    column = f"{batch}x{k}x1" if b == "(b, k, n)" else f"{batch}x1x{k}"
    maps = ", ".join(f"affine_map<(b, m, n, k) -> {each}>" for each in (read, b, "(b, m, n)"))
    return f"""func.func @f(%x: tensor<{a}xf32>, %v: tensor<{column}xf32>) -> tensor<{batch}x{m}x1xf32> {{
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<{batch}x{m}x1xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<{batch}x{m}x1xf32>) -> tensor<{batch}x{m}x1xf32>
  %r = linalg.batch_matmul indexing_maps = [{maps}] ins(%x, %v : tensor<{a}xf32>, tensor<{column}xf32>)
    outs(%z : tensor<{batch}x{m}x1xf32>) -> tensor<{batch}x{m}x1xf32>
  return %r : tensor<{batch}x{m}x1xf32>
}}"""


@pytest.mark.parametrize("b", ["(b, k, n)", "(b, n, k)"])
@pytest.mark.parametrize("name", READS)
def test_only_columns_that_lie_apart_are_written_otherwise_and_nothing_changes(name, b, tmp_path):
    payload = loaded(tmp_path, product(READS[name], b))
    with context():
        module = parse(payload.text, "mine")
        drop_one_column(module)
        module.operation.verify()
        text = str(module)
    assert ("batch_matmul" in text) == (name == "A by rows")
    inputs = payload.make_inputs(0)
    agrees(payload, run(payload, inputs, None, PLAIN, text=text), run(payload, inputs, None, PLAIN))


@pytest.mark.parametrize(("name", "family"), [("A by rows", "vectorize"), ("A by columns", "sliding_window")])
def test_the_default_sums_in_vectors_whatever_the_order(name, family, tmp_path):
    payload, machine = loaded(tmp_path, product(READS[name], "(b, k, n)")), this_machine()
    parts = partition(payload)
    assert [family_for(task).name for task in parts.tasks] == [family]
    candidate = candidate_whole(default_steps(parts, machine), 1, parts.payload.text)
    assert ("tile_reduction_using_for" in candidate.script) == (family == "vectorize")
    inputs = payload.make_inputs(0)
    got = run(payload, inputs, candidate.script, candidate.pipeline, text=candidate.text)
    agrees(payload, got, run(payload, inputs, None, PLAIN))
