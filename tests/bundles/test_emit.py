"""A bundle without this project: mlir-opt applies its schedule, and a C program calls what it compiles to."""

import subprocess
from pathlib import Path

import mlir
import numpy as np
import pytest
from bundle_support import make_bundle, shared_bundle
from c_support import NEEDS_C, build, call_from_c, emit

from autotune.bundles.candidates import recorded_candidate
from autotune.bundles.declared import declared_names, named_arguments
from autotune.bundles.emit import emit_bundle
from autotune.compiler.codegen.llvm_tools import find_tool
from autotune.compiler.ir.module import context, parse
from autotune.core.candidate import Claim
from autotune.core.errors import BundleError
from autotune.core.host.machine import this_machine
from autotune.store.bundle import read_bundle
from autotune.tuning.candidates import default_candidate
from autotune.worker.bench.proof import transform
from autotune.worker.loading.reading import open_payload, partition
from schedules.fused_model import default_config

MLIR_OPT = Path(next(iter(mlir.__path__))) / "bin" / "mlir-opt"
SPECS = {
    "plain": "matmul,m=9,n=24,k=8",
    "panels": "matmul,m=16,n=40,k=24,constant_b=1",
    "group": "softmax,rows=5,cols=37",
    "online": "attention,heads=2,seq=128,d=8",
}
DECODE = next(Path(__file__).parents[2].glob("results/*/bundles/gpt2_functiondecode_weightsint8"))


@pytest.fixture(scope="module")
def bundles(tmp_path_factory):
    def go_online(*about):
        config = default_config(*about)
        return {**config, "online": 64, "register_n_1": 2} if "online" in config else config

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("schedules.fused.default_config", go_online)
        made = {
            name: make_bundle(tmp_path_factory.mktemp(name), spec) for name, spec in SPECS.items() if name != "plain"
        }
    return {"plain": shared_bundle(tmp_path_factory.mktemp("plain"), SPECS["plain"]), **made}


def mlir_opt(script, module):
    """The module after plain mlir-opt has applied a script to it."""
    command = [MLIR_OPT, f"--transform-preload-library=transform-library-paths={script}", "--transform-interpreter"]
    done = subprocess.run([*command, module], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with context():
        return str(parse(done.stdout, "mlir-opt"))


@pytest.mark.skipif(not MLIR_OPT.exists(), reason="this MLIR comes without mlir-opt")
@pytest.mark.parametrize("name", SPECS)
def test_plain_mlir_opt_applies_the_schedule_and_gives_the_same_ir(bundles, name):
    bundle = read_bundle(bundles[name])
    start = "prepared.mlir" if name in ("panels", "online") else "tagged.mlir"
    assert ("prepared.mlir" in bundle.texts) == (start == "prepared.mlir")
    ours = transform(Claim(bundle.payload, recorded_candidate(bundle))).after
    assert mlir_opt(bundle.folder / "schedule.mlir", bundle.folder / start) == ours
    assert ours != bundle.texts[start]


@pytest.mark.skipif(not MLIR_OPT.exists(), reason="this MLIR comes without mlir-opt")
@pytest.mark.parametrize("name", ["plain", "group"])
def test_plain_mlir_opt_applies_the_schedule_of_a_task_alone(bundles, name):
    bundle = read_bundle(bundles[name])
    ((tag, _),) = bundle.manifest.tasks.items()
    text = mlir_opt(bundle.folder / f"schedules/{tag}.mlir", bundle.folder / f"tasks/{tag}.mlir")
    assert "vector." in text
    assert "linalg.generic" not in text


def test_the_bundle_with_panels_says_how_they_are_prepared(bundles):
    (weight,) = read_bundle(bundles["panels"]).manifest.weights
    assert (weight.argument, weight.shape) == ("b", (24, 40))
    assert weight.stored_shape == (-(-40 // weight.columns), 24, weight.columns)


@NEEDS_C
@pytest.mark.parametrize("name", SPECS)
def test_a_c_program_calls_the_emitted_object(bundles, name, tmp_path):
    agrees_in_c(read_bundle(bundles[name]), tmp_path)


@NEEDS_C
def test_a_c_program_calls_the_recorded_decode_with_int8_weights(tmp_path):
    """States that are written and int8 weights in panels, at the size they are made for."""
    agrees_in_c(read_bundle(DECODE), tmp_path)


def agrees_in_c(bundle, folder):
    """What a C caller of the emitted object finds is what the reference computes."""
    emit_bundle(bundle.folder, "object", folder)
    values = bundle.payload.make_inputs(seed=7)
    got = call_from_c(folder, bundle.payload, bundle.manifest.weights, values)
    for argument, expected in zip(bundle.payload.written, bundle.payload.reference(**values), strict=True):
        np.testing.assert_allclose(
            got[argument.name], expected, atol=bundle.manifest.numerics.outputs[argument.name].tolerance
        )


@pytest.mark.parametrize(("kind", "words"), [("llvm", "define void @autotune_matmul_memrefs("), ("asm", "vfmadd")])
def test_text_is_emitted_too(bundles, kind, words, tmp_path):
    path, header = emit_bundle(bundles["plain"], kind, tmp_path / "new" / "folder")
    if kind == "asm" and words not in path.read_text():
        words = "<matmul>:"
    assert words in path.read_text()
    assert "autotune_matmul(\n    const float *input_a /* [9, 8] */,\n" in header.read_text()


def test_unknown_kind_is_refused(bundles, tmp_path):
    with pytest.raises(BundleError, match="--emit must be one of object, llvm, asm"):
        emit_bundle(bundles["plain"], "wasm", tmp_path)


MAIN = """\
#include "autotune_main.h"
#include <stdio.h>
int main(void) {
  const float a[2] = {1, 2};
  float out[2];
  autotune_main(a, a, out);
  printf("%g %g", out[0], out[1]);
}
"""
SUMS = """\
func.func private @puts(%x: f32) -> f32 {
  %r = arith.addf %x, %x : f32
  return %r : f32
}
func.func @main(%a: memref<2xf32>, %b: memref<2xf32>, %out: memref<2xf32>) {
  %x = bufferization.to_tensor %a restrict : memref<2xf32> to tensor<2xf32>
  %y = bufferization.to_tensor %b restrict : memref<2xf32> to tensor<2xf32>
  %e = tensor.empty() : tensor<2xf32>
  %s = linalg.add ins(%x, %y : tensor<2xf32>, tensor<2xf32>) outs(%e : tensor<2xf32>) -> tensor<2xf32>
  bufferization.materialize_in_destination %s in restrict writable %out : (tensor<2xf32>, memref<2xf32>) -> ()
  return
}
"""


@NEEDS_C
def test_a_payload_called_main_exports_one_symbol_and_links_as_any_program_is_linked(tmp_path):
    (tmp_path / "sums.mlir").write_text(SUMS)
    payload = open_payload(str(tmp_path / "sums.mlir"))
    emit(payload, default_candidate(partition(payload), this_machine()), tmp_path)
    listed = subprocess.run(
        [find_tool("llvm-nm"), "--extern-only", "--defined-only", "--just-symbol-name", "autotune_main.o"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert listed.stdout.split() == ["autotune_main_memrefs"]
    build(tmp_path, MAIN, "autotune_main")
    done = subprocess.run(["./main"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "2 4"


def test_the_header_names_arguments_as_the_file_does(tmp_path):
    (tmp_path / "sums.mlir").write_text(SUMS)
    names = [argument.name for argument in named_arguments(open_payload(str(tmp_path / "sums.mlir")))]
    assert names == ["a", "b", "out"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("func.func @f(%a: i32, %b : memref<2x(3)xf32, strided<[1, 2]>> {x = {y = 1 : i64}}) -> f32", ["a", "b"]),
        ("func.func public @f(%x.1: () -> i32, %arg1: f32)", ["x.1", "arg1"]),
        ("func.func @f(%0: i32)", []),
        ("func.func @f()", []),
        ("func.func @g(%a: i32)", []),
        ("", []),
    ],
)
def test_names_are_read_from_whatever_is_declared(text, names):
    assert declared_names(text, "f") == names
