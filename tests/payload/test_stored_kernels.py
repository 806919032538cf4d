"""Kernels of convolutions are stored as these read them: which are, how, and that nothing else changes."""

import numpy as np
import pytest
from import_support import one_node_model, run_onnx

from autotune.core.plugs.imported import ModelArgument
from payload.importers.folder import kernel_argument, order_back

RNG = np.random.default_rng(0)
KERNEL = ModelArgument("w", "weight")


@pytest.mark.parametrize(("shape", "groups"), [((6, 5, 3), 1), ((6, 5, 3, 2), 1), ((6, 5, 3, 2), 3)])
def test_a_kernel_is_stored_window_by_window_and_group_by_group(shape, groups):
    kernel = RNG.standard_normal(shape)
    argument = kernel_argument(KERNEL, shape, groups)
    stored = argument.arrange(kernel)
    assert stored.shape == argument.shape == argument.arranged(shape)
    assert argument.broken_constraint() is None
    apart = stored.reshape(groups, *shape[2:], shape[1], shape[0] // groups)
    f, c = 5, 4
    np.testing.assert_array_equal(apart[f * groups // shape[0], ..., c, f % (shape[0] // groups)], kernel[f, c])
    parts = argument.split or shape
    turned = stored.reshape([parts[d] for d in argument.order]).transpose(order_back(argument.order))
    np.testing.assert_array_equal(turned.reshape(shape), kernel)


def test_a_kernel_of_another_size_does_not_fit():
    argument = kernel_argument(KERNEL, (6, 5, 3, 2), 3)
    assert argument.arranged((6, 5, 3, 3)) is None


@pytest.mark.parametrize(
    ("shape", "groups", "is_stored"),
    [((6, 4, 3, 3), 1, True), ((6, 2, 3, 3), 2, True), ((4, 1, 3, 3), 4, False), ((8, 1, 3, 3), 4, False)],
    ids=["plain", "groups", "each channel alone", "a channel a group"],
)
def test_onnx_convolutions_read_stored_kernels(shape, groups, is_stored):
    pytest.importorskip("onnx")
    from payload.importers.onnx_convert import arrange_kernels
    from payload.importers.onnx_values import kernels_of

    x, w = (RNG.standard_normal(s).astype(np.float32) for s in ((2, shape[1] * groups, 5, 6), shape))
    model = one_node_model("Conv", x, {"w": w}, group=groups)
    expected = run_onnx(model, x=x, w=w)
    found = kernels_of(model.graph, {"w": w})
    assert found == ({"w": groups} if is_stored else {})
    said = {name: kernel_argument(KERNEL, w.shape, each) for name, each in found.items()}
    arrange_kernels(model.graph, said)
    given = {"w_arranged": said["w"].arrange(w)} if is_stored else {"w": w}
    np.testing.assert_allclose(run_onnx(model, x=x, **given), expected, rtol=1e-5, atol=1e-5)


def test_a_kernel_that_two_numbers_of_groups_share_stays():
    onnx = pytest.importorskip("onnx")
    from payload.importers.onnx_values import kernels_of

    w = np.ones((4, 2, 3, 3), np.float32)
    model = one_node_model("Conv", np.ones((1, 4, 5, 5), np.float32), {"w": w}, group=2)
    model.graph.node.append(onnx.helper.make_node("Conv", ["x", "w"], ["again"]))
    assert kernels_of(model.graph, {"w": w}) == {}
