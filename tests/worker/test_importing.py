"""Imported folders: text is parsed apart, what describes it is data with laws, and no record has anything imported."""

import json
import os

import numpy as np
import pytest

from autotune.core.candidate import Candidate
from autotune.core.errors import PayloadError
from autotune.core.evaluator import Job
from autotune.core.imported import DESCRIPTION, ORACLE, TEXT, WEIGHTS
from autotune.core.machine import this_machine
from autotune.registry import load_baseline
from autotune.worker.importing import import_model
from autotune.worker.reading import open_payload, partition, reopen_payload
from autotune.worker.worker import Worker

PRODUCT = """
func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>) -> tensor<4x16xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<4x16xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<4x16xf32>) -> tensor<4x16xf32>
  %y = linalg.matmul ins(%x, %w : tensor<4x8xf32>, tensor<8x16xf32>) outs(%zeros : tensor<4x16xf32>)
    -> tensor<4x16xf32>
  return %y : tensor<4x16xf32>
}
"""


@pytest.fixture
def folder(tmp_path):
    """A product with a weight and recorded results, as an importer would write it."""
    from safetensors.numpy import save_file

    (tmp_path / "product.mlir").write_text(PRODUCT)
    import_model(str(tmp_path / "product.mlir"), tmp_path / "product")
    rng = np.random.default_rng(0)
    weight = rng.uniform(-1, 1, (8, 16)).astype(np.float32)
    inputs = [rng.uniform(-1, 1, (4, 8)).astype(np.float32) for _ in range(2)]
    save_file({"w": weight}, tmp_path / "product" / WEIGHTS)
    recorded = {f"input/{seed}/x": x for seed, x in enumerate(inputs)}
    recorded |= {f"result/{seed}/0": x.astype(np.float64) @ weight for seed, x in enumerate(inputs)}
    np.savez(tmp_path / "product" / ORACLE, **recorded)
    describe(tmp_path / "product", importer="onnx", arguments=[named("x"), named("w", "weight"), named("y", "output")])
    return tmp_path / "product"


def named(name, role="input", **more):
    return {"name": name, "role": role, **more}


def describe(folder, **changes):
    path = folder / DESCRIPTION
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_a_folder_is_parsed_apart_and_its_functions_are_made_here(folder, monkeypatch):
    monkeypatch.setattr("autotune.compiler.tasks.payload_file.parse", None)
    monkeypatch.setattr("autotune.compiler.tasks.partition.parse", None)
    payload = open_payload(folder)
    inputs = payload.make_inputs(1)
    np.testing.assert_allclose(payload.reference(**inputs)[0], inputs["x"].astype(np.float64) @ inputs["w"])
    parts = partition(payload)
    assert (parts.payload.reference, parts.payload.inputs) == (payload.reference, payload.inputs)
    assert len(parts.tasks) == 1


def test_weights_and_results_are_read_inside_the_sandbox(folder):
    job = Job(open_payload(folder), (Candidate(None, load_baseline("loops").pipeline),), this_machine())
    with Worker() as worker:
        (right,) = worker.evaluate(job)
        np.savez(folder / ORACLE, **{**np.load(folder / ORACLE), "result/0/0": np.zeros((4, 16))})
        worker.renew()
        (wrong,) = worker.evaluate(job)
    assert (right.outcome, wrong.outcome) == ("ok", "wrong-result")


def test_text_of_a_folder_holds_what_a_payload_may_hold(folder):
    (folder / TEXT).write_text(PRODUCT + "func.func private @system(i64)\n")
    with pytest.raises(PayloadError, match=r"payload.mlir must define every function it calls, @system is outside"):
        open_payload(folder)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"importer": "../../other"}, "importer must be a suffix"),
        ({"format": 2}, "format must be 1, got 2"),
        ({"notes": ["a\nb"]}, "texts must be printable"),
        ({"source": 3}, "source: Input should be a valid string"),
        ({"arguments": [named("x")]}, "must describe the 3 arguments"),
        ({"arguments": [named("x", "boss")]}, "role of x must be one of"),
        ({"arguments": [named("x", low=2.0, high=1.0)]}, "low of x must be below high"),
        ({"arguments": [named("x", high=float("inf"))]}, "both finite"),
        ({"arguments": [named("x", order=[0, 0])]}, "order of x must hold every dimension once"),
        ({"arguments": [named("x", shape=[0])]}, "sizes of x must be at least 1"),
        ({"arguments": [named("x"), named("v", "weight"), named("y", "output")]}, "weight v in .* is missing"),
        (
            {"arguments": [named("x"), named("w", "weight", shape=[2, 2]), named("y", "output")]},
            r"weight w in .* must have shape \(8, 16\)",
        ),
        (
            {"arguments": [named("x"), named("w", "weight", order=[1, 0, 2]), named("y", "output")]},
            r"weight w in .* must have shape \(8, 16\)",
        ),
    ],
)
def test_a_description_that_cannot_be_is_one_line(changes, words, folder):
    describe(folder, **changes)
    with pytest.raises(PayloadError, match=words):
        open_payload(folder)


@pytest.mark.parametrize(("name", "words"), [(WEIGHTS, "weights"), (ORACLE, "recorded results"), (TEXT, "payload")])
def test_a_file_that_never_ends_is_refused_at_once(name, words, folder):
    (folder / name).unlink()
    os.mkfifo(folder / name)
    with pytest.raises(PayloadError, match=rf"{words}.*FIFO"):
        open_payload(folder).make_inputs(0)


@pytest.mark.parametrize("name", [WEIGHTS, ORACLE])
def test_a_damaged_file_is_one_line(name, folder):
    (folder / name).write_bytes((folder / name).read_bytes()[:100])
    with pytest.raises(PayloadError, match="must be readable"):
        open_payload(folder).make_inputs(0)


@pytest.mark.parametrize("name", ["", "a" * 5000, "no/such"])
def test_a_model_that_is_no_file_is_one_line(name, refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refused("tune", f"{name}.onnx")
    refused("import", f"{name}.onnx")


def test_a_record_has_nothing_imported(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "model.onnx").write_bytes(b"a model")
    monkeypatch.setattr("autotune.worker.imports.import_file", None)
    with pytest.raises(PayloadError, match="must be imported before records of it are read"):
        reopen_payload(str(tmp_path / "model.onnx"))
    assert not (tmp_path / "cache").exists()


def test_an_import_that_breaks_off_leaves_nothing(tmp_path, monkeypatch):
    def break_off(spec, folder):
        folder.mkdir()
        (folder / TEXT).write_text(PRODUCT)
        raise KeyboardInterrupt

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("autotune.worker.imports.import_file", break_off)
    (tmp_path / "model.onnx").write_bytes(b"a model")
    with pytest.raises(KeyboardInterrupt):
        open_payload(tmp_path / "model.onnx")
    assert not list((tmp_path / "cache" / "autotune" / "imports").iterdir())
