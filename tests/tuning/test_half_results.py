"""Models whose results have 16 bits: by tiles as they are typed, within a step of their results; all others in f32."""

import re
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from bundle_support import BRAIN, make_bundle

from autotune.bundles.call import compile_payload
from autotune.core.host.machine import this_machine
from autotune.registry import family_for
from autotune.store.bundle import read_bundle
from autotune.tuning.candidates import default_candidate
from autotune.tuning.half_results import family_as_typed, step_of_results
from autotune.tuning.options import TuneOptions
from autotune.tuning.tune import allowed_by
from autotune.worker.loading.reading import open_payload, partition

TWO_LAYERS = """
func.func @layers(%x: tensor<32x64xT>, %v: tensor<64x96xT> {autotune.role = "weight"},
    %w: tensor<96x48xT> {autotune.role = "weight"}) -> tensor<32x48xR> {
  %zero = arith.constant 0.0 : T
  %e = tensor.empty() : tensor<32x96xT>
  %i = linalg.fill ins(%zero : T) outs(%e : tensor<32x96xT>) -> tensor<32x96xT>
  %m = linalg.matmul ins(%x, %v : tensor<32x64xT>, tensor<64x96xT>) outs(%i : tensor<32x96xT>) -> tensor<32x96xT>
  %g = linalg.exp ins(%m : tensor<32x96xT>) outs(%e : tensor<32x96xT>) -> tensor<32x96xT>
  %none = arith.constant 0.0 : R
  %f = tensor.empty() : tensor<32x48xR>
  %j = linalg.fill ins(%none : R) outs(%f : tensor<32x48xR>) -> tensor<32x48xR>
  %r = linalg.matmul ins(%g, %w : tensor<32x96xT>, tensor<96x48xT>) outs(%j : tensor<32x48xR>) -> tensor<32x48xR>
  return %r : tensor<32x48xR>
}
"""
KINDS = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}


def layers(folder, kind, result=None, rows=32):
    """Two layers whose weights and activations are of a type."""
    text = re.sub(r"\bR\b|(?<=x)R\b", result or kind, TWO_LAYERS)
    text = re.sub(r"\bT\b|(?<=x)T\b", kind, text).replace("<32x", f"<{rows}x")
    path = folder / f"layers_{kind}_{result}_{rows}.mlir"
    path.write_text(text)
    return open_payload(str(path))


def chosen(payload, choose):
    machine = this_machine()
    return {choose(task, machine).name for task in partition(payload).tasks if task.contractions}


def typed(payload):
    return chosen(payload, family_as_typed)


@pytest.fixture
def emulated(monkeypatch):
    """Tiles are emulated."""
    monkeypatch.setenv("AUTOTUNE_TILES", "emulate")


@pytest.mark.parametrize(("kind", "family"), [("bf16", "tile_bf16"), ("f16", "tile_bf16x2")])
def test_weights_go_by_tiles_where_results_have_the_same_16_bits(kind, family, emulated, tmp_path):
    payload = layers(tmp_path, kind)
    assert typed(payload) == {family}
    assert family in default_candidate(partition(payload), this_machine()).script
    assert family not in default_candidate(partition(payload), this_machine(), family_for).script
    inputs = {name: array / 4 for name, array in payload.make_inputs(0).items()}
    x, v, w = (array.astype(np.float64) for array in inputs.values())
    exact = np.exp(x @ v) @ w
    got = compile_payload(payload)(**inputs).astype(np.float64)
    assert 0 < np.abs(got - exact).max() / np.abs(exact).max() < step_of_results(payload)


@pytest.mark.parametrize(
    ("kind", "result", "rows"), [("f16", "f32", 32), ("bf16", "f32", 32), ("bf16", "bf16", 4), ("f16", "f16", 7)]
)
def test_other_models_and_few_rows_are_computed_in_f32(kind, result, rows, emulated, tmp_path):
    payload = layers(tmp_path, kind, result, rows)
    assert typed(payload) == chosen(payload, family_for)


# A router of experts: what is in bf16 is widened, goes on in f32, and meets a weight that is widened, too.
ROUTER = """
#same = affine_map<(i, j) -> (i, j)>
func.func @router(%x: tensor<32x64xbf16>, %w: tensor<64x48xbf16> {autotune.role = "weight"},
    %v: tensor<48x64xbf16> {autotune.role = "weight"}) -> tensor<32x64xbf16> {
  %e = tensor.empty() : tensor<32x64xf32>
  %y = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<32x64xbf16>) outs(%e : tensor<32x64xf32>) {
    ^bb0(%p: bf16, %o: f32):
      %q = arith.extf %p : bf16 to f32
      linalg.yield %q : f32
  } -> tensor<32x64xf32>
  %k = tensor.empty() : tensor<64x48xf32>
  %u = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]}
      ins(%w : tensor<64x48xbf16>) outs(%k : tensor<64x48xf32>) {
    ^bb0(%p: bf16, %o: f32):
      %q = arith.extf %p : bf16 to f32
      linalg.yield %q : f32
  } -> tensor<64x48xf32>
  CHANGED
  %zero = arith.constant 0.0 : f32
  %f = tensor.empty() : tensor<32x48xf32>
  %i = linalg.fill ins(%zero : f32) outs(%f : tensor<32x48xf32>) -> tensor<32x48xf32>
  %m = linalg.matmul ins(%z, %u : tensor<32x64xf32>, tensor<64x48xf32>) outs(%i : tensor<32x48xf32>)
    -> tensor<32x48xf32>
  %g = tensor.empty() : tensor<32x48xbf16>
  %n = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]}
      ins(%m : tensor<32x48xf32>) outs(%g : tensor<32x48xbf16>) {
    ^bb0(%p: f32, %o: bf16):
      %q = arith.truncf %p : f32 to bf16
      linalg.yield %q : bf16
  } -> tensor<32x48xbf16>
  %none = arith.constant 0.0 : bf16
  %h = tensor.empty() : tensor<32x64xbf16>
  %j = linalg.fill ins(%none : bf16) outs(%h : tensor<32x64xbf16>) -> tensor<32x64xbf16>
  %r = linalg.matmul ins(%n, %v : tensor<32x48xbf16>, tensor<48x64xbf16>) outs(%j : tensor<32x64xbf16>)
    -> tensor<32x64xbf16>
  return %r : tensor<32x64xbf16>
}
"""
WHOLE_RANGE = "%z = linalg.exp ins(%y : tensor<32x64xf32>) outs(%e : tensor<32x64xf32>) -> tensor<32x64xf32>"
AS_IT_IS = "%z = tensor.cast %y : tensor<32x64xf32> to tensor<32x64xf32>"


@pytest.mark.parametrize(("changed", "scores"), [(WHOLE_RANGE, "f32"), (AS_IT_IS, "bf16")])
def test_products_that_a_model_widens_itself_are_computed_in_f32(changed, scores, emulated, tmp_path):
    path = tmp_path / "router.mlir"
    path.write_text(ROUTER.replace("CHANGED", changed))
    payload = open_payload(str(path))
    found = {
        (task.contractions[0].k, "bf16" if family_as_typed(task, this_machine()).name == "tile_bf16" else "f32")
        for task in partition(payload).tasks
        if task.contractions
    }
    assert found == {(64, scores), (48, "bf16")}
    path.write_text(payload.text)  # in f32 throughout: only what is said of arguments tells
    again = open_payload(str(path))
    assert [task.narrow for task in partition(again).tasks] == [task.narrow for task in partition(payload).tasks]


def test_without_a_matrix_unit_they_are_computed_in_f32(tmp_path):
    payload, machine = layers(tmp_path, "bf16"), replace(this_machine(), tiles="")
    tasks = partition(payload).tasks
    assert [family_as_typed(task, machine) for task in tasks] == [family_for(task) for task in tasks]


def test_outputs_may_be_off_by_a_step_of_theirs_unless_somebody_says_otherwise(tmp_path):
    bf16, f16 = layers(tmp_path, "bf16"), layers(tmp_path, "f16")
    plain = layers(tmp_path, "bf16", "f32")

    def error(payload, elsewhere=False, **options):
        return allowed_by(payload, TuneOptions(**options), plain=elsewhere).error

    assert [error(bf16), error(f16), error(plain)] == [float(ml_dtypes.finfo(KINDS["bf16"]).eps), 2.0**-10, 0.0]
    assert [error(bf16, error=0.0), error(bf16, error=0.25), error(bf16, agreement=0.5)] == [0.0, 0.25, 0.0]
    assert [error(bf16, family="matmul"), error(bf16, family="tile_bf16")] == [0.0, 2.0**-7]
    assert error(bf16, elsewhere=True) == 0.0
    again = TuneOptions(error=0.0).command("layers.mlir")
    assert "--error" in again
    assert "--error" not in TuneOptions().command("layers.mlir")


def test_a_sweep_of_such_a_model_stays_within_a_step(tmp_path):
    (tmp_path / "one.mlir").write_text(BRAIN)
    budget = read_bundle(make_bundle(tmp_path, str(tmp_path / "one.mlir"), trials=3)).manifest.budget
    assert budget is None or 0 <= budget.spent <= budget.error == 2.0**-7
