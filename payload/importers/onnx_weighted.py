"""Ops of ONNX models whose kernels are weights, written as others that have those weights in another order."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from autotune.core.payload import Array
from payload.importers.onnx_nodes import KnownTensors, NodeWriter, facts_of
from payload.importers.onnx_origins import take_origin
from payload.importers.onnx_values import replace_all

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

# Writes a node as others, given the weights by name; returns whether it did.
WeightedRewrite = Callable[[NodeWriter, "NodeProto", KnownTensors, dict[str, Array]], bool]


def rewrite_weighted(
    model: "ModelProto", weights: dict[str, Array], op: str, stem: str, rewrite: WeightedRewrite
) -> None:
    """Write nodes of an op as others, in place; unused weights are removed.

    Args:
        model: Model whose shapes are inferred.
        weights: Arrays of the graph's inputs that are weights, by name.
        op: Type of the nodes.
        stem: What names of the others begin with.
        rewrite: Writes one of them.
    """
    graph = model.graph
    facts, nodes = facts_of(graph), list["NodeProto"]()
    for number, node in enumerate(graph.node):
        writer = NodeWriter(graph, f"{stem}_{number}")
        written = node.op_type == op and rewrite(writer, node, facts, weights)
        nodes += take_origin(writer.nodes, node) if written else [node]
    replaced = {name for node in graph.node if node.op_type == op for name in node.input}
    replace_all(graph.node, nodes)
    unread = (replaced - {name for node in graph.node for name in node.input}) & weights.keys()
    replace_all(graph.input, [tensor for tensor in graph.input if tensor.name not in unread])
    for name in unread:
        del weights[name]
