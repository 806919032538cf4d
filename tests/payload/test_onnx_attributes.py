"""ONNX models that say of an op what it does not take: each is refused in a line, before anything is computed of it."""

import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from payload.importers.linalg import UnsupportedError
from payload.importers.onnx_attributes import check_attributes
from payload.importers.onnx_convert import convert
from payload.importers.onnx_nodes import KnownTensors, facts_of

FLOAT, IMAGE = TensorProto.FLOAT, (1, 4, 6, 6)
PLANE = {"w": np.ones((4, 4, 3, 3), np.float32)}
VOLUME = {"w": np.ones((4, 4, 3, 3, 3), np.float32)}


def write(path, op, held=(), x=IMAGE, results=1, **attributes):
    """A model of one node of an input, x, and tensors that it holds."""
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in dict(held).items()]
    names = [f"y{number}" for number in range(results)]
    node = helper.make_node(op, ["x", *dict(held)], names, **attributes)
    ends = [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in (("x", x), ("y0", None))]
    graph = helper.make_graph([node], "model", ends[:1], ends[1:], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path


def whole(*numbers):
    return np.array(numbers, np.int64)


WRONG = {
    "no group": ({"op": "Conv", "held": PLANE, "group": 0}, "group from 1 to [0-9]+, got 0"),
    "no group of volumes": ({"op": "Conv", "held": VOLUME, "x": (1, 4, 6, 6, 6), "group": 0}, "group from 1 to"),
    "other groups": ({"op": "Conv", "held": PLANE, "group": 3}, "kernel and a group for the 4 channels"),
    "other groups transposed": (
        {"op": "ConvTranspose", "held": PLANE, "group": 3},
        "kernel and a group for the 4 channels",
    ),
    "steps of nothing": ({"op": "Conv", "held": PLANE, "strides": [0, 1]}, r"strides from 1 to [0-9]+, got \[0, 1\]"),
    "steps back": ({"op": "ConvTranspose", "held": PLANE, "strides": [-2, 1]}, "strides from 1 to"),
    "one step": ({"op": "Conv", "held": PLANE, "strides": [1]}, r"strides of 2 numbers, got \[1\]"),
    "pads that cut": ({"op": "Conv", "held": VOLUME, "x": (1, 4, 6, 6, 6), "pads": [-1] * 6}, "pads from 0 to"),
    "pads of one side": ({"op": "ConvTranspose", "held": PLANE, "pads": [1, 1]}, "pads of 4 numbers"),
    "no copies": ({"op": "Tile", "held": {"r": whole(1, 1, 1, 0)}}, "numbers in r of at least 1"),
    "steps of nothing to cut": (
        {"op": "Slice", "held": {"s": whole(0), "e": whole(1), "a": whole(0), "t": whole(0)}},
        "numbers in t other than 0",
    ),
    "copies beyond memory": ({"op": "Tile", "held": {"r": whole(1, 1, 1, 1 << 62)}}, "numbers in r of at most"),
    "steps beyond memory": ({"op": "MaxPool", "kernel_shape": [2, 2], "strides": [1 << 62, 1]}, "strides from 1 to"),
    "pads beyond memory": ({"op": "Conv", "held": PLANE, "pads": [1 << 40, 0, 0, 0]}, "must have at most"),
    "one size": ({"op": "ConvTranspose", "held": PLANE, "output_shape": [3]}, "output_shape of 2 numbers"),
    "another kernel": (
        {"op": "Conv", "held": PLANE, "kernel_shape": [2, 2]},
        r"kernel_shape \[3, 3\] as its kernel is",
    ),
    "a line's kernel": ({"op": "Conv", "held": {"w": np.ones((4, 4, 3), np.float32)}}, "kernel of 4 dimensions"),
    "a pool of nothing": ({"op": "MaxPool", "kernel_shape": [0, 2]}, "kernel_shape from 1 to"),
    "a pool that stays": (
        {"op": "AveragePool", "kernel_shape": [2, 2], "strides": [0, 1], "ceil_mode": 1},
        "strides from",
    ),
    "no norm": ({"op": "LpPool", "kernel_shape": [2, 2], "p": 0}, "p from 1 to"),
    "blocks of nothing": ({"op": "DepthToSpace", "blocksize": 0}, "blocksize from 1 to"),
    "blocks of nothing back": ({"op": "SpaceToDepth", "blocksize": 0}, "blocksize from 1 to"),
    "blocks that do not fit": ({"op": "DepthToSpace", "blocksize": 3}, "square divides its 4 channels"),
    "blocks that do not fit back": ({"op": "SpaceToDepth", "blocksize": 4}, r"that divides \[6, 6\]"),
    "no neighbours": ({"op": "LRN", "size": 0}, "size from 1 to"),
    "neighbours without end": ({"op": "LRN", "size": 100001}, "size of at most twice its 4 channels"),
    "no such axis": ({"op": "Softmax", "axis": 4}, r"axis of 4 dimensions, from -4 to 3, got \[4\]"),
    "no such axis to cut": ({"op": "Slice", "held": {"s": whole(0), "e": whole(1), "a": whole(4)}}, "axes of 4"),
    "no such axis to sum": ({"op": "ReduceSum", "held": {"a": whole(-5)}}, "axes of 4 dimensions"),
    "no such axis to add": ({"op": "Unsqueeze", "held": {"a": whole(5)}}, "axes of 5 dimensions"),
    "an axis twice": ({"op": "Transpose", "perm": [0, 0, 1, 2]}, "perm that holds each of 4 dimensions once"),
    "an index behind": ({"op": "Gather", "held": {"i": whole(1)}}, r"indices inside of 1 elements, got \[1\]"),
    "an index before": ({"op": "Gather", "held": {"i": whole(-5)}, "axis": 1}, "indices inside of 4 elements"),
    "a place behind": (
        {"op": "GatherND", "held": {"i": whole(0, 4)}},
        r"indices inside of \[1, 4\] elements, got \[4\]",
    ),
    "places of too many": ({"op": "GatherND", "held": {"i": whole(*[0] * 5)}}, "indices in at most 4 dimensions"),
    "no such class": (
        {"op": "NegativeLogLikelihoodLoss", "held": {"i": whole(3, 0)}, "x": (2, 3)},
        "indices inside of 3",
    ),
    "a class that counts back": (
        {"op": "SoftmaxCrossEntropyLoss", "held": {"i": whole(-1, 0)}, "x": (2, 3)},
        "indices in",
    ),
    "turned beyond": ({"op": "ReverseSequence", "held": {"l": whole(1, 9, 1)}, "x": (4, 3)}, "inside of 5 elements"),
    "flat behind": ({"op": "Flatten", "axis": 1 << 40}, "axis of 4 dimensions"),
    "more than all": ({"op": "TopK", "held": {"k": whole(7)}, "results": 2}, "k from 1 to the 6 elements"),
    "an equation of nothing": ({"op": "Einsum", "equation": ""}, r"an equation of inputs of \[4\] dimensions, got ''"),
    "an equation of two": ({"op": "Einsum", "equation": "abcd,abcd->a"}, "an equation of inputs of"),
    "any number of elements": ({"op": "Unique", "axis": 0}, "how many elements there are depends on data"),
    "parts of nothing": ({"op": "Split", "num_outputs": 0}, "num_outputs from 1 to"),
    "other parts": ({"op": "Split", "num_outputs": 3, "axis": 1, "results": 2}, "num_outputs of its 2 results"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_an_op_does_not_take_is_refused_by_name(case, tmp_path):
    given, words = WRONG[case]
    path = write(tmp_path / "model.onnx", **given)
    with pytest.raises(UnsupportedError, match=words) as refusal:
        convert(path, tmp_path / "out", {})
    assert len(str(refusal.value)) < 300
    assert "must have" in str(refusal.value) or "cannot be lowered" in str(refusal.value)


def test_an_index_that_is_computed_of_constants_is_looked_at_too(tmp_path):
    nodes = [helper.make_node("Add", ["i", "i"], ["j"]), helper.make_node("Gather", ["w", "j"], ["r"])]
    nodes.append(helper.make_node("Add", ["x", "r"], ["y"]))
    held = [numpy_helper.from_array(array, name) for name, array in (("i", whole(2)), ("w", np.ones((4, 3), "f4")))]
    ends = [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in (("x", [1, 3]), ("y", None))]
    graph = helper.make_graph(nodes, "model", ends[:1], ends[1:], held)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), tmp_path / "model.onnx")
    with pytest.raises(UnsupportedError, match=r"node 1 \(Gather, which gives r\) must have indices inside of 4"):
        convert(tmp_path / "model.onnx", tmp_path / "out", {})


@pytest.mark.parametrize("op", ["Div", "Mod"])
def test_whole_numbers_are_not_divided_by_a_constant_of_zero(op, tmp_path):
    model = onnx.load(write(tmp_path / "model.onnx", op, {"d": whole(2, 0, 1)}, x=(3,)))
    for tensor in (*model.graph.input, *model.graph.output):
        tensor.type.tensor_type.elem_type = TensorProto.INT64
    onnx.save(model, tmp_path / "model.onnx")
    with pytest.raises(UnsupportedError, match=r"must have numbers in d other than 0, got \[2, 0, 1\]"):
        convert(tmp_path / "model.onnx", tmp_path / "out", {})


@pytest.mark.parametrize("end", [np.inf, np.nan, 1e30])
def test_a_range_ends(end):
    node = helper.make_node("Range", ["a", "b", "c"], ["y"])
    bounds = {name: np.array(value, np.float32) for name, value in (("a", 0), ("b", end), ("c", 1))}
    with pytest.raises(UnsupportedError, match="must have bounds of at most"):
        check_attributes(node, KnownTensors({}, {}, bounds))
    check_attributes(node, KnownTensors({}, {}, bounds | {"b": np.array(-7.0)}))


RIGHT = {
    "groups": {"op": "Conv", "held": {"w": np.ones((8, 1, 3, 3), np.float32)}, "group": 4, "pads": [1] * 4},
    "groups transposed": {"op": "ConvTranspose", "held": PLANE, "group": 2, "output_shape": [9, 9], "strides": [1, 2]},
    "a whole shape": {"op": "ConvTranspose", "held": PLANE, "output_shape": [1, 4, 8, 8]},
    "pads that cut": {"op": "Pad", "held": {"p": whole(*[0, 0, -1, 0] * 2)}},
    "flat": {"op": "Flatten", "axis": 4},
    "a class left out": {
        "op": "NegativeLogLikelihoodLoss",
        "held": {"i": whole(-100, 2)},
        "x": (2, 3),
        "ignore_index": -100,
    },
    "turned whole": {"op": "ReverseSequence", "held": {"l": whole(4, 1, 0)}, "x": (4, 3)},
    "ends": {"op": "Gather", "held": {"i": whole(-6, 5)}, "axis": -1},
    "places": {"op": "GatherND", "held": {"i": whole(0, -4)}},
    "new axes": {"op": "Unsqueeze", "held": {"a": whole(-6, 5)}},
    "an equation": {"op": "Einsum", "equation": "a bcd -> dcba"},
    "an equation of the last": {"op": "Einsum", "equation": "...a->a..."},
    "one of each": {"op": "Split", "num_outputs": 2, "axis": 1, "results": 2},
    "all": {"op": "TopK", "held": {"k": whole(6)}, "results": 2},
}


@pytest.mark.parametrize("case", RIGHT)
def test_what_an_op_takes_passes(case, tmp_path):
    model = onnx.shape_inference.infer_shapes(onnx.load(write(tmp_path / "model.onnx", **RIGHT[case])), data_prop=True)
    check_attributes(model.graph.node[0], facts_of(model.graph))


def test_names_of_a_file_are_said_on_one_line_of_no_length(tmp_path):
    model = onnx.load(write(tmp_path / "model.onnx", "Softmax", axis=9))
    model.graph.node[0].name = "a\x1b[2J\nb" + "c" * 10000
    onnx.save(model, tmp_path / "model.onnx")
    with pytest.raises(UnsupportedError, match=re.escape(r"node a\x1b[2J bccc")) as refusal:
        convert(tmp_path / "model.onnx", tmp_path / "out", {})
    assert str(refusal.value).isprintable()
    assert len(str(refusal.value)) < 300
