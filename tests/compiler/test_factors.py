"""Products of two scaled operands: both numbers are on the smaller one, and the larger one is read where it lies."""

import numpy as np
import pytest
from tuning_support import agrees, loaded, run

from autotune.compiler.ir.module import context, parse
from autotune.compiler.normalise.shapes.factors import multiply_smaller_operands
from autotune.compiler.passes.pipelines import PLAIN
from autotune.compiler.tasks.partition import partition

SCALED = """%scaled_{0} = linalg.generic {{indexing_maps = [affine_map<(a, b, c, d) -> (a, b, c, d)>,
      affine_map<(a, b, c, d) -> ({1})>, affine_map<(a, b, c, d) -> (a, b, c, d)>],
    iterator_types = ["parallel", "parallel", "parallel", "parallel"]}}
    ins(%{0}, %s : tensor<{2}xf32>, tensor<{3}f32>) outs(%e_{0} : tensor<{2}xf32>) {{
  ^bb0(%v: f32, %n: f32, %o: f32):
    %m = arith.{4} %v, %n : f32
    linalg.yield %m : f32
  }} -> tensor<{2}xf32>"""


def attention_scores(rows, keys, *, op="mulf", place="0", count="1x"):
    """Queries by transposed keys, each scaled by a number, as PyTorch exports them."""
    q, kt = f"1x2x{rows}x6", f"1x2x6x{keys}"
    result = f"tensor<2x{rows}x{keys}xf32>"
    return f"""func.func @f(%q: tensor<{q}xf32>, %k: tensor<1x2x{keys}x6xf32>, %s: tensor<{count}f32>) -> {result} {{
  %e_kt = tensor.empty() : tensor<{kt}xf32>
  %kt = linalg.transpose ins(%k : tensor<1x2x{keys}x6xf32>) outs(%e_kt : tensor<{kt}xf32>) permutation = [0, 1, 3, 2]
  %e_q = tensor.empty() : tensor<{q}xf32>
  {SCALED.format("q", place, q, count, op)}
  {SCALED.format("kt", place, kt, count, op)}
  %a = tensor.collapse_shape %scaled_q [[0, 1], [2], [3]] : tensor<{q}xf32> into tensor<2x{rows}x6xf32>
  %b = tensor.collapse_shape %scaled_kt [[0, 1], [2], [3]] : tensor<{kt}xf32> into tensor<2x6x{keys}xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : {result}
  %z = linalg.fill ins(%zero : f32) outs(%e : {result}) -> {result}
  %r = linalg.batch_matmul ins(%a, %b : tensor<2x{rows}x6xf32>, tensor<2x6x{keys}xf32>) outs(%z : {result}) -> {result}
  return %r : {result}
}}"""


def rewritten(text):
    with context():
        module = parse(text, "mine")
        multiply_smaller_operands(module)
        module.operation.verify()
        return str(module)


@pytest.mark.parametrize(("rows", "keys"), [(1, 9), (12, 5), (7, 7)])
def test_the_smaller_operand_takes_both_numbers_and_the_result_is_that_of_numpy(rows, keys, tmp_path):
    payload = loaded(tmp_path, attention_scores(rows, keys))
    text = rewritten(payload.text)
    assert text.count("arith.mulf") == 2
    assert text.count("linalg.generic") == 1, "one op multiplies one operand by both"
    inputs = payload.make_inputs(0)
    q, k, s = (inputs[argument.name].astype("f8") for argument in payload.arguments[:3])
    expected = ((q * s) @ (k * s).swapaxes(2, 3))[0]
    agrees(payload, run(payload, inputs, None, PLAIN, text=text), [expected])


def test_keys_are_not_transposed_any_more(tmp_path):
    tags = [task.tag for task in partition(loaded(tmp_path, attention_scores(1, 32))).tasks]
    assert any("batch_matmul" in tag and tag.endswith("_tb") for tag in tags), tags
    assert len(tags) == 2, "queries are scaled, and multiplied by keys as they lie"


PLAIN_Q = "%plain = tensor.collapse_shape %q [[0, 1], [2], [3]] : tensor<1x2x3x6xf32> into tensor<2x3x6xf32>"
OTHERS = {
    "added": attention_scores(3, 9, op="addf"),
    "a number for each head": attention_scores(3, 9, place="b", count="2x"),
    "one operand alone": attention_scores(3, 9)
    .replace("ins(%a,", "ins(%plain,")
    .replace("%zero =", f"{PLAIN_Q}\n%zero ="),
}


@pytest.mark.parametrize("text", OTHERS.values(), ids=OTHERS)
def test_other_operands_stay_as_they_are(text):
    with context():
        before = str(parse(text, "mine"))
    assert rewritten(text) == before


def test_numbers_that_only_together_are_small_overflow_nowhere(tmp_path):
    payload = loaded(tmp_path, attention_scores(2, 9))
    inputs = payload.make_inputs(0) | {payload.arguments[2].name: np.full(1, 1e-15, "f4")}
    q, k = (inputs[argument.name].astype("f8") * 1e-15 for argument in payload.arguments[:2])
    expected = (q @ k.swapaxes(2, 3))[0]
    got = run(payload, inputs, None, PLAIN, text=rewritten(payload.text))
    np.testing.assert_allclose(got[0], expected, rtol=1e-4, atol=1e-36)
