"""Transposed convolutions of ONNX models, written as dense ones: of any stride, kernel, margin and group."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from import_support import one_node_model, run_onnx


@settings(max_examples=40, deadline=None)
@given(
    sides=st.lists(
        st.tuples(st.integers(2, 5), st.integers(1, 5), st.integers(1, 4), st.integers(0, 1), st.integers(0, 1)),
        min_size=1,
        max_size=2,
    ),
    group=st.sampled_from([1, 2]),
    biased=st.booleans(),
)
def test_dense_convolutions_give_what_transposed_ones_do(sides, group, biased):
    pytest.importorskip("onnx")
    from payload.importers.onnx_phases import write_phases

    given_sizes, kernel, strides, before, behind = zip(*sides, strict=True)
    assume(all((i - 1) * s + k - b - e > 0 for i, k, s, b, e in sides))
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 2 * group, *given_sizes)).astype(np.float32)
    x.flat[[0, x.size // 2]] = np.nan, np.inf
    weights = {"w": rng.standard_normal((2 * group, 3, *kernel)).astype(np.float32)}
    if biased:
        weights["b"] = rng.standard_normal(3 * group).astype(np.float32)
    model = one_node_model("ConvTranspose", x, weights, strides=strides, pads=[*before, *behind], group=group)
    expected = run_onnx(model, x=x, **weights)
    left = dict(weights)
    write_phases(model, left)
    ops = {node.op_type for node in model.graph.node}
    assert ("ConvTranspose" in ops) == bool(left)
    assert {tensor.name for tensor in model.graph.input} == {"x", *left}
    np.testing.assert_allclose(run_onnx(model, x=x, **left), expected, rtol=1e-4, atol=1e-4)


def test_what_reads_a_kernel_that_is_no_weight_stays():
    pytest.importorskip("onnx")
    from payload.importers.onnx_phases import write_phases

    arrays = {"w": np.ones((2, 3, 4), np.float32)}
    model = one_node_model("ConvTranspose", np.ones((1, 2, 5), np.float32), arrays, strides=[2])
    write_phases(model, {})
    assert [node.op_type for node in model.graph.node] == ["ConvTranspose"]


def test_dilated_ones_stay():
    pytest.importorskip("onnx")
    from payload.importers.onnx_phases import write_phases

    weights = {"w": np.ones((2, 3, 4), np.float32)}
    model = one_node_model("ConvTranspose", np.ones((1, 2, 5), np.float32), weights, strides=[2], dilations=[2])
    write_phases(model, weights)
    assert [node.op_type for node in model.graph.node] == ["ConvTranspose"]
    assert list(weights) == ["w"]
