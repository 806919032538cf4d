"""Small models as other tools write them, with random weights: ONNX files, programs of `torch.export`."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
RNG = np.random.default_rng(0)


def weight(name, *shape, scale=0.2):
    return numpy_helper.from_array((scale * RNG.standard_normal(shape)).astype(np.float32), name)


def save(path, nodes, inputs, outputs, *weights):
    """Write a model; inputs and outputs are given as name, dtype and shape."""
    values = [[helper.make_tensor_value_info(*each) for each in group] for group in (inputs, outputs)]
    graph = helper.make_graph(nodes, "model", *values, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    onnx.save(model, path)
    return path


def one_op(path, name, shape, result, *, dtype=FLOAT, weights=(), **attributes):
    node = helper.make_node(name, ["x", *(w.name for w in weights)], ["y"], **attributes)
    return save(path, [node], [("x", FLOAT, shape)], [("y", dtype, result)], *weights)


def mlp(path):
    nodes, weights, last = [], [], "x"
    for number, (before, after) in enumerate([(20, 24), (24, 10)]):
        weights += [weight(f"{number}.weight", after, before), weight(f"{number}.bias", after)]
        names = [last, f"{number}.weight", f"{number}.bias"]
        nodes.append(helper.make_node("Gemm", names, [f"h{number}"], transB=1))
        nodes.append(helper.make_node("Relu", [f"h{number}"], [f"r{number}"]))
        last = f"r{number}"
    return save(path, nodes, [("x", FLOAT, [8, 20])], [(last, FLOAT, [8, 10])], *weights)


def embedding(path):
    """Rows by place, then a layer norm: integers that are places, and a norm in one op."""
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["rows"]),
        helper.make_node("LayerNormalization", ["rows", "scale", "shift"], ["y"], axis=-1),
    ]
    weights = [weight("table", 50, 32), weight("scale", 32), weight("shift", 32)]
    return save(path, nodes, [("ids", INT64, [1, 12])], [("y", FLOAT, [1, 12, 32])], *weights)


def attention(path):
    """Two heads of causal attention, the mask computed of constants alone."""
    tokens, heads, size = 16, 2, 8
    width = heads * size
    weights = [weight(name, width, width) for name in ("wq", "wk", "wv", "wo")]
    shape = numpy_helper.from_array(np.array([1, tokens, heads, size]), "heads")
    back = numpy_helper.from_array(np.array([1, tokens, width]), "whole")
    bounds = [numpy_helper.from_array(np.array(v), n) for n, v in (("start", 0), ("end", tokens), ("step", 1))]
    low = numpy_helper.from_array(np.array(-1e9, np.float32), "low")
    none = numpy_helper.from_array(np.array(0, np.float32), "none")
    axis = numpy_helper.from_array(np.array([1]), "axis")
    factor = numpy_helper.from_array(np.array(size**-0.5, np.float32), "factor")
    nodes = [
        helper.make_node("Range", ["start", "end", "step"], ["columns"]),
        helper.make_node("Unsqueeze", ["columns", "axis"], ["rows"]),
        helper.make_node("LessOrEqual", ["columns", "rows"], ["seen"]),
        helper.make_node("Where", ["seen", "none", "low"], ["mask"]),
    ]
    for name in "qkv":
        nodes += [
            helper.make_node("MatMul", ["x", f"w{name}"], [f"{name}1"]),
            helper.make_node("Reshape", [f"{name}1", "heads"], [f"{name}2"]),
            helper.make_node("Transpose", [f"{name}2"], [name], perm=[0, 2, 3, 1] if name == "k" else [0, 2, 1, 3]),
        ]
    nodes += [
        helper.make_node("MatMul", ["q", "k"], ["scores"]),
        helper.make_node("Mul", ["scores", "factor"], ["scaled"]),
        helper.make_node("Add", ["scaled", "mask"], ["masked"]),
        helper.make_node("Softmax", ["masked"], ["shares"], axis=-1),
        helper.make_node("MatMul", ["shares", "v"], ["mixed"]),
        helper.make_node("Transpose", ["mixed"], ["turned"], perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["turned", "whole"], ["flat"]),
        helper.make_node("MatMul", ["flat", "wo"], ["y"]),
    ]
    weights += [shape, back, *bounds, low, none, axis, factor]
    return save(path, nodes, [("x", FLOAT, [1, tokens, width])], [("y", FLOAT, [1, tokens, width])], *weights)


def residual(path):
    """A block of a residual network: two convolutions with batch norm, and what goes past them."""
    nodes, weights, last = [], [], "x"
    for number in range(2):
        weights.append(weight(f"w{number}", 8, 8, 3, 3))
        norm = [f"{name}{number}" for name in ("scale", "shift", "mean")]
        weights += [weight(name, 8) for name in norm]
        weights.append(numpy_helper.from_array(RNG.uniform(0.5, 1.5, 8).astype(np.float32), f"variance{number}"))
        nodes += [
            helper.make_node("Conv", [last, f"w{number}"], [f"c{number}"], pads=[1, 1, 1, 1]),
            helper.make_node("BatchNormalization", [f"c{number}", *norm, f"variance{number}"], [f"n{number}"]),
        ]
        last = f"n{number}"
        if number == 0:
            nodes.append(helper.make_node("Relu", ["n0"], ["r0"]))
            last = "r0"
    nodes += [helper.make_node("Add", ["n1", "x"], ["sum"]), helper.make_node("Relu", ["sum"], ["y"])]
    return save(path, nodes, [("x", FLOAT, [1, 8, 10, 10])], [("y", FLOAT, [1, 8, 10, 10])], *weights)


def cumsum(path):
    axis = numpy_helper.from_array(np.array(1), "axis")
    return one_op(path, "CumSum", [6, 20], [6, 20], weights=[axis])


def half(path, dtype):
    """A linear layer whose inputs, weights and outputs have 16 bits."""
    held = numpy_helper.to_array(weight("w", 24, 40)).astype(helper.tensor_dtype_to_np_dtype(dtype))
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
    return save(path, nodes, [("x", dtype, [8, 24])], [("y", dtype, [8, 40])], numpy_helper.from_array(held, "w"))


def moves(path):
    """What models do besides computing: rows taken, parts joined, cut, padded, chosen, resized."""
    lists = {"rows": [0, 3, 5], "pads": [0, 1, 0, 2], "start": [1], "end": [4], "axis": [1], "image": [1, 1, 6, 10]}
    settings = [numpy_helper.from_array(np.array(v, np.int64), n) for n, v in lists.items()]
    settings.append(numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "scales"))
    nodes = [
        helper.make_node("Gather", ["x", "rows"], ["taken"]),
        helper.make_node("Concat", ["taken", "z"], ["joined"], axis=0),
        helper.make_node("Pad", ["joined", "pads"], ["padded"]),
        helper.make_node("Slice", ["padded", "start", "end", "axis"], ["cut"]),
        helper.make_node("ReduceSum", ["cut", "axis"], ["sums"]),
        helper.make_node("Greater", ["joined", "sums"], ["larger"]),
        helper.make_node("Where", ["larger", "joined", "sums"], ["chosen"]),
        helper.make_node("Reshape", ["chosen", "image"], ["plane"]),
        helper.make_node("Resize", ["plane", "", "scales"], ["y"], mode="nearest"),
    ]
    inputs = [("x", FLOAT, [6, 10]), ("z", FLOAT, [3, 10])]
    return save(path, nodes, inputs, [("y", FLOAT, [1, 1, 12, 20])], *settings)


def mean(path):
    axes = numpy_helper.from_array(np.array([1]), "axes")
    return one_op(path, "ReduceMean", [8, 40], [8, 1], weights=[axes])


ONNX = {
    "mlp": mlp,
    "embedding": embedding,
    "attention": attention,
    "residual": residual,
    "cumsum": cumsum,
    "softmax": lambda path: one_op(path, "Softmax", [8, 40], [8, 40], axis=-1),
    "argmax": lambda path: one_op(path, "ArgMax", [8, 40], [8], dtype=INT64, axis=1, keepdims=0),
    "mean": mean,
    "moves": moves,
    "half": lambda path: half(path, TensorProto.FLOAT16),
    "bfloat": lambda path: half(path, TensorProto.BFLOAT16),
    "max pool": lambda path: one_op(path, "MaxPool", [1, 4, 9, 9], [1, 4, 4, 4], kernel_shape=[3, 3], strides=[2, 2]),
    "average pool": lambda path: one_op(
        path, "AveragePool", [1, 4, 8, 8], [1, 4, 4, 4], kernel_shape=[2, 2], strides=[2, 2]
    ),
    "global pool": lambda path: one_op(path, "GlobalAveragePool", [1, 4, 8, 8], [1, 4, 1, 1]),
    "strided conv": lambda path: one_op(
        path, "Conv", [1, 3, 11, 11], [1, 8, 5, 5], weights=[weight("w", 8, 3, 3, 3), weight("b", 8)], strides=[2, 2]
    ),
    "depthwise conv": lambda path: one_op(
        path, "Conv", [1, 8, 9, 9], [1, 8, 9, 9], weights=[weight("w", 8, 1, 3, 3)], group=8, pads=[1, 1, 1, 1]
    ),
    "grouped conv": lambda path: one_op(
        path, "Conv", [1, 8, 9, 9], [1, 8, 7, 7], weights=[weight("w", 8, 4, 3, 3)], group=2
    ),
    "1x1 conv": lambda path: one_op(path, "Conv", [1, 8, 9, 9], [1, 12, 9, 9], weights=[weight("w", 12, 8, 1, 1)]),
}
