"""Every quantised op by every scheme: bit by bit the integer reference, or named as computed in real numbers."""

from itertools import combinations, product

import numpy as np
import pytest
from onnx import TensorProto, helper
from test_onnx_quantised import END, READ, assert_exact, node, random_inputs, write, written

from payload.importers.onnx_oracle import compute, open_session

pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.usefixtures("warm_converters")

KINDS = {
    "int8": (TensorProto.INT8, -128, 127),
    "uint8": (TensorProto.UINT8, 0, 255),
    "int4": (TensorProto.INT4, -8, 7),
    "uint4": (TensorProto.UINT4, 0, 15),
}
IMAGE, ROWS = (1, 4, 5, 6), (3, 5)
# op -> shape of the input, of the weight, axis of its channels
PRODUCTS = {
    "MatMul": (ROWS, (5, 7), 1),
    "Gemm": (ROWS, (5, 7), 1),
    "Gemm by a transposed weight": (ROWS, (7, 5), 0),
    "Conv": (IMAGE, (6, 4, 3, 3), 0),
    "Conv of groups": (IMAGE, (6, 2, 3, 3), 0),
}
ATTRIBUTES = {"Gemm by a transposed weight": {"transB": 1}, "Conv of groups": {"group": 2}, "Conv": {"pads": [1] * 4}}
ZERO = {"uint8": np.uint8(117), "int8": np.int8(-11)}


def tensor(kind, shape, rng, low=None, high=None):
    """A tensor of whole numbers."""
    code, least, most = KINDS[kind]
    numbers = rng.integers(least if low is None else low, (most if high is None else high) + 1, shape)
    return helper.make_tensor("t", code, shape, np.asarray(numbers).ravel())


def weight(kind, shape, axis, *, channels, zeros, rng):
    """A weight with its scales, and zero points beside the middle."""
    count = (shape[axis],) if channels else ()
    held = {"w": tensor(kind, shape, rng), "ws": rng.uniform(0.01, 0.02, count).astype(np.float32)}
    return held | ({"wz": tensor(kind, count, rng)} if zeros else {})


def named(held):
    """Tensors by the names that they are held by."""
    for name, each in held.items():
        if isinstance(each, TensorProto):
            each.name = name
    return held


def activations(kind):
    """Scales and zero points of what is read and written, in a type."""
    return {"z": ZERO[kind], "u": ZERO[kind]}


# A quarter of all: every op by weights of every kind, with every pair of what else a scheme says.
SCHEMES = [
    (op, kind, channels, zeros, given)
    for (i, op), (j, kind), (n, given) in product(enumerate(PRODUCTS), enumerate(KINDS), enumerate(ZERO))
    for channels, zeros in product((False, True), repeat=2)
    if (i + j + channels + zeros) % 2 == (i // 2 + j + zeros + n) % 2 == 0
]


def test_schemes_have_every_pair():
    for first, second in combinations(zip(*SCHEMES, strict=True), 2):
        assert len(set(zip(first, second, strict=True))) == len(set(first)) * len(set(second))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_product_of_dequantised_tensors_is_exact(scheme, tmp_path):
    op, kind, channels, zeros, given = scheme
    shape_of_x, shape, axis = PRODUCTS[op]
    held = weight(kind, shape, axis, channels=channels, zeros=zeros, rng=np.random.default_rng(1))
    nodes = [
        *READ,
        node("DequantizeLinear", [*held], ["k"], axis=axis),
        node(op.partition(" ")[0], ["r", "k"], ["p"], **ATTRIBUTES.get(op, {})),
        *END,
    ]
    path = write(tmp_path / "model.onnx", nodes, named(held | activations(given)), {"x": shape_of_x})
    model, ours, theirs = assert_exact(path)
    if "Conv" not in op:
        assert "MatMulInteger" in {each.op_type for each in model.graph.node}
    apart = np.abs(ours[0] - theirs[0])
    assert apart.max() <= 0.0501  # one step, where a sum of f32 is on the other side of a half


@pytest.mark.parametrize(("op", "kind", "channels", "given"), [*product(("MatMul", "Conv"), ZERO, (False, True), ZERO)])
def test_a_product_in_one_op_is_exact(op, kind, channels, given, tmp_path):
    shape_of_x, shape, axis = PRODUCTS[op]
    held = weight(kind, shape, axis, channels=channels, zeros=True, rng=np.random.default_rng(2))
    attributes = {"pads": [1] * 4} if op == "Conv" else {}
    linear = node(f"QLinear{op}", ["q", "s", "z", *held, "t", "u"], ["o"], **attributes)
    path = write(
        tmp_path / "model.onnx", [READ[0], linear, END[1]], named(held | activations(given)), {"x": shape_of_x}
    )
    _, ours, theirs = assert_exact(path, beside=(kind, given) != ("uint8", "int8"))  # which it has no code for
    assert np.abs(ours[0] - theirs[0]).max() <= 0.0501


@pytest.mark.parametrize(("op", "kind", "channels"), [*product(("MatMul", "Conv"), ZERO, (False, True))])
def test_a_product_of_what_is_quantised_in_a_call_is_exact(op, kind, channels, tmp_path):
    """Sums of whole numbers, which the file's own nodes scale."""
    shape_of_x, shape, axis = PRODUCTS[op]
    held = weight(kind, shape, axis, channels=channels and op == "MatMul", zeros=True, rng=np.random.default_rng(3))
    del held["ws"]
    nodes = [
        node("DynamicQuantizeLinear", ["x"], ["q", "qs", "qz"]),
        node(f"{op}Integer", ["q", "w", "qz", "wz"], ["i"], **({"pads": [1] * 4} if op == "Conv" else {})),
        node("Cast", ["i"], ["y"], to=TensorProto.FLOAT),
    ]
    path = write(tmp_path / "model.onnx", nodes, named(held), {"x": shape_of_x})
    _, ours, theirs = assert_exact(path)
    np.testing.assert_array_equal(ours[0], theirs[0])


OTHERS = {
    "Add": [node("Add", ["r", "r"], ["p"])],
    "AveragePool": [node("AveragePool", ["r"], ["p"], kernel_shape=[2, 2])],
    "GlobalAveragePool": [node("GlobalAveragePool", ["r"], ["p"])],
    "LayerNormalization": [node("LayerNormalization", ["r", "gain", "shift"], ["p"])],
    "MaxPool": [node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[1, 1])],
    "Softmax": [node("Softmax", ["r"], ["p"])],
}


@pytest.mark.parametrize(("op", "given"), [*product(OTHERS, ZERO)])
def test_an_op_that_is_no_product_is_exact(op, given, tmp_path):
    held = {"gain": np.linspace(0.5, 2, 6).astype(np.float32), "shift": np.linspace(-1, 1, 6).astype(np.float32)}
    held = {**(held if op == "LayerNormalization" else {}), **activations(given), "t": np.float32(0.01)}
    path = write(tmp_path / "model.onnx", [*READ, *OTHERS[op], *END], held, {"x": IMAGE})
    _, ours, theirs = assert_exact(path)
    assert np.abs(ours[0] - theirs[0]).max() <= 0.0101


ONE = ["q", "s", "z", "t", "u"]
LINEAR = {
    "QLinearAdd": [*ONE[:3], *ONE[:3], "t", "u"],
    "QLinearMul": [*ONE[:3], *ONE[:3], "t", "u"],
    "QLinearGlobalAveragePool": ONE,
    "QLinearSoftmax": ONE,
    "QLinearAveragePool": ONE,
}
OF_ITS_OWN = {"QLinearSoftmax": {"axis": -1, "opset": 13}, "QLinearAveragePool": {"kernel_shape": [2, 2]}}


@pytest.mark.parametrize(("op", "given"), [*product(LINEAR, ZERO)])
def test_an_op_of_onnx_runtime_is_within_a_step_of_it(op, given, tmp_path):
    """It multiplies by another factor, or looks a function up in a table."""
    own = node(op, LINEAR[op], ["o"], domain="com.microsoft", **OF_ITS_OWN.get(op, {}))
    held = {**activations(given), "t": np.float32(0.01)}
    path = write(tmp_path / "model.onnx", [READ[0], own, END[1]], held, {"x": IMAGE})
    model, weights, left = written(path)
    inputs = random_inputs(path)
    theirs = open_session(str(path)).run(None, inputs)[0]
    assert not left
    assert np.abs(compute(model, {**weights, **inputs}, wide=False)[0] - theirs).max() <= 0.0101


@pytest.mark.parametrize("given", ZERO)
def test_a_weight_of_4_bits_in_blocks_is_computed_in_real_numbers(given, tmp_path):
    held = {"w": tensor("int4", (32, 7), np.random.default_rng(4)), "ws": np.full((2, 7), 0.01, np.float32)}
    widened = node("DequantizeLinear", ["w", "ws"], ["k"], axis=0, block_size=16)
    nodes = [*READ, widened, node("MatMul", ["r", "k"], ["y"])]
    path = write(tmp_path / "model.onnx", nodes, named(held | activations(given)), {"x": (3, 32)})
    model, weights, _ = written(path)
    inputs = random_inputs(path)
    theirs = open_session(str(path)).run(None, inputs)[0]
    np.testing.assert_allclose(compute(model, {**weights, **inputs}, wide=False)[0], theirs, rtol=1e-5, atol=1e-5)
    assert "MatMulInteger" not in {each.op_type for each in model.graph.node}
