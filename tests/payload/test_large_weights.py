"""Weights of large models are mapped where they lie: no copy, and no limit to their size."""

import json
import shutil
import subprocess

import numpy as np
import onnx
import pytest
from bundle_support import no_care
from model_zoo import mlp, numpy_helper

from autotune.compiler.tasks.partition import partition
from autotune.compiler.tasks.payload_folder import read_description
from autotune.core.errors import PayloadError
from autotune.core.evaluator import Job
from autotune.core.host.machine import this_machine
from autotune.core.host.tensor_file import TensorEntry, TensorInFile, is_mapped, map_entries, map_tensors, read_header
from autotune.core.plugs.imported import DESCRIPTION, ORACLE, TEXT, WEIGHTS
from autotune.tuning.candidates import default_candidate
from autotune.worker.bench.testbench import Testbench
from autotune.worker.loading.importing import import_model
from autotune.worker.loading.imports import import_once
from autotune.worker.loading.reading import open_payload
from autotune.worker.worker import Worker
from payload.importers.converter import run_module
from payload.importers.folder import write_folder
from payload.importers.onnx_convert import read_model

pytestmark = pytest.mark.usefixtures("warm_converters")


def test_weights_in_files_beside_a_model_are_mapped_where_they_lie(tmp_path):
    path = mlp(tmp_path / "model.onnx")
    whole = onnx.load(path)
    held = {each.name: numpy_helper.to_array(each) for each in whole.graph.initializer}
    onnx.save(whole, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    read = read_model(path, {})
    assert set(read.lying) == set(read.weights) == set(held)
    for name, array in held.items():
        assert is_mapped(read.weights[name])
        np.testing.assert_array_equal(read.weights[name], array)
        np.testing.assert_array_equal(map_entries({name: read.lying[name]})[name], array)


@pytest.fixture
def large(tmp_path, monkeypatch):
    """A folder that refers to weights in a file of somebody: all but the first, at odd places."""
    import_model(str(mlp(tmp_path / "model.onnx")), tmp_path / "model")
    folder, lying = tmp_path / "model", {}
    held, model = dict(map_tensors(folder / WEIGHTS)), read_description(folder)
    with (tmp_path / "weights.raw").open("wb") as file:
        for name in list(held)[1:]:
            file.write(b"...")
            lying[name] = TensorInFile(
                tmp_path / "weights.raw", TensorEntry.at(file.tell(), held[name].dtype, held[name].shape)
            )
            file.write(held[name].tobytes())
    with np.load(folder / ORACLE) as oracle:
        inputs = [{"x": oracle[f"input/{seed}/x"]} for seed in (0, 1)]
        results = [[oracle[f"result/{seed}/0"]] for seed in (0, 1)]
    monkeypatch.setattr("payload.importers.folder.MOST_COPIED", 0)
    write_folder(
        tmp_path / "large",
        (folder / TEXT).read_text(),
        model,
        held,
        inputs=inputs,
        results=results,
        keep=lambda path: shutil.copy(tmp_path / "model.onnx", path),
        lying=lying,
        source=tmp_path / "model.onnx",
    )
    return tmp_path / "large"


def test_large_weights_and_their_model_stay_where_they_lie(large):
    assert {path.name for path in large.iterdir()} == {TEXT, DESCRIPTION, WEIGHTS, ORACLE}
    assert len(read_header(large / WEIGHTS)) == 1
    payload = open_payload(str(large))
    assert payload.model == str(large.parent / "model.onnx")
    for name, array in open_payload(str(large.parent / "model")).make_inputs(0).items():
        np.testing.assert_array_equal(payload.make_inputs(0)[name], array)
    parts, machine = partition(payload), this_machine()
    with no_care(), Worker() as worker:
        (found,) = worker.evaluate(Job(payload, (default_candidate(parts, machine),), machine))
    assert found.outcome == "ok"


def test_a_file_of_large_weights_that_changed_is_refused(large):
    raw = large.parent / "weights.raw"
    raw.write_bytes(bytes(raw.stat().st_size))
    with pytest.raises(PayloadError, match=r"weights in .*weights.raw must have sha256 \w{12}.., they have"):
        open_payload(str(large))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"end": 10**9}, "bytes must be as many as"),
        ({"kind": "F8\n"}, "kind must be one of F64, F32"),
        ({"start": -8}, "sizes and start must be at least 0"),
        ({"shape": [1 << 40, 0], "start": 8, "end": 8}, "must have shape"),
        ({"shape": [1 << 60, 1 << 60], "start": 0, "end": 1 << 122}, "must have shape"),
        ({"shape": "x"}, "payload.json must describe an imported model"),
    ],
)
def test_where_large_weights_lie_is_checked(changed, words, large):
    said = json.loads((large / DESCRIPTION).read_text())
    next(iter(said["weights"][0]["tensors"].values())).update(changed)
    (large / DESCRIPTION).write_text(json.dumps(said))
    with pytest.raises(PayloadError, match=words) as error:
        open_payload(str(large)).make_inputs(0)
    assert "\n" not in str(error.value)


def test_weights_behind_the_end_of_their_file_are_refused(large):
    said = json.loads((large / DESCRIPTION).read_text())
    entry = next(iter(said["weights"][0]["tensors"].values()))
    entry.update(start=entry["start"] + (1 << 40), end=entry["end"] + (1 << 40))
    (large / DESCRIPTION).write_text(json.dumps(said))
    with pytest.raises(PayloadError, match=r"weights must be readable, .* is not: it must hold"):
        open_payload(str(large)).make_inputs(0)


def test_a_converter_that_computes_too_long_is_ended(tmp_path, monkeypatch):
    """By its processor time: others may have taken what the clock says."""
    (tmp_path / "busy.py").write_text("while True: pass\n")
    monkeypatch.chdir(tmp_path)
    with (tmp_path / "said").open("wb+") as said, pytest.raises(subprocess.TimeoutExpired):
        run_module("busy", [], said, 0.5)


def test_large_weights_are_read_where_they_are_mapped_and_restored_where_a_program_wrote_them(large, monkeypatch):
    monkeypatch.setattr("autotune.worker.bench.payload_arrays.MOST_COPIED", 0)
    bench = Testbench(open_payload(str(large.parent / "model")), 0)
    mapped = {name: array for name, array in bench.inputs.items() if is_mapped(array)}
    assert mapped
    name, array = next(iter(mapped.items()))
    before = array.copy()
    array[0] = 7
    assert bench.trespass() == f"inputs must not be written; {name} was"
    np.testing.assert_array_equal(bench.inputs[name], before)
    assert not bench.trespass()


def test_a_model_that_moved_is_imported_again(large, tmp_path, monkeypatch):
    """What was imported on the way before refers to where its weights were."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    spec = str(tmp_path / "model.onnx")
    folder = import_once(spec)
    shutil.rmtree(folder)
    shutil.copytree(large, folder)
    assert import_once(spec) == folder
    assert not (folder / "model.onnx").is_file()
    (tmp_path / "weights.raw").unlink()
    assert import_once(spec) == folder
    assert (folder / "model.onnx").is_file()
