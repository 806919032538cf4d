"""Unsigned integers of ONNX models: as ONNX Runtime has them, from import to a call from Python, or refused by node."""

import numpy as np
import onnx
import pytest
from model_zoo import FLOAT, TensorProto, helper, numpy_helper

import autotune as at
from autotune.core.errors import PayloadError
from autotune.worker.loading.importing import import_model
from payload.importers.onnx_convert import argument_of

pytestmark = pytest.mark.usefixtures("warm_converters")
RNG = np.random.default_rng(0)
U8, I32 = TensorProto.UINT8, TensorProto.INT32


def bytes_of(*shape):
    return RNG.integers(0, 256, shape).astype(np.uint8)


def write(path, nodes, given, results, held, *, version=18):
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for name, x in given.items()
    ]
    outputs = [helper.make_tensor_value_info(name, kind, None) for name, kind in results.items()]
    weights = [numpy_helper.from_array(np.asarray(array), name) for name, array in held.items()]
    graph = helper.make_graph(nodes, "model", inputs, outputs, weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=9), path)
    return path


def assert_as_onnx_runtime(tmp_path, nodes, given, results, held=(), *, version=18):
    import onnxruntime

    path = write(tmp_path / "model.onnx", nodes, given, results, dict(held), version=version)
    expected = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, given)
    import_model(str(path), tmp_path / "model")
    found = at.compile(str(tmp_path / "model"))(*given.values())
    ours = list(found.values()) if isinstance(found, dict) else [found]
    for mine, theirs in zip(ours, expected, strict=True):
        assert mine.shape == theirs.shape
        np.testing.assert_allclose(mine.astype(np.float64), theirs.astype(np.float64), atol=1e-5)


@pytest.mark.parametrize(("kind", "ends"), [(U8, (0, 256)), (TensorProto.INT8, (-128, 128)), (I32, (0, 2))])
def test_inputs_of_bytes_are_tried_with_any_number(kind, ends):
    tensor = helper.make_tensor_value_info("x", kind, [4])
    found, of_places = argument_of(tensor, {}), argument_of(tensor, {"x": 3})
    assert ((found.low, found.high), (of_places.low, of_places.high)) == (ends, (0, 3))


def test_integers_of_8_bits_are_unsigned_in_every_op_of_elements(tmp_path):
    ops = {"Add": U8, "Sub": U8, "Mul": U8, "Div": U8, "Max": U8, "Min": U8, "Greater": TensorProto.BOOL}
    nodes = [helper.make_node(op, ["x", "d"], [f"y_{op}"]) for op in ops]
    nodes += [
        helper.make_node("BitwiseNot", ["x"], ["n"]),
        helper.make_node("BitShift", ["x", "s"], ["right"], direction="RIGHT"),
        helper.make_node("BitShift", ["x", "s"], ["left"], direction="LEFT"),
        helper.make_node("Cast", ["x"], ["real"], to=FLOAT),
    ]
    results = {f"y_{op}": U8 for op, kind in ops.items() if kind == U8} | {"n": U8, "right": U8, "left": U8}
    nodes.append(helper.make_node("Cast", ["y_Greater"], ["more"], to=I32))
    given = {"x": bytes_of(4, 6), "d": np.maximum(bytes_of(4, 6), 1), "s": bytes_of(4, 6) % 8}
    assert_as_onnx_runtime(tmp_path, nodes, given, {**results, "real": FLOAT, "more": I32})


def test_integers_of_8_bits_are_unsigned_where_elements_are_chosen(tmp_path):
    nodes = [
        helper.make_node("MaxPool", ["x"], ["pooled"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("ReduceMax", ["x"], ["most"], keepdims=0),
        helper.make_node("Cast", ["x"], ["whole"], to=I32),
        helper.make_node("ArgMax", ["whole"], ["at"], axis=3, keepdims=0),
        helper.make_node("Gather", ["x", "rows"], ["taken"], axis=2),
        helper.make_node("Resize", ["x", "", "factors"], ["large"], mode="nearest"),
    ]
    results = {"pooled": U8, "most": U8, "at": TensorProto.INT64, "taken": U8, "large": U8}
    held = {"rows": np.array([3, 0]), "factors": np.array([1, 1, 2, 2], np.float32)}
    assert_as_onnx_runtime(tmp_path, nodes, {"x": bytes_of(1, 2, 4, 4)}, results, held)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int32])
def test_whole_numbers_are_resized_linearly(dtype, tmp_path):
    node = helper.make_node("Resize", ["x", "", "factors"], ["y"], mode="linear")
    held = {"factors": np.array([1, 1, 2, 4], np.float32)}  # whose means are exact: fractions are cut off
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    assert_as_onnx_runtime(tmp_path, [node], {"x": bytes_of(1, 2, 3, 5).astype(dtype)}, {"y": kind}, held)


SCALES = {"s": np.float32(0.05), "z": np.uint8(120), "t": np.array([0.5, 0.25, 0.1], np.float32)}
ZEROS = {"zeros": np.array([10, 200, 128], np.uint8)}


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4)])
def test_quantized_products_of_unsigned_integers(shape, tmp_path):
    nodes = [
        helper.make_node("QLinearMatMul", ["a", "s", "z", "b", "s", "z", "u", "z"], ["y"]),
        helper.make_node("MatMulInteger", ["a", "b", "z", "z"], ["whole"]),
    ]
    given = {"a": bytes_of(*shape), "b": bytes_of(*shape[:-2], 4, 5)}
    held = {**SCALES, "u": np.float32(0.9)}
    del held["t"]
    assert_as_onnx_runtime(tmp_path, nodes, given, {"y": U8, "whole": I32}, held)


def test_scales_and_zero_points_of_an_axis(tmp_path):
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "t", "zeros"], ["y"], axis=1),
        helper.make_node("QuantizeLinear", ["r", "t", "zeros"], ["q"], axis=1),
    ]
    given = {"x": bytes_of(2, 3, 4), "r": RNG.uniform(-90, 90, (2, 3, 4)).astype(np.float32)}
    assert_as_onnx_runtime(tmp_path, nodes, given, {"y": FLOAT, "q": U8}, {"t": SCALES["t"], **ZEROS})


BLOCKS = np.linspace(0.02, 0.5, 8).astype(np.float32)
SEVERAL = {  # by name: a type, an axis, the size of its blocks, and scales
    "an axis": (np.int8, -1, 0, BLOCKS[:4]),
    "blocks of an axis": (np.int8, 1, 2, BLOCKS.reshape(2, 1, 4)),
    "blocks of the last axis": (np.uint8, -1, 2, BLOCKS[:8].reshape(2, 2, 2)),
}


@pytest.mark.parametrize("name", SEVERAL)
def test_scales_of_an_axis_and_of_blocks_of_any_bytes(name, tmp_path):
    dtype, axis, size, scales = SEVERAL[name]
    blocks = {"block_size": size} if size else {}
    node = helper.make_node("QuantizeLinear", ["x", "t", "zeros"], ["y"], axis=axis, **blocks)
    held = {"t": scales, "zeros": np.arange(scales.size).reshape(scales.shape).astype(dtype)}
    given = {"x": RNG.uniform(-9, 9, (2, 2, 4)).astype(np.float32)}
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    assert_as_onnx_runtime(tmp_path, [node], given, {"y": kind}, held, version=21)


def test_a_quantized_convolution_of_unsigned_integers(tmp_path):
    nodes = [helper.make_node("QLinearConv", ["x", "s", "z", "w", "t", "zeros", "u", "z", "b"], ["y"], pads=[1] * 4)]
    held = {**SCALES, **ZEROS, "u": np.float32(3), "w": bytes_of(3, 2, 3, 3), "b": np.array([9, -800, 70], np.int32)}
    assert_as_onnx_runtime(tmp_path, nodes, {"x": bytes_of(1, 2, 5, 5)}, {"y": U8}, held)


@pytest.mark.parametrize(
    ("op", "dtype", "words"),
    [
        ("Identity", np.uint64, r"input x cannot be lowered: uint64 is not known; cast it in the model"),
        ("NonZero", np.uint8, r"node there \(NonZero\) cannot be lowered: unsigned integers are not known in this op"),
    ],
)
def test_what_is_not_known_of_unsigned_integers_is_refused_by_name(op, dtype, words, tmp_path):
    node = helper.make_node(op, ["x"], ["y"], name="there")
    kind = TensorProto.INT64 if op == "NonZero" else TensorProto.UINT64
    path = write(tmp_path / "model.onnx", [node], {"x": np.ones((2, 3), dtype)}, {"y": kind}, {})
    with pytest.raises(PayloadError, match=words):
        import_model(str(path), tmp_path / "model")


def test_a_vector_of_zeros_is_normalized_to_zeros(tmp_path):
    x = np.array([[3, -4, 0], [0, 0, 0]], np.float32)
    nodes = [helper.make_node("LpNormalization", ["x"], [f"y{p}"], p=p, axis=1) for p in (1, 2)]
    assert_as_onnx_runtime(tmp_path, nodes, {"x": x}, {"y1": FLOAT, "y2": FLOAT})


def test_a_zero_point_may_be_an_input(tmp_path):
    given = {
        "a": (bytes_of(3, 4) - 128).view(np.int8),
        "b": (bytes_of(4, 5) - 128).view(np.int8),
        "m": np.array(3, np.int8),
        "n": np.array(7, np.int8),
    }
    node = helper.make_node("MatMulInteger", ["a", "b", "m", "n"], ["y"])
    assert_as_onnx_runtime(tmp_path, [node], given, {"y": I32})
