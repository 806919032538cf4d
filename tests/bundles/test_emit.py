"""A bundle without this project: mlir-opt applies its schedule, and a C program calls what it compiles to."""

import shutil
import subprocess
from pathlib import Path

import mlir
import numpy as np
import pytest
from bundle_support import make_bundle

from autotune.bundles.candidates import recorded_candidate
from autotune.bundles.emit import emit_bundle
from autotune.compiler.module import context, parse
from autotune.core.candidate import Claim
from autotune.core.errors import BundleError
from autotune.store.bundle import read_bundle
from autotune.worker.proof import transform
from schedules.fused_model import default_config

MLIR_OPT = Path(next(iter(mlir.__path__))) / "bin" / "mlir-opt"
SPECS = {
    "plain": "matmul,m=17,n=24,k=9",
    "panels": "matmul,m=16,n=40,k=24,constant_b=1",
    "group": "softmax,rows=5,cols=37",
    "online": "attention,heads=2,seq=128,d=8",
}
COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


@pytest.fixture(scope="module")
def bundles(tmp_path_factory):
    def go_online(*about):
        config = default_config(*about)
        return {**config, "online": 64} if "online" in config else config

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("schedules.fused.default_config", go_online)
        return {name: make_bundle(tmp_path_factory.mktemp(name), spec) for name, spec in SPECS.items()}


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


def c_program(bundle, header):
    """A C program that reads the inputs from a file and writes the outputs to another."""
    arguments = bundle.payload.arguments
    name = header.stem
    lines = [f'#include "{header.name}"', "#include <stdio.h>"]
    calls, names = [], []
    for argument in arguments:
        lines.append(f"static float {argument.name}[{int(np.prod(argument.shape))}];")
        names.append(argument.name)
        if argument.role != "output":
            calls.append(f"if (fread({argument.name}, sizeof {argument.name}, 1, source) != 1) return 1;")
    for i, weight in enumerate(bundle.manifest.weights):
        panels = f"{weight.argument}_panels_{i}"
        lines.append(f"static float {panels}[{int(np.prod(weight.stored_shape))}];")
        calls.append(f"{name}_prepare_{panels}({weight.argument}, {panels});")
        names.append(panels)
    calls.append(f"{name}({', '.join(names)});")
    calls += [f"fwrite({a.name}, sizeof {a.name}, 1, target);" for a in bundle.payload.outputs]
    body = "\n  ".join(calls)
    opened = 'FILE *source = fopen("in", "rb"), *target = fopen("out", "wb");'
    return "\n".join(lines) + f"\nint main(void) {{\n  {opened}\n  {body}\n  return fclose(target);\n}}\n"


@pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
@pytest.mark.parametrize("name", SPECS)
def test_a_c_program_calls_the_emitted_object(bundles, name, tmp_path):
    bundle = read_bundle(bundles[name])
    compiled, header = emit_bundle(bundle.folder, "object", tmp_path)
    (tmp_path / "main.c").write_text(c_program(bundle, header))
    build = [
        COMPILER,
        "-Wall",
        "-Wextra",
        "-Werror",
        "-pedantic",
        "-no-pie",
        "main.c",
        compiled.name,
        "-lm",
        "-o",
        "main",
    ]
    done = subprocess.run(build, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    values = bundle.payload.make_inputs(seed=7)
    (tmp_path / "in").write_bytes(b"".join(np.ascontiguousarray(v).tobytes() for v in values.values()))
    subprocess.run(["./main"], cwd=tmp_path, check=True)
    (expected,) = bundle.payload.reference(**values)
    got = np.frombuffer((tmp_path / "out").read_bytes(), np.float32).reshape(expected.shape)
    np.testing.assert_allclose(got, expected, atol=1e-5)


@pytest.mark.parametrize(("kind", "words"), [("llvm", "define void @_mlir_ciface_matmul("), ("asm", "vfmadd")])
def test_text_is_emitted_too(bundles, kind, words, tmp_path):
    path, header = emit_bundle(bundles["plain"], kind, tmp_path / "new" / "folder")
    if kind == "asm" and words not in path.read_text():
        words = "<matmul>:"
    assert words in path.read_text()
    assert "autotune_matmul(const float *a" in header.read_text()


def test_unknown_kind_is_refused(bundles, tmp_path):
    with pytest.raises(BundleError, match="--emit must be one of object, llvm, asm"):
        emit_bundle(bundles["plain"], "wasm", tmp_path)
