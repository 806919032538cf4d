"""Lowering of exported programs to linalg by torch-mlir; a failing op is found by lowering each node alone."""

import operator
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from autotune.core.payload import Array
from payload.importers.linalg import FX_TO_TORCH, UnsupportedError, cannot_lower, lower
from payload.importers.pt2_origins import describe, name_locations

if TYPE_CHECKING:
    from torch.fx import Graph, Node

ENTRY = "main"


def to_linalg(graph: "Graph", constants: Mapping[int, Array]) -> str:
    """Lower a graph to linalg.

    Args:
        graph: Graph to lower.
        constants: Values of placeholders that are constants, by position; parameters are not constants.

    Raises:
        UnsupportedError: torch-mlir does not support an op; the message names the node, if one fails alone.
    """
    nodes = name_locations(graph)
    try:
        return text_of(graph, constants)
    except UnsupportedError as error:
        blamed = nodes.get(error.location)  # may be the producer of a constant, while its consumer fails
        refusals = refusals_in(graph.nodes if blamed is None else (blamed, *graph.nodes))
        if not refusals and blamed is not None:
            refusals = {blamed: error.why}
        if not refusals:
            raise
        first, *others = dict.fromkeys(map(describe, refusals))
        nor = f"; nor can {', '.join(others)}" if others else ""
        raise cannot_lower(first, f"{next(iter(refusals.values()))}{nor}") from error


def refusals_in(nodes: "Iterable[Node]") -> "dict[Node, str]":
    """Return why nodes cannot be lowered as graphs of one node: the first refused node, and one of each other op."""
    refusals, tried = dict["Node", str](), set[object]()
    for node in nodes:
        if node.op != "call_function" or node.target is operator.getitem or (refusals and node.target in tried):
            continue
        tried.add(node.target)
        if why := refusal_of(node):
            refusals[node] = why
    return refusals


def refusal_of(node: "Node") -> str:
    """Return why a node cannot be lowered as a graph of one node; empty if it can."""
    from torch.fx import Graph  # noqa: PLC0415 - comes with an extra

    graph, copies = Graph(), dict["Node", "Node"]()
    for read in node.all_input_nodes:
        copies[read] = graph.placeholder(read.name)
        copies[read].meta = dict(read.meta)
    copies[node] = graph.node_copy(node, copies.__getitem__)
    items = [user for user in node.users if user.target is operator.getitem]
    graph.output(tuple(graph.node_copy(item, copies.__getitem__) for item in items) or (copies[node],))
    try:
        text_of(graph, {})
    except UnsupportedError as error:
        return error.why
    return ""


def text_of(graph: "Graph", constants: Mapping[int, Array]) -> str:
    """Lower a graph whose nodes have location names.

    Raises:
        UnsupportedError: torch-mlir does not support an op; the error has its location, if torch-mlir reports it.
    """
    from torch_mlir.dialects import torch as dialect  # noqa: PLC0415
    from torch_mlir.extras.fx_importer import FxImporter  # noqa: PLC0415
    from torch_mlir.ir import Context  # noqa: PLC0415

    context = Context()
    dialect.register_dialect(context)
    importer = FxImporter(context=context)
    try:
        importer.import_stateless_graph(graph, func_name=ENTRY)
    except Exception as error:  # NotImplementedError, KeyError, ... for unknown ops
        why = f"torch-mlir cannot read it: {' '.join(str(error).split())[:200]}"
        raise UnsupportedError(f"{why}; replace that op in the model", why=why) from error
    return lower(importer.module, FX_TO_TORCH, constants)
