"""Quantised ONNX models that are none: scales, zero points, blocks and sizes that cannot be, each refused in a line."""

import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from payload.importers.linalg import UnsupportedError
from payload.importers.onnx_convert import convert, read_model
from payload.importers.onnx_oracle import compute, open_session
from payload.importers.onnx_quantised import write_in_integers
from payload.importers.onnx_values import fold_constants

pytest.importorskip("onnxruntime")
node = helper.make_node
RNG = np.random.default_rng(0)
WHOLE = RNG.integers(-128, 128, (64, 5)).astype(np.int8)


def write(path, nodes, held, x=(3, 64)):
    """A model of one input, x, and one result, y; gives its path."""
    tensors = []
    for name, array in held.items():
        tensor = array if isinstance(array, TensorProto) else numpy_helper.from_array(np.asarray(array))
        tensor.name = name
        tensors.append(tensor)
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", x), ("y", None))]
    graph = helper.make_graph(nodes, "model", ends[:1], ends[1:], tensors)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
    return path


def stored(kind, *numbers):
    """An initializer of numbers that its type may not hold."""
    tensor = TensorProto(data_type=kind)
    tensor.int32_data.extend(numbers)
    return tensor


def product(axis=1, **held):
    """Nodes and tensors of a product by a weight of bytes."""
    held = {"s": np.float32(0.02), "z": np.uint8(3), "w": WHOLE, "ws": np.full(5, 0.01, np.float32), **held}
    zero = ["wz"] if "wz" in held else []
    return [
        node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        node("DequantizeLinear", ["q", "s", "z"], ["r"]),
        node("DequantizeLinear", ["w", "ws", *zero], ["k"], axis=axis),
        node("MatMul", ["r", "k"], ["y"]),
    ], held


def linear(**held):
    """Nodes and tensors of the same in one op."""
    base = {"s": np.float32(0.02), "z": np.uint8(3), "w": WHOLE, "ws": np.full(5, 0.01, np.float32)}
    held = {**base, "wz": np.zeros(5, np.int8), "t": np.float32(0.1), "u": np.uint8(9), **held}
    return [
        node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        node("QLinearMatMul", ["q", "s", "z", "w", "ws", "wz", "t", "u"], ["o"]),
        node("DequantizeLinear", ["o", "t", "u"], ["y"]),
    ], held


def blocks(shape=(6, 2, 16), scales=None, zeros=None, bits=4, **said):
    """Node and tensors of a product by a weight in blocks of 32."""
    held = {"w": RNG.integers(0, 256, shape).astype(np.uint8)}
    held["ws"] = np.full(12, 0.01, np.float32) if scales is None else scales
    held |= {} if zeros is None else {"wz": zeros}
    attributes = {"K": 64, "N": 6, "bits": bits, "block_size": 32, **said}
    return [node("MatMulNBits", ["x", *held], ["y"], domain="com.microsoft", **attributes)], held


def one(index, value):
    """Five scales, of which one is another."""
    scales = np.full(5, 0.01, np.float32)
    scales[index] = value
    return scales


SCALE = "scales must be positive and finite, one is "
WRONG = {
    "scale of zero": (product(s=np.float32(0)), SCALE + "0"),
    "scale of zero of a channel": (product(ws=one(3, 0)), SCALE + "0"),
    "scale of a weight, not a number": (product(ws=one(0, np.nan)), SCALE + "nan"),
    "scale below zero": (product(ws=one(1, -1)), SCALE + "-1"),
    "scale of zero of a result": (linear(t=np.float32(0)), SCALE + "0"),
    "scale that is infinite": (linear(ws=one(1, np.inf)), SCALE + "inf"),
    "scales too few": (
        product(ws=np.ones(4, np.float32)),
        "scales must be one for all or 5, those of axis 1, there are 4",
    ),
    "scales of a result": (linear(t=np.ones(5, np.float32)), "scales must be one for all, there are 5"),
    "zero points too few": (product(wz=np.zeros(3, np.int8)), "zero points must be one for all or 5, those of axis 1"),
    "zero points of an op": (linear(wz=np.zeros(4, np.int8)), "zero points must be one for all or 5"),
    "zero point of another type": (product(wz=np.full(5, 200, np.uint8)), "zero points of int8 must be of that type"),
    "type of an op's": (linear(wz=np.zeros(5, np.uint8)), "zero points of int8 must be of that type, they are uint8"),
    "zero point of 32 bits": (product(z=np.int32(3)), "zero points must be of 16 bits at most, they are int32"),
    "zero point above": (
        product(z=stored(2, 300)),
        "initializer z of uint8 must hold numbers from 0 to 255, one is 300",
    ),
    "zero point below": (product(z=stored(3, -129)), "initializer z of int8 must hold numbers from -128 to 127"),
    "axis": (product(axis=7), "axis must be one of 2 dimensions, it is 7"),
    "3 bits": (blocks(bits=3), "bits must be 4 or 8, they are 3"),
    "no bits": (blocks(bits=0), "bits must be 4 or 8, they are 0"),
    "N that no weight has": (
        blocks(N=1 << 60),
        "N and K must be from 1 to 16777216, they are 1152921504606846976 and 64",
    ),
    "K below zero": (blocks(K=-64), "N and K must be from 1 to 16777216, they are 6 and -64"),
    "K of another": (
        blocks(K=32, shape=(6, 1, 16), scales=np.ones(6, np.float32)),
        "K must be the 64 columns of A, it is 32",
    ),
    "no block": (blocks(block_size=0), "block_size must be a power of two from 16 on, it is 0"),
    "block below zero": (blocks(block_size=-32), "block_size must be a power of two from 16 on, it is -32"),
    "block of no power": (blocks(block_size=48), "block_size must be a power of two from 16 on, it is 48"),
    "bytes of a weight": (blocks(shape=(6, 1, 16)), "bytes of B must be 192, they are 96"),
    "scales of blocks": (blocks(scales=np.ones(11, np.float32)), "scales must be 12, they are 11"),
    "zero points of blocks": (blocks(zeros=np.zeros(5, np.uint8)), "bytes of zero points must be 6, they are 5"),
    "scale of a block": (blocks(scales=np.full(12, np.inf, np.float32)), "scales ws must be finite, one is inf"),
    "sizes that no memory holds": ((*product(), (1 << 40, 64)), "input x must have at most 1099511627776 numbers"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_quantised_model_that_is_none_is_refused_in_a_line(wrong, tmp_path):
    (nodes, held, *shape), message = WRONG[wrong]
    path = write(tmp_path / "model.onnx", nodes, held, *shape)
    with pytest.raises(UnsupportedError, match=re.escape(message)) as caught:
        convert(path, tmp_path / "folder", {})
    assert str(caught.value).isprintable()
    assert not (tmp_path / "folder").exists()


def as_runtime(path):
    """What a model gives in our form of it, and in ONNX Runtime."""
    read = read_model(path, {})
    model, weights = read.model, dict(read.weights)
    write_in_integers(model, weights)
    fold_constants(model, weights)
    given = {"x": np.random.default_rng(5).standard_normal((3, 64)).astype(np.float32)}
    (theirs,) = open_session(str(path)).run(None, given)
    (ours,) = compute(model, {**weights, **given}, wide=False)
    return ours, theirs


@pytest.mark.parametrize(
    "scales", [np.zeros(12), np.full(12, -0.01), np.where(np.arange(12) % 5, -0.02, 0.0)], ids=["0", "below", "both"]
)
def test_scales_of_blocks_are_as_onnx_runtime_writes_them(scales, tmp_path):
    """It gives a block of zeros the scale 0, and one whose largest element is above zero a scale below."""
    ours, theirs = as_runtime(write(tmp_path / "model.onnx", *blocks(scales=scales.astype(np.float32))))
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", [TensorProto.INT4, TensorProto.UINT4, TensorProto.INT8])
@pytest.mark.parametrize("axis", [0, 1])
def test_blocks_of_dequantizelinear_are_as_onnx_runtime_has_them(kind, axis, tmp_path):
    """As quantisers write 4 bits in QDQ; their scales may be 0 and negative, too."""
    low, high = {TensorProto.UINT4: (0, 16), TensorProto.INT4: (-8, 8), TensorProto.INT8: (-128, 128)}[kind]
    shape, of_blocks = (64, 32), (4, 32) if axis == 0 else (64, 2)
    numbers, zeros = RNG.integers(low, high, shape), RNG.integers(low, high, of_blocks)
    held = {"w": helper.make_tensor("w", kind, shape, numbers.ravel())}
    held |= {"ws": RNG.uniform(-0.02, 0.02, of_blocks).astype(np.float32)}
    held |= {"wz": helper.make_tensor("wz", kind, of_blocks, zeros.ravel())}
    widened = node("DequantizeLinear", ["w", "ws", "wz"], ["k"], axis=axis, block_size=16)
    path = write(tmp_path / "model.onnx", [widened, node("MatMul", ["x", "k"], ["y"])], held)
    ours, theirs = as_runtime(path)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-4)


def test_blocks_that_do_not_divide_are_refused(tmp_path):
    held = {"w": WHOLE, "ws": np.ones((7, 5), np.float32)}
    nodes = [
        node("DequantizeLinear", ["w", "ws"], ["k"], axis=0, block_size=10),
        node("MatMul", ["x", "k"], ["y"]),
    ]
    with pytest.raises(UnsupportedError, match="block_size must divide the 64 of axis 0, it is 10"):
        read_model(write(tmp_path / "model.onnx", nodes, held), {})
