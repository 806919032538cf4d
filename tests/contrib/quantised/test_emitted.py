"""C libraries of quantised models: weights in blocks, and products of bytes, as Python computes them."""

import numpy as np
import onnx
import pytest

pytest.importorskip("gguf")
pytest.importorskip("onnxruntime")

from emit_support import BASE, NEEDS_LINKER, OURS, agrees, library_of, linked
from gguf_support import write_model
from integer_reference import evaluate
from quantised_zoo import convolutions, quantise

import autotune as at
from autotune.worker.loading.importing import import_model

pytestmark = [NEEDS_LINKER, pytest.mark.usefixtures("warm_converters")]
BOTH = tuple(dict.fromkeys((BASE, OURS)))  # of which a call runs the second


@pytest.mark.parametrize(
    ("form", "level"), [("q8_0", OURS), ("q4_0", OURS), ("q4_k", OURS), ("q6_k", OURS), ("q4_k", BASE)]
)
def test_a_library_multiplies_by_blocks(form, level, tmp_path):
    payload = at.payload(f"qmatmul,m=3,n=8,k=256,format={form}")
    assert agrees(linked(tmp_path, library_of(tmp_path, payload, (level,))), payload)


@pytest.mark.parametrize(("tokens", "levels"), [(1, BOTH), (8, (OURS,))])
def test_a_library_of_a_gguf_model_decodes_and_reads_a_prompt(tokens, levels, tmp_path):
    write_model(tmp_path / "model.gguf", kind="Q4_0", layers=1)
    import_model(f"{tmp_path / 'model.gguf'},tokens={tokens},positions=16", tmp_path / "m")
    payload = at.payload(str(tmp_path / "m"))
    assert agrees(linked(tmp_path, library_of(tmp_path, payload, levels)), payload)


def keep_weights_small(path):
    """Let no weight of a model use all of its byte."""
    model = onnx.load(path)
    weights = [each for each in model.graph.initializer if each.data_type == onnx.TensorProto.INT8 and each.dims]
    for each in weights:
        each.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(each) // np.int8(3), each.name))
    assert weights
    onnx.save(model, path)


@pytest.mark.parametrize(
    ("scheme", "is_small", "levels"),
    [("u8s8", False, (OURS,)), ("s8s8", True, BOTH)],
    ids=["whole bytes", "small weights"],
)
def test_a_library_of_a_quantised_onnx_model_is_exact(scheme, is_small, levels, tmp_path):
    path = quantise(convolutions(tmp_path / "plain.onnx"), tmp_path / "model.onnx", scheme=scheme)
    if is_small:
        keep_weights_small(path)
    import_model(str(path), tmp_path / "m")
    payload = at.payload(str(tmp_path / "m"))
    call = linked(tmp_path, library_of(tmp_path, payload, levels))
    shapes = {i.name: [d.dim_value for d in i.type.tensor_type.shape.dim] for i in onnx.load(path).graph.input}
    given = {n: np.random.default_rng(5).standard_normal(s).astype(np.float32) for n, s in shapes.items()}
    found = call(**{a.name: given[a.name] for a in payload.arguments if a.role == "input"})
    np.testing.assert_array_equal(found, evaluate(path, given)[0])
