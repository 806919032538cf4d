"""Graphs of ops: plain data, that computes its outputs or is refused, and that whoever has rules can walk."""

import pickle

import pytest

from autotune.core.errors import PayloadError
from autotune.core.ops.graph import GraphWriter, node, translate
from autotune.core.payload import Argument, Payload
from autotune.registry import PAYLOADS, load_payload, registered
from payload import lowering
from payload.comparators import numpy_ops, onnx_model, torch_network

ARGUMENTS = (Argument("x", "input", (2, 3)), Argument("y", "output", (2, 3)))


@pytest.mark.parametrize(
    "name", [name for name, point in registered(PAYLOADS).items() if "contrib" not in point.module]
)
def test_every_payload_of_the_engine_has_a_graph_that_pickles_and_hashes(name):
    graph = load_payload(name).graph
    assert graph
    assert hash(pickle.loads(pickle.dumps(graph))) == hash(graph)


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        ([node("gelu", "z", gives={"y": (2, 3)})], "gelu of p must read arguments or earlier values, got 'z'"),
        ([node("gelu", "y", gives={"y": (2, 3)})], "gelu of p must read arguments or earlier values, got 'y'"),
        ([node("gelu", "x", gives={"x": (2, 3)})], "a value of p must be written once, gelu writes 'x' again"),
        ([node("gelu", "x", gives={"z": (2, 3)})], "the graph of p must give 'y' of shape (2, 3), it has no op that"),
        ([node("gelu", "x", gives={"y": (6,)})], "the graph of p must give 'y' of shape (2, 3), it has (6,)"),
    ],
)
def test_graph_that_does_not_compute_the_outputs_is_refused(graph, message):
    with pytest.raises(PayloadError) as refused:
        Payload("p", "module {}", "f", ARGUMENTS, graph=tuple(graph))
    assert message in str(refused.value)


def test_translation_gives_every_value_once_in_order():
    g = GraphWriter()
    low, high = g.ops("halves", "x", shape=(1,), names=("low", "high"))
    g.op("difference", high, low, shape=(1,), name="y", factor=3)
    rules = {"halves": lambda base, _, x: (x - base, x + base), "difference": lambda _, n, a, b: n["factor"] * (a - b)}
    values = {"x": 10}
    translate(g.graph, values, rules, 2)
    assert list(values.values()) == [10, 8, 12, 12]


def test_op_without_a_rule_is_refused_in_one_line():
    with pytest.raises(PayloadError, match=r"an op must be one of gelu; got 'softmax'"):
        translate([node("softmax", "x", gives={"y": (1,)})], {"x": 0}, {"gelu": None})


@pytest.mark.parametrize("module", [onnx_model, torch_network, lowering], ids=lambda module: module.__name__)
def test_every_op_that_is_translated_is_defined_in_numpy(module):
    assert set(module.RULES) <= set(numpy_ops.RULES)
