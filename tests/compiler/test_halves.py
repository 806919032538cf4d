"""Floats of 16 bits: stored so, computed in f32; what is written is rounded to the nearest."""

import re

import ml_dtypes
import numpy as np
import pytest
from bundle_support import no_care

from autotune.bundles.call import compile_payload
from autotune.compiler.lowering.rewrites import SCRIPT
from autotune.compiler.lowering.stages import compile_to
from autotune.compiler.tasks.partition import partition
from autotune.core.evaluator import Job
from autotune.core.host.machine import this_machine
from autotune.tuning.candidates import default_candidate
from autotune.worker.loading.reading import open_payload
from autotune.worker.worker import Worker

LAYER = """
func.func @layer(%x: tensor<8x24xT>, %w: tensor<40x24xT> {autotune.role = "weight"}, %b: tensor<40xT>)
    -> tensor<8x40xT> {
  %zero = arith.constant 0.0 : T
  %te = tensor.empty() : tensor<24x40xT>
  %t = linalg.transpose ins(%w : tensor<40x24xT>) outs(%te : tensor<24x40xT>) permutation = [1, 0]
  %e = tensor.empty() : tensor<8x40xT>
  %i = linalg.fill ins(%zero : T) outs(%e : tensor<8x40xT>) -> tensor<8x40xT>
  %m = linalg.matmul ins(%x, %t : tensor<8x24xT>, tensor<24x40xT>) outs(%i : tensor<8x40xT>) -> tensor<8x40xT>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>,
      affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%m, %b : tensor<8x40xT>, tensor<40xT>) outs(%e : tensor<8x40xT>) {
    ^bb0(%p: T, %q: T, %o: T):
      %s = arith.addf %p, %q : T
      %u = arith.maximumf %s, %zero : T
      linalg.yield %u : T
  } -> tensor<8x40xT>
  return %r : tensor<8x40xT>
}
"""
NARROW = """
func.func @narrow(%x: tensor<64xf32>) -> tensor<64xT> {
  %e = tensor.empty() : tensor<64xT>
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<64xf32>) outs(%e : tensor<64xT>) {
    ^bb0(%p: f32, %o: T):
      %n = arith.truncf %p : f32 to T
      linalg.yield %n : T
  } -> tensor<64xT>
  return %r : tensor<64xT>
}
"""
KINDS = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}


def written(folder, text, kind):
    path = folder / "mine.mlir"
    path.write_text(text.replace("T>", f"{kind}>").replace(": T", f": {kind}").replace("to T", f"to {kind}"))
    return open_payload(str(path))


@pytest.mark.parametrize("kind", KINDS)
def test_a_layer_of_halves_agrees_with_float64_and_its_weight_is_read_as_stored(kind, tmp_path):
    payload = written(tmp_path, LAYER, kind)
    assert [a.dtype for a in payload.arguments] == [kind] * 4
    parts, machine = partition(payload), this_machine()
    (product,) = [c for task in parts.tasks for c in task.contractions]
    assert (product.stored_b, product.constant_b) == (kind, True)
    inputs = payload.make_inputs(0)
    x, w, b = (array.astype(np.float64) for array in inputs.values())
    exact = np.maximum(x @ w.T + b, 0).astype(KINDS[kind])
    with no_care(), Worker() as worker:
        job = Job(payload, (default_candidate(parts, machine),), machine)
        (found,) = worker.evaluate(job)
    assert found.samples is not None, f"{found.outcome}: {found.diagnostic}"
    result, eps = compile_payload(payload)(**inputs), float(ml_dtypes.finfo(KINDS[kind]).eps)
    np.testing.assert_allclose(result.astype(np.float64), exact.astype(np.float64), rtol=eps)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written_is_rounded_to_the_nearest_and_of_two_to_the_even_one(kind, tmp_path):
    function = compile_payload(written(tmp_path, NARROW, kind))
    eps = float(ml_dtypes.finfo(KINDS[kind]).eps)
    steps = np.arange(56) * (eps / 4) + 1
    x = np.array([*steps, np.inf, -np.inf, np.nan, 0.0, -0.0, 1e-30, 65504.0, -1.5], np.float32)
    np.testing.assert_array_equal(function(x).astype(np.float32), x.astype(KINDS[kind]).astype(np.float32))


TABLE = """
func.func @table(%x: tensor<2x3xT>) -> tensor<2x3xT> {
  %t = arith.constant dense<[[0.5, 0xHIGH, -1.0], [2.0, -0.0, 3.0]]> : tensor<2x3xT>
  %e = tensor.empty() : tensor<2x3xT>
  %r = linalg.max ins(%x, %t : tensor<2x3xT>, tensor<2x3xT>) outs(%e : tensor<2x3xT>) -> tensor<2x3xT>
  return %r : tensor<2x3xT>
}
"""


@pytest.mark.parametrize(("kind", "infinity"), [("f16", "0x7C00"), ("bf16", "0x7F80")])
def test_elements_of_a_constant_are_widened_each(kind, infinity, tmp_path):
    function = compile_payload(written(tmp_path, TABLE.replace("0xHIGH", infinity), kind))
    x = np.array([[0.25, 7, 1], [3, -1, -4]], KINDS[kind])
    np.testing.assert_array_equal(function(x).astype(np.float32), [[0.5, np.inf, 1], [3, 0, 3]])


FRESH = """
func.func @fresh(%x: tensor<32x64xT>, %w: tensor<64x96xT>) -> tensor<32x96xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<32x96xf32>
  %i = linalg.fill ins(%zero : f32) outs(%e : tensor<32x96xf32>) -> tensor<32x96xf32>
  %m = linalg.matmul ins(%x, %w : tensor<32x64xT>, tensor<64x96xT>) outs(%i : tensor<32x96xf32>) -> tensor<32x96xf32>
  return %m : tensor<32x96xf32>
}
"""


@pytest.mark.parametrize("kind", KINDS)
def test_halves_that_a_product_reads_are_widened_in_rows_not_element_by_element(kind, tmp_path):
    payload = written(tmp_path, FRESH, kind)
    parts = partition(payload)
    (product,) = [c for task in parts.tasks for c in task.contractions]
    assert (product.stored_b, product.constant_b) == (kind, False)
    text = compile_to(SCRIPT, payload, default_candidate(parts, this_machine())).text
    assert "arith.extf" in text
    assert not re.findall(rf"vector\.extract .* : {kind} from", text)


SCALED = """
func.func @scaled(%s: tensor<8x4xT>, %q: tensor<8x4x16xi8>, %x: tensor<4x16xf32>) -> tensor<8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8xf32>
  %i = linalg.fill ins(%zero : f32) outs(%e : tensor<8xf32>) -> tensor<8xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(n, b, j) -> (n, b)>, affine_map<(n, b, j) -> (n, b, j)>,
      affine_map<(n, b, j) -> (b, j)>, affine_map<(n, b, j) -> (n)>],
      iterator_types = ["parallel", "reduction", "reduction"]}
      ins(%s, %q, %x : tensor<8x4xT>, tensor<8x4x16xi8>, tensor<4x16xf32>) outs(%i : tensor<8xf32>) {
    ^bb0(%p: T, %w: i8, %v: f32, %acc: f32):
      %scale = arith.extf %p : T to f32
      %whole = arith.sitofp %w : i8 to f32
      %product = arith.mulf %whole, %v : f32
      %times = arith.mulf %product, %scale : f32
      %y = arith.addf %acc, %times : f32
      linalg.yield %y : f32
  } -> tensor<8xf32>
  return %r : tensor<8xf32>
}
"""
PRODUCT = """
func.func @product(%a: tensor<8x16xT>, %b: tensor<16x24xf32>) -> tensor<8x24xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x24xf32>
  %i = linalg.fill ins(%zero : f32) outs(%e : tensor<8x24xf32>) -> tensor<8x24xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>,
      affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : tensor<8x16xT>, tensor<16x24xf32>) outs(%i : tensor<8x24xf32>) {
    ^bb0(%p: T, %q: f32, %acc: f32):
      %wide = arith.extf %p : T to f32
      %times = arith.mulf %wide, %q : f32
      %y = arith.addf %acc, %times : f32
      linalg.yield %y : f32
  } -> tensor<8x24xf32>
  return %r : tensor<8x24xf32>
}
"""


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_widened_where_it_is_used_is_not_widened_as_a_whole(kind, tmp_path):
    (task,) = partition(written(tmp_path, SCALED, kind)).tasks
    assert task.nest.sizes == (8, 4, 16)
    *_, product = partition(written(tmp_path, PRODUCT, kind)).tasks
    assert product.contraction is not None
    assert product.contraction.dtype == "f32"


ROUNDED = """
func.func @rounded(%x: tensor<3x64xf32>) -> tensor<3x64xf32> {
  %half = arith.truncf %x : tensor<3x64xf32> to tensor<3x64xT>
  %wide = arith.extf %half : tensor<3x64xT> to tensor<3x64xf32>
  %twice = arith.addf %wide, %wide : tensor<3x64xf32>
  return %twice : tensor<3x64xf32>
}
"""
BY_OPS = """
#same = affine_map<(i, j) -> (i, j)>
func.func @rounded(%x: tensor<3x64xf32>) -> tensor<3x64xf32> {
  %e = tensor.empty() : tensor<3x64xT>
  %f = tensor.empty() : tensor<3x64xf32>
  %half = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<3x64xf32>) outs(%e : tensor<3x64xT>) {
    ^bb0(%p: f32, %o: T):
      %n = arith.truncf %p : f32 to T
      linalg.yield %n : T
  } -> tensor<3x64xT>
  %twice = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]}
      ins(%half : tensor<3x64xT>) outs(%f : tensor<3x64xf32>) {
    ^bb0(%p: T, %o: f32):
      %w = arith.extf %p : T to f32
      %s = arith.addf %w, %w : f32
      linalg.yield %s : f32
  } -> tensor<3x64xf32>
  return %twice : tensor<3x64xf32>
}
"""


@pytest.mark.parametrize("text", [ROUNDED, BY_OPS], ids=["tensors", "ops"])
@pytest.mark.parametrize("scheduled", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_a_number_that_is_narrowed_and_widened_again_is_rounded(kind, scheduled, text, tmp_path):
    function = compile_payload(written(tmp_path, text, kind), scheduled=scheduled)
    x = np.random.default_rng(0).standard_normal((3, 64), np.float32)
    x[0, :4] = np.inf, -np.inf, np.nan, 1e-30
    np.testing.assert_array_equal(function(x), 2 * x.astype(KINDS[kind]).astype(np.float32))


def test_what_is_computed_further_in_halves_is_not_rounded_between(tmp_path):
    square = "%more = arith.mulf %half, %half : tensor<3x64xT>\n  %wide = arith.extf %more"
    payload = written(tmp_path, ROUNDED.replace("%wide = arith.extf %half", square), "bf16")
    x = np.random.default_rng(0).standard_normal((3, 64), np.float32)
    np.testing.assert_array_equal(compile_payload(payload)(x), 2 * (x * x))


ROWS = """
func.func @rows(%table: tensor<500x16xT> {autotune.role = "weight"}, %ids: tensor<6xi64> {autotune.high = 500 : i64})
    -> tensor<6x16xT> {
  %e = tensor.empty() : tensor<6x16xT>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]} ins(%ids : tensor<6xi64>) outs(%e : tensor<6x16xT>) {
    ^bb0(%id: i64, %o: T):
      %i = arith.index_cast %id : i64 to index
      %j = linalg.index 1 : index
      %x = tensor.extract %table[%i, %j] : tensor<500x16xT>
      %s = arith.addf %x, %x : T
      linalg.yield %s : T
  } -> tensor<6x16xT>
  return %r : tensor<6x16xT>
}
"""


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_a_table_are_widened_and_not_the_table(kind, tmp_path):
    payload = written(tmp_path, ROWS, kind)
    assert "500x16xf32" not in partition(payload).payload.text
    table, _ = payload.make_inputs(0).values()
    result = compile_payload(payload)(table, np.array([3, 499, 0, 3, 7, 250]))
    np.testing.assert_array_equal(result, 2 * table[[3, 499, 0, 3, 7, 250]])
