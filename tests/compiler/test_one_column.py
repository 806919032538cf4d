"""Products with one column, or one row of a batch, by a matrix stored (k, ..), are sums down columns."""

import pytest
from tuning_support import agrees, default_steps, loaded, run

from autotune.compiler.ir.module import context, parse
from autotune.compiler.normalise.shapes.products import drop_loops_of_one
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
        drop_loops_of_one(module)
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


ORDERS = {"B by rows": ("(b, m, k)", "(b, k, n)"), "B by columns": ("(b, k, m)", "(b, n, k)")}


def one_row(read, b, *, batch=3, n=35, k=41):
    """A batch of products with one row: `product` with the other matrix in front."""
    text = product(read, b, batch=batch, m=1, k=k)
    before, after = (
        (f"{batch}x{k}x1", f"{batch}x{k}x{n}") if b == "(b, k, n)" else (f"{batch}x1x{k}", f"{batch}x{n}x{k}")
    )
    vector = f"{batch}x1x{k}" if read == "(b, m, k)" else f"{batch}x{k}x1"
    text = text.replace(f"%x: tensor<{vector}", "%x: tensor<VECTOR").replace(
        f"tensor<{vector}xf32>, ", "tensor<VECTORxf32>, "
    )
    return text.replace(before, after).replace("VECTOR", vector).replace(f"{batch}x1x1xf32", f"{batch}x1x{n}xf32")


@pytest.mark.parametrize("name", ORDERS)
def test_a_row_by_matrices_of_a_batch_is_summed_along_what_lies_side_by_side(name, tmp_path):
    payload, machine = loaded(tmp_path, one_row(*ORDERS[name])), this_machine()
    parts = partition(payload)
    assert [family_for(task).name for task in parts.tasks] == ["sliding_window" if name == "B by rows" else "vectorize"]
    candidate = candidate_whole(default_steps(parts, machine), 1, parts.payload.text)
    inputs = payload.make_inputs(0)
    got = run(payload, inputs, candidate.script, candidate.pipeline, text=candidate.text)
    row, matrix = (inputs[argument.name] for argument in payload.arguments[:2])
    matrix = matrix if name == "B by rows" else matrix.swapaxes(1, 2)
    agrees(payload, got, [row.reshape(3, 1, 41) @ matrix])
