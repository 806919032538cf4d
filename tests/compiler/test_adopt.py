"""Text as importers write it becomes a payload: functions of tensors, assertions, ops of no loops."""

from dataclasses import replace

import numpy as np
import pytest
from tuning_support import loaded, run

from autotune.bundles.call import compile_payload
from autotune.compiler.passes.pipelines import PLAIN
from autotune.compiler.tasks.partition import partition
from autotune.core.errors import PayloadError
from autotune.registry import family_for

KIND = "tensor<4x6xf32>"


def test_a_function_of_tensors_reads_and_writes_memrefs(tmp_path):
    payload = loaded(
        tmp_path,
        f"""func.func @two(%a: {KIND}, %b: {KIND} {{autotune.role = "weight"}}) -> ({KIND}, {KIND}) {{
  %e = tensor.empty() : {KIND}
  %sum = linalg.add ins(%a, %b : {KIND}, {KIND}) outs(%e : {KIND}) -> {KIND}
  return %sum, %a : {KIND}, {KIND}
}}""",
    )
    assert [(a.role, a.shape) for a in payload.arguments] == [
        (role, (4, 6)) for role in ("input", "weight", "output", "output")
    ]
    inputs = payload.make_inputs(0)
    total, same = run(payload, inputs, None, PLAIN)
    np.testing.assert_array_equal(total, inputs["arg0"] + inputs["arg1"])
    np.testing.assert_array_equal(same, inputs["arg0"])


@pytest.mark.parametrize(
    ("signature", "words"),
    [
        ("%a: tensor<?x6xf32>", "argument 0 must be a tensor of static shape"),
        ("%a: tensor<*xf32>", "argument 0 must be"),
    ],
)
def test_a_tensor_of_open_shape_is_refused(signature, words, tmp_path):
    kind = signature.partition(": ")[2]
    with pytest.raises(PayloadError, match=words):
        loaded(tmp_path, f"func.func @f({signature}) -> {kind} {{\n  return %a : {kind}\n}}")


def test_a_function_of_tensors_with_branches_between_blocks_is_refused(tmp_path):
    text = """func.func @f(%a: tensor<4xf32>, %c: tensor<i1>) -> tensor<4xf32> {
      %taken = tensor.extract %c[] : tensor<i1>
      cf.cond_br %taken, ^first, ^second
    ^first:
      return %a : tensor<4xf32>
    ^second:
      %r = math.exp %a : tensor<4xf32>
      return %r : tensor<4xf32>
    }"""
    with pytest.raises(PayloadError, match=r"must be one block, @f has 3; branch by scf\.if"):
        loaded(tmp_path, text)


def test_assertions_and_what_they_compare_are_no_part_of_a_payload(tmp_path):
    payload = loaded(
        tmp_path,
        f"""func.func @f(%a: {KIND}) -> {KIND} {{
  %zero = arith.constant 0 : index
  %x = tensor.extract %a[%zero, %zero] : {KIND}
  %far = arith.constant 9.0 : f32
  %near = arith.cmpf olt, %x, %far : f32
  cf.assert %near, "too far"
  return %a : {KIND}
}}""",
    )
    assert "cf.assert" not in payload.text
    assert "arith.cmpf" not in payload.text


CONV = """func.func @conv(%x: tensor<1x3x8xf32>, %w: tensor<4x3x3xf32>) -> tensor<1x4x6xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x4x6xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<1x4x6xf32>) -> tensor<1x4x6xf32>
  %r = linalg.conv_1d_ncw_fcw {strides = dense<1> : tensor<1xi64>, dilations = dense<1> : tensor<1xi64>}
    ins(%x, %w : tensor<1x3x8xf32>, tensor<4x3x3xf32>) outs(%z : tensor<1x4x6xf32>) -> tensor<1x4x6xf32>
  return %r : tensor<1x4x6xf32>
}"""
ARGMAX = """func.func @argmax(%x: tensor<4x6xf32>) -> tensor<4xi64> {
  %low = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0 : i64
  %e = tensor.empty() : tensor<4xf32>
  %f = tensor.empty() : tensor<4xi64>
  %m = linalg.fill ins(%low : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %i = linalg.fill ins(%zero : i64) outs(%f : tensor<4xi64>) -> tensor<4xi64>
  %r:2 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>,
                                          affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]}
    ins(%x : tensor<4x6xf32>) outs(%m, %i : tensor<4xf32>, tensor<4xi64>) {
  ^bb0(%v: f32, %best: f32, %where: i64):
    %j = linalg.index 1 : index
    %here = arith.index_cast %j : index to i64
    %better = arith.cmpf ogt, %v, %best : f32
    %most = arith.select %better, %v, %best : f32
    %place = arith.select %better, %here, %where : i64
    linalg.yield %most, %place : f32, i64
  } -> (tensor<4xf32>, tensor<4xi64>)
  return %r#1 : tensor<4xi64>
}"""


@pytest.mark.parametrize("text", [CONV, ARGMAX], ids=["conv", "argmax"])
def test_the_plain_vectorizing_family_claims_no_op_that_it_cannot_vectorize(text, tmp_path):
    payload = loaded(tmp_path, text)
    for task in partition(replace(payload, foreign=False)).tasks:
        assert not task.root.vectorizes
        family = family_for(task)
        assert family is None or family.name != "vectorize"


def test_an_op_of_no_loops_is_no_task(tmp_path):
    payload = loaded(
        tmp_path,
        """func.func @f(%a: tensor<f32>) -> tensor<f32> {
  %e = tensor.empty() : tensor<f32>
  %r = linalg.generic {indexing_maps = [affine_map<() -> ()>, affine_map<() -> ()>], iterator_types = []}
    ins(%a : tensor<f32>) outs(%e : tensor<f32>) {
  ^bb0(%x: f32, %o: f32):
    %s = math.exp %x : f32
    linalg.yield %s : f32
  } -> tensor<f32>
  return %r : tensor<f32>
}""",
    )
    assert partition(payload).tasks == ()


@pytest.mark.parametrize("kind", ["i8", "i32", "i64"])
def test_sizes_of_whole_numbers_are_computed_whatever_the_vectors(kind, tmp_path):
    shape, dtype = (2, 4, 6), {"i8": np.int8, "i32": np.int32, "i64": np.int64}[kind]
    of = f"tensor<2x4x6x{kind}>"
    payload = loaded(
        tmp_path,
        f"""func.func @size(%a: {of}) -> {of} {{
  %e = tensor.empty() : {of}
  %r = linalg.map {{ math.absi }} ins(%a : {of}) outs(%e : {of})
  return %r : {of}
}}""",
    )
    x = np.random.default_rng(0).integers(-100, 100, shape).astype(dtype)
    np.testing.assert_array_equal(compile_payload(payload)(x), np.abs(x))


@pytest.mark.parametrize(("op", "right"), [("isnan", np.isnan), ("isinf", np.isinf), ("isfinite", np.isfinite)])
def test_kinds_of_floats_are_told_whatever_the_vectors(op, right, tmp_path):
    payload = loaded(
        tmp_path,
        f"""func.func @told(%a: tensor<2x3x4xf32>) -> tensor<2x3x4xi1> {{
  %e = tensor.empty() : tensor<2x3x4xi1>
  %r = linalg.map {{ math.{op} }} ins(%a : tensor<2x3x4xf32>) outs(%e : tensor<2x3x4xi1>)
  return %r : tensor<2x3x4xi1>
}}""",
    )
    x = np.resize(np.array([1, np.nan, np.inf, -np.inf, -0.0, -3e38, 1e-45], np.float32), (2, 3, 4))
    np.testing.assert_array_equal(compile_payload(payload)(x), right(x))


@pytest.mark.parametrize("element", ["f32", "bf16", "i1"])
def test_functions_that_are_called_have_the_types_of_what_calls_them(element, tmp_path):
    kind = f"tensor<4x6x{element}>"
    path = tmp_path / "calls.mlir"
    path.write_text(f"""func.func private @sum(%a: {kind}, %b: {kind}) -> {kind} {{
  %e = tensor.empty() : {kind}
  %sum = linalg.add ins(%a, %b : {kind}, {kind}) outs(%e : {kind}) -> {kind}
  return %sum : {kind}
}}
func.func @f(%a: {kind}, %b: {kind}) -> {kind} {{
  %unread = func.call @sum(%b, %b) : ({kind}, {kind}) -> {kind}
  %sum = func.call @sum(%a, %b) : ({kind}, {kind}) -> {kind}
  return %sum : {kind}
}}""")
    a, b = np.random.default_rng(0).integers(0, 2, (2, 4, 6)).astype(np.float32)
    expected = np.maximum(a, b) if element == "i1" else a + b
    np.testing.assert_array_equal(np.asarray(compile_payload(path)(a > 0, b > 0)).astype(np.float32), expected)
