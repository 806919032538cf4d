"""Convolutions over volumes of ONNX models, written as ones over planes: with steps, holes, margins and groups."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st


def model_of(onnx, x, weights, **attributes):
    """One convolution, whose shapes are inferred."""
    info = onnx.helper.make_tensor_value_info
    inputs = [info(name, onnx.TensorProto.FLOAT, array.shape) for name, array in {"x": x, **weights}.items()]
    node = onnx.helper.make_node("Conv", ["x", *weights], ["y"], **attributes)
    graph = onnx.helper.make_graph([node], "one", inputs, [info("y", onnx.TensorProto.FLOAT, None)])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9)
    return onnx.shape_inference.infer_shapes(model)


def computed(model, **arrays):
    """What ONNX Runtime gives."""
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, arrays)[0]


@settings(max_examples=25, deadline=None)
@given(
    kernel=st.tuples(*[st.integers(1, 3)] * 3),
    strides=st.tuples(*[st.integers(1, 3)] * 3),
    dilation=st.integers(1, 2),
    pads=st.tuples(*[st.integers(0, 1)] * 6),
    groups=st.sampled_from([(1, 2, False), (1, 2, True), (2, 2, True), (4, 1, False), (4, 1, True)]),
)
def test_planes_give_what_volumes_do(kernel, strides, dilation, pads, groups):
    onnx = pytest.importorskip("onnx")
    from payload.importers.onnx_volumes import write_planes

    group, channels, biased = groups
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, group * channels, 5, 6, 7)).astype(np.float32)
    weights = {"w": rng.standard_normal((4, channels, *kernel)).astype(np.float32)}
    if biased:
        weights["b"] = rng.standard_normal(4).astype(np.float32)
    settings = {"strides": strides, "dilations": [dilation] * 3, "pads": pads, "group": group}
    model = model_of(onnx, x, weights, **settings)
    expected, left = computed(model, x=x, **weights), dict(weights)
    write_planes(model, left)
    is_plane = any(len(node.attribute) and node.op_type == "Transpose" for node in model.graph.node)
    assert is_plane == (max(strides) > 1 or channels == 1) == ("w" not in left)
    assert {tensor.name for tensor in model.graph.input} == {"x", *left}
    np.testing.assert_allclose(computed(model, x=x, **left), expected, rtol=1e-4, atol=1e-4)


def test_a_kernel_that_is_no_weight_stays():
    onnx = pytest.importorskip("onnx")
    from payload.importers.onnx_volumes import write_planes

    arrays = {"w": np.ones((2, 3, 2, 2, 2), np.float32)}
    model = model_of(onnx, np.ones((1, 3, 5, 5, 5), np.float32), arrays, strides=[2, 2, 2])
    write_planes(model, {})
    assert [node.op_type for node in model.graph.node] == ["Conv"]
