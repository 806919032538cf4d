"""ONNX models whose tensors are of other types than ops take, or results of others than declared: refused by name."""

from itertools import pairwise

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from payload.importers.linalg import UnsupportedError
from payload.importers.onnx import import_onnx
from payload.importers.onnx_attributes import MOST_NODES
from payload.importers.onnx_convert import convert

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def write(path, nodes, result, held=(), x=(FLOAT, (2, 4))):
    """A model of an input x and a result y of a declared type and shape."""
    ends = [helper.make_tensor_value_info(name, *what) for name, what in (("x", x), ("y", result))]
    graph = helper.make_graph(nodes, "model", ends[:1], ends[1:], list(held))
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    return path


def refused(path, folder):
    with pytest.raises(UnsupportedError) as error:
        convert(path, folder, {})
    return str(error.value)


@pytest.mark.parametrize("kind", ["int4", "uint4", "int8", "int32", "double", "bool", "string"])
@pytest.mark.parametrize("inside", [False, True], ids=["outside", "inside"])
def test_a_constant_of_another_type_is_refused_by_node_and_name(tmp_path, kind, inside):
    number = TensorProto.DataType.Value(kind.upper())
    constant = helper.make_tensor("c", number, [4], [b"1"] * 4 if kind == "string" else [1] * 4)
    node = helper.make_node("Add", ["x", "c"], ["y"], name="plus")
    if inside:
        result = helper.make_tensor_value_info("y", FLOAT, None)
        branch = helper.make_graph([node], "branch", [], [result])
        held = [constant, helper.make_tensor("taken", TensorProto.BOOL, [], [True])]
        node = helper.make_node("If", ["taken"], ["y"], then_branch=branch, else_branch=branch)
    else:
        held = [constant]
    said = refused(write(tmp_path / "m.onnx", [node], (FLOAT, None), held), tmp_path)
    assert said.startswith("node plus (Add)")
    assert f"of {kind};" in said


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ((INT64, (2, 4)), "of the declared type int64, its node gives float"),
        ((FLOAT, (2, 5)), r"of the declared shape [2, 5], its node gives [2, 4]"),
        ((FLOAT, (8,)), r"of the declared shape [8], its node gives [2, 4]"),
        ((FLOAT, ()), r"of the declared shape [], its node gives [2, 4]"),
        ((FLOAT, ("n", 5)), r"of the declared shape [?, 5], its node gives [2, 4]"),
    ],
)
def test_results_that_are_not_what_the_file_declares_are_refused_by_name(tmp_path, declared, words):
    node = helper.make_node("Relu", ["x"], ["y"])
    assert f"result y must be {words}" in refused(write(tmp_path / "m.onnx", [node], declared), tmp_path)


def test_the_result_of_a_loop_is_held_against_what_is_declared(tmp_path):
    names = [("i", INT64, ()), ("go", TensorProto.BOOL, ()), ("a", FLOAT, None)]
    ends = [helper.make_tensor_value_info(*each) for each in names]
    results = [helper.make_tensor_value_info(*each) for each in [("go", TensorProto.BOOL, ()), ("b", FLOAT, None)]]
    body = helper.make_graph([helper.make_node("Neg", ["a"], ["b"])], "body", ends, results)
    loop = helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)
    held = [helper.make_tensor("n", INT64, [], [3])]
    assert "declared shape [3]" in refused(write(tmp_path / "m.onnx", [loop], (FLOAT, (3,)), held), tmp_path)


@pytest.mark.parametrize("declared", [(FLOAT, (2, 4)), (FLOAT, ("n", 4)), (FLOAT, None)])
def test_results_that_the_file_says_less_of_are_imported(tmp_path, declared):
    path = write(tmp_path / "m.onnx", [helper.make_node("Relu", ["x"], ["y"])], declared)
    import_onnx.read(path, tmp_path / "m", {})
    with np.load(tmp_path / "m/oracle.npz") as recorded:
        assert recorded["result/0/0"].shape == (2, 4)


def test_more_nodes_than_are_lowered_in_minutes_are_refused_in_seconds(tmp_path):
    names = ["x", *(f"t{number}" for number in range(MOST_NODES)), "y"]
    nodes = [helper.make_node("Relu", [a], [b]) for a, b in pairwise(names)]
    said = refused(write(tmp_path / "m.onnx", nodes, (FLOAT, None)), tmp_path)
    assert said.startswith(f"it must have at most {MOST_NODES} nodes once constants are computed, it has 32769;")
