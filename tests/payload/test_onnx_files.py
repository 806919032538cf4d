"""Files in which a model keeps its weights are part of it: of its hash, of its import, of what it is compared with."""

import importlib
import os
import sys

import numpy as np
import onnx
import pytest
from model_zoo import FLOAT, helper, numpy_helper, save

from autotune.core.errors import PayloadError
from autotune.core.plugs.imported import Importer
from autotune.worker.loading.imports import folder_of, import_once
from autotune.worker.loading.reading import open_payload
from payload.comparators.onnxruntime import OrtModel
from payload.importers.onnx_files import external_files


def export(path, value, location="model.onnx.data"):
    """A model whose weights lie beside it: exports of other weights give the same file."""
    path.parent.mkdir(exist_ok=True, parents=True)
    held = numpy_helper.from_array(np.full((4, 4), value, np.float32), "w")
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    save(path, [node], [("x", FLOAT, ["n", 4])], [("y", FLOAT, ["n", 4])], held)
    onnx.save(onnx.load(path), path, save_as_external_data=True, location=location, size_threshold=0)
    return path


def external(name, location):
    tensor = onnx.TensorProto(name=name, data_type=FLOAT, dims=[1], data_location=onnx.TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=location)
    return tensor


@pytest.mark.usefixtures("warm_converters")
def test_exports_that_differ_in_weights_alone_are_two_models(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    one, other = export(tmp_path / "a" / "model.onnx", 1.0), export(tmp_path / "b" / "model.onnx", 2.0)
    assert one.read_bytes() == other.read_bytes()
    for path, value in ((one, 1.0), (other, 2.0)):
        payload = open_payload(f"{path},n=3")
        given = payload.make_inputs(0)
        assert payload.model == str(path)
        np.testing.assert_array_equal(given["w"], value)
        theirs = OrtModel(payload, given)
        wanted = payload.reference(**given)[0]
        np.testing.assert_allclose(theirs.outputs(theirs.call())[0], wanted, atol=1e-5)


def test_every_tensor_of_a_model_may_lie_in_a_file(tmp_path):
    def constant(name):
        return helper.make_node("Constant", [], [name], value=external(name, f"{name}.bin"))

    branch = helper.make_graph([constant("inner")], "branch", [], [], [external("held", "held.bin")])
    nodes = [constant("outer"), helper.make_node("If", ["c"], ["z"], then_branch=branch)]
    graph = helper.make_graph(nodes, "model", [], [], [external("w", "w.bin")])
    graph.sparse_initializer.add(values=external("values", "values.bin"), indices=external("at", "at.bin"))
    versions = [helper.make_opsetid("", 20)]
    body = helper.make_function("mine", "F", [], ["called"], [constant("called")], versions)
    model = helper.make_model(graph, functions=[body], opset_imports=versions)
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    names = {"outer", "inner", "held", "w", "values", "at", "called"}
    for name in names:
        (tmp_path / f"{name}.bin").write_bytes(b"1234")
    assert {path.stem for path in external_files(tmp_path / "model.onnx")} == names
    before = folder_of(str(tmp_path / "model.onnx"))
    for name in names:
        (tmp_path / f"{name}.bin").write_bytes(b"4321")
        after = folder_of(str(tmp_path / "model.onnx"))
        assert before != after
        before = after


def test_a_model_is_imported_anew_by_an_importer_whose_code_changed(tmp_path, monkeypatch):
    (tmp_path / "model.toy").touch()
    package = tmp_path / "toys"
    package.mkdir()
    for name in ("__init__", "reading"):
        (package / f"{name}.py").write_text("def read(path, folder, sizes): ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    from toys import read

    monkeypatch.setattr("autotune.worker.loading.imports.importer_of", lambda spec: Importer(read))
    before = folder_of(str(tmp_path / "model.toy"))
    assert folder_of(str(tmp_path / "model.toy")) == before
    (package / "reading.py").write_text("def read(path, folder, sizes): write(folder)\n")
    assert folder_of(str(tmp_path / "model.toy")) != before


@pytest.mark.parametrize("changes", ["model.toy", "the code of its importer"])
def test_what_changed_while_a_model_was_imported_is_said(changes, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.toy").touch()
    (tmp_path / "toy.py").write_text("def read(path, folder, sizes): ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "toy", raising=False)
    importer = Importer(importlib.import_module("toy").read)
    monkeypatch.setattr("autotune.worker.loading.imports.importer_of", lambda spec: importer)
    changed = tmp_path / ("model.toy" if changes == "model.toy" else "toy.py")
    monkeypatch.setattr("autotune.worker.loading.imports.import_file", lambda *given: changed.write_text("pass\n"))
    with pytest.raises(PayloadError, match=f"must stay as it is while it is imported, {changes} changed; do it again"):
        import_once("model.toy")


@pytest.mark.parametrize(
    "location",
    ["/etc/hostname", "../secret.bin", "sub/../../secret.bin", "link.bin", "near.bin", "gone.bin", "n" * 300, ""],
)
def test_weights_elsewhere_are_refused_in_one_line(location, tmp_path, refused):
    path = tmp_path / "model" / "model.onnx"
    path.parent.mkdir()
    (tmp_path / "secret.bin").write_bytes(b"1234")
    os.symlink(tmp_path / "secret.bin", path.parent / "link.bin")
    (path.parent / "data.bin").write_bytes(b"1234")
    os.symlink("data.bin", path.parent / "near.bin")
    graph = helper.make_graph([], "model", [], [], [external("w", location)])
    path.write_bytes(helper.make_model(graph).SerializeToString())
    with pytest.raises(PayloadError, match=r"weights of .* must"):
        folder_of(str(path))
    refused("import", path, "-o", tmp_path / "out", words="weights of")
    refused("compare", path, words="weights of")
