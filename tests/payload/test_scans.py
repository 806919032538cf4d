"""Scans of models, written as reductions of small blocks: along any axis, of any length, from either end."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from payload.importers.scan import side_of, triangle

SHAPES = st.sampled_from([(5,), (1, 64), (3, 96), (2, 509), (70, 3), (41, 20), (2, 48, 17), (2, 1100), (1, 1)])
STRANGE = st.sampled_from([1.0, np.nan, np.inf, -np.inf])  # an element in the middle: those before it stay finite


@settings(max_examples=20, deadline=None)
@given(shape=SHAPES, place=st.integers(0, 2), exclusive=st.booleans(), reverse=st.booleans(), strange=STRANGE)
def test_partial_sums_of_onnx_are_those_of_its_reference(shape, place, exclusive, reverse, strange):
    onnx = pytest.importorskip("onnx")
    from onnx.reference import ReferenceEvaluator

    from payload.importers.onnx_scan import decompose_sums

    kinds = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name in "xy"]
    node = onnx.helper.make_node("CumSum", ["x", "axis"], ["y"], exclusive=int(exclusive), reverse=int(reverse))
    axis = onnx.numpy_helper.from_array(np.array(place % len(shape)), "axis")
    model = onnx.helper.make_model(onnx.helper.make_graph([node], "sums", kinds[:1], kinds[1:], [axis]))
    x = np.random.default_rng(0).integers(-9, 9, shape).astype(np.float32)
    x.flat[x.size // 2] = strange
    (expected,) = ReferenceEvaluator(model).run(None, {"x": x})
    decompose_sums(model)
    onnx.checker.check_model(model)
    assert "CumSum" not in {each.op_type for each in model.graph.node}
    (got,) = ReferenceEvaluator(model).run(None, {"x": x})
    np.testing.assert_array_equal(got, expected)


KINDS = st.sampled_from(["float32", "float64", "int32", "bool"])


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
@settings(max_examples=20, deadline=None)
@given(shape=SHAPES, place=st.integers(-3, 2), kind=KINDS, strange=STRANGE)
def test_scans_of_pytorch_are_its_own(name, shape, place, kind, strange):
    torch = pytest.importorskip("torch")
    from payload.importers import pt2_scan

    x = torch.from_numpy(np.random.default_rng(0).choice([-2, -1, 1, 1, 1, 1], shape)).to(getattr(torch, kind))
    if x.is_floating_point():
        x.view(-1)[x.numel() // 2] = strange
    expected = getattr(torch, name)(x, place % len(shape))
    ours = {"cumsum": pt2_scan.sum_along, "cumprod": pt2_scan.multiply_along}[name]
    got = ours(x, place % len(shape) - len(shape))
    assert got.dtype == expected.dtype
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=0, equal_nan=True)


@given(st.integers(1, 5000))
def test_blocks_divide_what_they_are_of_and_are_few_or_small(size):
    side = side_of(size)
    assert side == 0 or size % side == 0
    assert side <= 32


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
def test_a_triangle_says_which_elements_are_part_of_which_sum(exclusive, reverse):
    x = np.arange(1.0, 6.0)
    order = slice(None, None, -1 if reverse else 1)
    expected = (np.cumsum(x[order]) - (x[order] if exclusive else 0))[order]
    taken = triangle(5, exclusive=exclusive, reverse=reverse)
    np.testing.assert_array_equal(np.where(taken, x[:, None], 0).sum(0), expected)
