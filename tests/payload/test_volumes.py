"""Depthwise convolutions over volumes of ONNX models, written as ones over planes: with steps, holes and margins."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from import_support import one_node_model, run_onnx


@settings(max_examples=25)
@given(
    kernel=st.tuples(*[st.integers(1, 3)] * 3),
    strides=st.tuples(*[st.integers(1, 3)] * 3),
    dilation=st.integers(1, 2),
    pads=st.tuples(*[st.integers(0, 1)] * 6),
    groups=st.sampled_from([(1, 2, False), (1, 2, True), (2, 2, True), (4, 1, False), (4, 1, True)]),
)
def test_planes_give_what_volumes_do(kernel, strides, dilation, pads, groups):
    pytest.importorskip("onnx")
    from payload.importers.onnx_volumes import write_planes

    group, channels, biased = groups
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, group * channels, 5, 6, 7)).astype(np.float32)
    x.flat[[0, x.size // 2]] = np.nan, np.inf
    weights = {"w": rng.standard_normal((4, channels, *kernel)).astype(np.float32)}
    if biased:
        weights["b"] = rng.standard_normal(4).astype(np.float32)
    settings = {"strides": strides, "dilations": [dilation] * 3, "pads": pads, "group": group}
    model = one_node_model("Conv", x, weights, **settings)
    expected, left = run_onnx(model, x=x, **weights), dict(weights)
    write_planes(model, left)
    is_plane = any(len(node.attribute) and node.op_type == "Transpose" for node in model.graph.node)
    assert is_plane == (group > 1 and channels == 1) == ("w" not in left)
    assert {tensor.name for tensor in model.graph.input} == {"x", *left}
    np.testing.assert_allclose(run_onnx(model, x=x, **left), expected, rtol=1e-4, atol=1e-4)


def test_a_kernel_that_is_no_weight_stays():
    pytest.importorskip("onnx")
    from payload.importers.onnx_volumes import write_planes

    arrays = {"w": np.ones((3, 1, 2, 2, 2), np.float32)}
    model = one_node_model("Conv", np.ones((1, 3, 5, 5, 5), np.float32), arrays, group=3, strides=[2, 2, 2])
    write_planes(model, {})
    assert [node.op_type for node in model.graph.node] == ["Conv"]
