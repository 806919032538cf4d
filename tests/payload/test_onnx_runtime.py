"""ONNX Runtime as an oracle beside ONNX's reference: of nodes that this lacks, and of the user's own file."""

import os

import numpy as np
import onnx
import pytest
from model_zoo import FLOAT, TensorProto, helper, numpy_helper

from autotune.worker.loading.importing import import_model
from autotune.worker.loading.reading import open_payload
from payload.importers import onnx_runtime
from payload.importers.linalg import UnsupportedError
from payload.importers.onnx_convert import convert, read_model
from payload.importers.onnx_oracle import ask_reference
from payload.importers.onnx_runtime import ask_runtime, mismatches, run_file

pytestmark = pytest.mark.usefixtures("warm_converters")
X = np.random.default_rng(0).uniform(-2, 2, (2, 3)).astype(np.float32)
SCALE, ZERO = np.array(0.05, np.float32), np.array(100, np.uint8)


@pytest.fixture(autouse=True)
def runtime():
    return pytest.importorskip("onnxruntime")


def write(path, nodes, held=(), *, version=13, domain=""):
    tensors = [numpy_helper.from_array(array, name) for name, array in dict(held).items()]
    given, result = (helper.make_tensor_value_info(name, FLOAT, [2, 3]) for name in "xy")
    opsets = [helper.make_opsetid("", version), *([helper.make_opsetid(domain, 1)] if domain else [])]
    graph = helper.make_graph(nodes, "model", [given], [result], tensors)
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


def quantised(path, version):
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("Mul", ["d", "d"], ["y"]),
    ]
    return write(path, nodes, {"s": SCALE, "z": ZERO}, version=version)


def asked(path, recorded=None):
    """What is recorded for a model, and by which oracle; `recorded` instead of what the reference gives."""
    found = read_model(path, {})
    model, weights = found.model, dict(found.weights)
    inputs = [{"x": X}, {"x": -X}]
    found = ask_reference(model, weights, inputs) if recorded is None else recorded
    return ask_runtime(path, model, weights, inputs, found)


@pytest.mark.parametrize("version", [10, 13, 18])
def test_quantised_models_of_old_versions_have_an_oracle(version, tmp_path):
    results, oracle = asked(quantised(tmp_path / "model.onnx", version))
    assert oracle == "onnx.reference in float64 and onnxruntime"
    for x, (found,) in zip((X, -X), results, strict=True):
        rounded = np.clip(np.rint(x / SCALE) + 100, 0, 255) - 100
        np.testing.assert_allclose(found, (0.05 * rounded) ** 2, rtol=1e-5)


def test_a_quantised_model_is_imported_with_its_oracle(tmp_path):
    import_model(str(quantised(tmp_path / "model.onnx", 13)), tmp_path / "model")
    assert open_payload(str(tmp_path / "model")).reference is not None


def test_what_the_reference_computes_otherwise_than_the_file_says_is_refused(tmp_path):
    path = write(tmp_path / "model.onnx", [helper.make_node("Relu", ["x"], ["y"])])
    wrong = [[np.maximum(x, 0) * 1.02] for x in (X, -X)]
    with pytest.raises(UnsupportedError, match=r"output y must be what ONNX Runtime computes .* by up to 0\.0\d+ "):
        asked(path, (wrong, "onnx.reference in float64"))
    right = [[np.maximum(x, 0).astype(np.float64)] for x in (X, -X)]
    assert asked(path, (right, "mine")) == (right, "mine")


def test_an_importer_that_reads_a_model_wrongly_is_refused(tmp_path, monkeypatch):
    """Its reference agrees with it, as that computes what it made; the file says otherwise."""
    path = write(tmp_path / "model.onnx", [helper.make_node("Neg", ["x"], ["y"])])
    other = write(tmp_path / "other.onnx", [helper.make_node("Abs", ["x"], ["y"])])
    monkeypatch.setattr("payload.importers.onnx_convert.read_model", lambda path, sizes: read_model(other, sizes))
    with pytest.raises(UnsupportedError, match="output y must be what ONNX Runtime computes of the file"):
        convert(path, tmp_path / "folder", {})


def test_a_model_with_an_op_that_onnx_runtime_lacks_is_imported(tmp_path):
    given, result = (helper.make_tensor_value_info(name, TensorProto.BFLOAT16, [2, 3]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Abs", ["x"], ["y"])], "model", [given], [result])
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), path)
    assert run_file(path, [{"x": X}]) is None
    import_model(str(path), tmp_path / "model")
    assert open_payload(str(tmp_path / "model")).reference is not None


def test_without_the_reference_results_are_those_of_onnx_runtime(tmp_path):
    results, oracle = asked(write(tmp_path / "model.onnx", [helper.make_node("Neg", ["x"], ["y"])]), ([], ""))
    assert oracle == "onnxruntime"
    np.testing.assert_array_equal(np.stack([found for (found,) in results]), [-X, X])


def test_models_that_draw_numbers_are_not_compared(tmp_path):
    path = write(tmp_path / "model.onnx", [helper.make_node("RandomNormalLike", ["x"], ["y"])])
    assert asked(path, ([[X], [X]], "mine")) == ([[X], [X]], "mine")


def test_a_process_that_ends_before_it_answers_is_no_error(tmp_path, monkeypatch):
    path = write(tmp_path / "model.onnx", [helper.make_node("Neg", ["x"], ["y"])])
    monkeypatch.setattr(onnx_runtime, "open_session", lambda model: os._exit(1))
    assert run_file(path, [{"x": X}]) is None


@pytest.mark.parametrize("far", [False, True])
def test_results_agree_up_to_rounding(far):
    size = 2000
    floats = np.linspace(-1, 1, size).astype(np.float32)
    pairs = [
        (floats + (6e-3 if far else 4e-3), floats),
        (np.where(floats > 0, np.nan, floats) if far else floats, floats),
        (np.ones(3), np.array([1, np.inf, np.nan], np.float32) * (2 if far else 1)),
        (np.full(size, 102 if far else 101), np.full(size, 100, np.uint8)),
        (np.full(size, 101 if far else 100), np.full(size, 100)),
        (floats > (0.1 if far else 0), floats > 0),
        (np.zeros(3 if far else 2), np.zeros(2, np.float32)),
        (np.zeros((0, 1)), np.zeros((1, 0) if far else (0, 1), np.float32)),
    ]
    assert [bool(list(mismatches(*pair, 5e-3))) for pair in pairs] == [far] * len(pairs)
