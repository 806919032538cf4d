"""Imported folders: text is parsed apart, what describes it is data with laws, and no record has anything imported."""

import json
import os

import numpy as np
import psutil
import pytest
from import_support import PRODUCT, describe, import_product, named

from autotune.core.candidate import Candidate
from autotune.core.errors import PayloadError
from autotune.core.evaluator import Job
from autotune.core.host.machine import this_machine
from autotune.core.host.tensor_file import hash_file, map_tensors, write_tensors
from autotune.core.plugs.imported import ORACLE, TEXT, WEIGHTS
from autotune.registry import load_baseline
from autotune.worker.loading.importing import import_model
from autotune.worker.loading.reading import open_payload, partition
from autotune.worker.loading.resolve import reopen_payload
from autotune.worker.worker import Worker


@pytest.fixture
def folder(tmp_path):
    return import_product(tmp_path)


def test_a_folder_is_parsed_apart_and_its_functions_are_made_here(folder, monkeypatch):
    monkeypatch.setattr("autotune.compiler.tasks.payload_file.parse", None)
    monkeypatch.setattr("autotune.compiler.tasks.partition.parse", None)
    payload = open_payload(folder)
    inputs = payload.make_inputs(1)
    np.testing.assert_allclose(payload.reference(**inputs)[0], inputs["x"].astype(np.float64) @ inputs["w"])
    parts = partition(payload)
    assert (parts.payload.reference, parts.payload.inputs) == (payload.reference, payload.inputs)
    assert len(parts.tasks) == 1


def test_a_model_whose_path_is_not_utf8_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / os.fsdecode(b"m\xff.onnx")
    path.write_bytes(b"")
    with pytest.raises(PayloadError, match=r"a model's path must be UTF-8, .* is not; rename it"):
        import_model(str(path), tmp_path / "m")
    assert not (tmp_path / "m").exists()


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
    monkeypatch.setattr("autotune.worker.loading.imports.import_file", None)
    with pytest.raises(PayloadError, match="must be installed, or named by you before"):
        reopen_payload(str(tmp_path / "model.onnx"))
    assert not (tmp_path / "cache").exists()


def test_an_import_that_breaks_off_leaves_nothing(tmp_path, monkeypatch):
    def break_off(spec, folder):
        folder.mkdir()
        (folder / TEXT).write_text(PRODUCT)
        raise KeyboardInterrupt

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("autotune.worker.loading.imports.import_file", break_off)
    (tmp_path / "model.onnx").write_bytes(b"a model")
    with pytest.raises(KeyboardInterrupt):
        open_payload(tmp_path / "model.onnx")
    assert not list((tmp_path / "cache" / "autotune" / "imports").iterdir())


def refer_to_weights(folder):
    """Move a folder's weights elsewhere, and let it refer to them by hash; gives the file."""
    elsewhere = folder.parent / "elsewhere.safetensors"
    (folder / WEIGHTS).rename(elsewhere)
    describe(folder, weights=[{"path": "../elsewhere.safetensors", "sha256": hash_file(elsewhere)}])
    return elsewhere


def test_weights_stay_where_they_lie_and_are_known_by_their_hash(folder):
    before = open_payload(folder).make_inputs(0)["w"]
    elsewhere = refer_to_weights(folder)
    payload = open_payload(folder)
    np.testing.assert_array_equal(payload.make_inputs(0)["w"], before)
    with Worker() as worker:
        (found,) = worker.evaluate(Job(payload, (Candidate(None, load_baseline("loops").pipeline),), this_machine()))
    assert found.outcome == "ok"
    data = bytearray(elsewhere.read_bytes())
    data[-1] ^= 1
    elsewhere.write_bytes(data)
    with pytest.raises(PayloadError, match=r"must have sha256 \w{12}.., they have \w{12}..; restore it") as error:
        open_payload(folder)
    assert "\n" not in str(error.value)
    elsewhere.unlink()
    with pytest.raises(PayloadError, match=r"weights must be readable, .* is not: No such file"):
        open_payload(folder)


def test_large_weights_are_mapped_and_not_read(tmp_path):
    path, size = tmp_path / "large.safetensors", 3 << 30
    write_tensors(path, {"w": np.ones((8, 16), np.float32)})
    text = path.read_bytes()
    large = {"dtype": "F32", "shape": [size // 4], "data_offsets": [512, 512 + size]}
    small = {"dtype": "F32", "shape": [8, 16], "data_offsets": [0, 512]}
    header = json.dumps({"w": small, "large": large}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + text[-512:])
    os.truncate(path, 8 + len(header) + 512 + size)  # a hole: it takes no room on the disk
    before = psutil.Process().memory_info().rss
    held = map_tensors(path)
    assert held["large"].shape == (size // 4,)
    assert held["large"][-1] == 0
    np.testing.assert_array_equal(held["w"], np.ones((8, 16)))
    assert psutil.Process().memory_info().rss - before < 64 << 20
