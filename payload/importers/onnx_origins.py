"""Which node of the user's model a node comes from: kept in `doc_string` while nodes are written as others.

A RotaryEmbedding with the name ``rot`` becomes Slice, Mul, Sub and Concat, each with ``node rot (RotaryEmbedding)``.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from autotune.core.printable import one_line

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto

MOST_NAME = 160  # letters of a name in a message
OWN = ("", "ai.onnx")  # the two spellings of ONNX's own domain


def qualified(op: str, domain: str) -> str:
    """The name of an op, with its domain unless that is ONNX's own: ``Relu``, ``com.microsoft::Gelu``."""
    return op if domain in OWN else f"{domain}::{op}"


def mark_origins(model: "ModelProto") -> None:
    """Let every node of a model, of its functions and of graphs inside nodes say what it is, in place."""
    mark(model.graph.node, "")
    for function in model.functions:
        mark(function.node, f" of function {qualified(function.name, function.domain)}")


def mark(nodes: "Iterable[NodeProto]", inside: str) -> None:
    """Mark nodes, and those of graphs inside them."""
    for number, node in enumerate(nodes):
        gives = printable_name(", ".join(name for name in node.output if name))
        op = printable_name(qualified(node.op_type, node.domain))
        name = printable_name(node.name) or str(number)
        node.doc_string = f"node {name} ({op if node.name else f'{op}, which gives {gives}'}){inside}"
        for attribute in node.attribute:
            for graph in [attribute.g, *attribute.graphs]:
                mark(graph.node, f" in the {attribute.name} of {node.doc_string}")


def printable_name(name: str) -> str:
    """A name of a file as a message has it: on one line, and of no length."""
    return f"{name[:MOST_NAME]}.." if len(name := one_line(name)) > MOST_NAME else name


def take_origin(nodes: "Iterable[NodeProto]", node: "NodeProto") -> "list[NodeProto]":
    """Nodes that do the work of another, with its origin."""
    taken = list(nodes)
    for each in taken:
        each.doc_string = node.doc_string
    return taken


def origins_of(graph: "GraphProto") -> dict[str, str]:
    """The origin of each tensor of a graph, by its name."""
    return {name: node.doc_string for node in graph.node for name in node.output if name}


def take_origins(graph: "GraphProto", known: dict[str, str]) -> None:
    """Give nodes of a graph the origins that they had before functions were inlined, in place.

    Args:
        graph: The graph; nodes of a function stand where it was called.
        known: Origins of tensors before.
    """
    origin = ""
    for node in reversed(graph.node):
        origin = next((known[name] for name in node.output if name in known), origin)
        node.doc_string = origin
