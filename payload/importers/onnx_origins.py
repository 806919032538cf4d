"""Tracking of the user's node that a node originates from, kept in `doc_string` across rewrites.

A RotaryEmbedding with the name ``rot`` becomes Slice, Mul, Sub and Concat, each with ``node rot (RotaryEmbedding)``.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from autotune.core.printable import one_line

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto

MOST_NAME = 160  # maximum length of a name in a message
OWN = ("", "ai.onnx")  # the two spellings of ONNX's own domain


def qualified(op: str, domain: str) -> str:
    """Return the name of an op, with its domain unless that is ONNX's own: ``Relu``, ``com.microsoft::Gelu``."""
    return op if domain in OWN else f"{domain}::{op}"


def mark_origins(model: "ModelProto") -> None:
    """Set the origin of every node of a model, of its functions and of subgraphs, in place."""
    mark(model.graph.node, "")
    for function in model.functions:
        mark(function.node, f" of function {qualified(function.name, function.domain)}")


def mark(nodes: "Iterable[NodeProto]", inside: str) -> None:
    """Set the origin of nodes and of the nodes in their subgraphs."""
    for number, node in enumerate(nodes):
        gives = printable_name(", ".join(name for name in node.output if name))
        op = printable_name(qualified(node.op_type, node.domain))
        name = printable_name(node.name) or str(number)
        node.doc_string = f"node {name} ({op if node.name else f'{op}, which gives {gives}'}){inside}"
        for attribute in node.attribute:
            for graph in [attribute.g, *attribute.graphs]:
                mark(graph.node, f" in the {attribute.name} of {node.doc_string}")


def printable_name(name: str) -> str:
    """Return a name from a file for use in a message: on one line and truncated."""
    return f"{name[:MOST_NAME]}.." if len(name := one_line(name)) > MOST_NAME else name


def take_origin(nodes: "Iterable[NodeProto]", node: "NodeProto") -> "list[NodeProto]":
    """Set the origin of nodes that replace another to that node's."""
    replacements = list(nodes)
    for each in replacements:
        each.doc_string = node.doc_string
    return replacements


def origins_of(graph: "GraphProto") -> dict[str, str]:
    """Return the origin of each tensor of a graph, by name."""
    return {name: node.doc_string for node in graph.node for name in node.output if name}


def take_origins(graph: "GraphProto", known: dict[str, str]) -> None:
    """Restore the origins of nodes after inlining, in place.

    Args:
        graph: Graph, with the nodes of a function in the place of its call.
        known: Origins of tensors before inlining.
    """
    origin = ""
    for node in reversed(graph.node):
        origin = next((known[name] for name in node.output if name in known), origin)
        node.doc_string = origin
