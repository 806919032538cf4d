"""Scans of models: along any axis, of any length, from either end."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

SHAPES = st.sampled_from([(5,), (1, 64), (3, 96), (2, 509), (70, 3), (41, 20), (2, 48, 17), (2, 1100), (1, 1)])
STRANGE = st.sampled_from([1.0, np.nan, np.inf, -np.inf])  # an element in the middle: those before it stay finite


@settings(max_examples=20, deadline=None)
@given(
    shape=SHAPES,
    place=st.integers(0, 2),
    how=st.sampled_from([(True, False), (False, True), (True, True)]),
    strange=STRANGE,
)
def test_partial_sums_of_onnx_are_those_of_its_reference(shape, place, how, strange):
    onnx = pytest.importorskip("onnx")
    from onnx.reference import ReferenceEvaluator

    from payload.importers.onnx_plain import REWRITES, rewrite_nodes

    exclusive, reverse = how
    kinds = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name in "xy"]
    node = onnx.helper.make_node("CumSum", ["x", "axis"], ["y"], exclusive=int(exclusive), reverse=int(reverse))
    axis = onnx.numpy_helper.from_array(np.array(place % len(shape)), "axis")
    model = onnx.helper.make_model(onnx.helper.make_graph([node], "sums", kinds[:1], kinds[1:], [axis]))
    x = np.random.default_rng(0).integers(-9, 9, shape).astype(np.float32)
    x.flat[x.size // 2] = strange
    (expected,) = ReferenceEvaluator(model).run(None, {"x": x})
    rewrite_nodes(model.graph, REWRITES)
    onnx.checker.check_model(model)
    assert [len(node.attribute) for node in model.graph.node if node.op_type == "CumSum"] == [0]
    (got,) = ReferenceEvaluator(model).run(None, {"x": x})
    np.testing.assert_array_equal(got, expected)


SCANS = {  # axis, and shape and dtype of the input
    "rows": (1, (12, 300), "float32"),
    "a length of its own": (-1, (3, 37), "float32"),
    "before others": (1, (2, 40, 6), "float32"),
    "the first of many columns": (0, (40, 3, 32), "float64"),
    "columns that are no power of two": (0, (20, 31), "float32"),
    "one row": (0, (50,), "float32"),
    "whole numbers": (0, (9, 5), "int32"),
    "truth values": (-1, (3, 40), "bool"),
    "halves": (1, (4, 24), "bfloat16"),
}


@pytest.fixture(scope="module")
def scans(tmp_path_factory):
    """Partial sums and products of everything in one program: its inputs, it, and what was compiled of it."""
    torch = pytest.importorskip("torch")
    import autotune as at

    class Scans(torch.nn.Module):
        def forward(self, *inputs):
            pairs = list(zip(inputs, (axis for axis, _, _ in SCANS.values()), strict=True))
            return tuple(scan(x, axis) for scan in (torch.cumsum, torch.cumprod) for x, axis in pairs)

    rng = np.random.default_rng(0)
    shapes = [(shape, getattr(torch, kind)) for _, shape, kind in SCANS.values()]
    inputs = tuple(torch.from_numpy(rng.choice([-2, -1, 1, 1, 0.5, 1], shape)).to(kind) for shape, kind in shapes)
    path = tmp_path_factory.mktemp("scans") / "scans.pt2"
    torch.export.save(torch.export.export(Scans(), inputs), path)
    return inputs, Scans(), at.compile(str(path))


@pytest.mark.parametrize("strange", [(), (np.nan,), (np.inf,), (np.inf, 0, -np.inf), (1e-30, 1e-30, np.inf)])
def test_scans_of_pytorch_are_its_own_where_numbers_are_not_finite_too(scans, strange):
    """Where products have become zero in f32 and are none in f64, an infinity makes infinities of them."""
    from payload.importers.pt2_values import to_numpy

    inputs, model, function = scans
    inputs = [x.clone() for x in inputs]
    for x in inputs:
        for number, value in enumerate(strange if x.is_floating_point() else ()):
            x.view(-1)[x.numel() // 3 + number] = value
    got = function(*map(to_numpy, inputs))
    for name, mine, theirs in zip(2 * [*SCANS], got.values(), model(*inputs), strict=True):
        np.testing.assert_array_equal(mine.astype(np.float64), theirs.double().numpy(), err_msg=name)
