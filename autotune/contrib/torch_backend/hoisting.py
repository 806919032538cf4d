"""Hoisting of computations that depend on weights only, so that calls use cached values.

Views of weights are not hoisted, because programs read weights in place. Operations on constants only are not hoisted
either; the importer folds them into the program. A graph result is computed in each call, since the caller may write
it.

A weight that the importer transforms, such as the kernel of a transposed convolution, is treated as a constant: its
elements are part of the program and of its key, and the program is compiled again when they change.
"""

import operator
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.fx import Graph, GraphModule, Node

VIEWS = {
    torch.ops.aten.t.default,
    torch.ops.aten.transpose.int,
    torch.ops.aten.permute.default,
    torch.ops.aten.view.default,
    torch.ops.aten._unsafe_view.default,
    torch.ops.aten.reshape.default,
    torch.ops.aten.unsqueeze.default,
    torch.ops.aten.squeeze.dim,
    torch.ops.aten.squeeze.dims,
    torch.ops.aten.expand.default,
    torch.ops.aten.slice.Tensor,
    torch.ops.aten.select.int,
    torch.ops.aten.alias.default,
    torch.ops.aten.detach.default,
    torch.ops.aten.split.Tensor,
    torch.ops.aten.split_with_sizes.default,
}
TRANSPOSED = 6  # its position among the arguments of a convolution


@dataclass(frozen=True, eq=False)
class HoistedGraph:
    """Graph without the computations that depend on weights only.

    Attributes:
        graph: Remaining graph; its placeholders are those of the original, then the results of `hoisted`.
        kinds: Kind of each placeholder: ``"weight"``, ``"constant"``, or ``""`` for a varying input.
        hoisted: Module that computes the hoisted values from the weights at `sources`; `None` if there are none.
        sources: Indices of the placeholders that `hoisted` reads.
    """

    graph: Graph
    kinds: tuple[str, ...]
    hoisted: GraphModule | None
    sources: tuple[int, ...]


def is_random(node: Node) -> bool:
    """Return whether an operation is random."""
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())


def transformed_weights(graph: Graph) -> set[Node]:
    """Return the nodes that the importer transforms if they are weights: operands of transposed convolutions.

    `payload.importers.pt2_phases` writes these as dense ones, by other kernels and biases.
    """
    convolutions = (node for node in graph.nodes if node.target is torch.ops.aten.convolution.default)
    transposed = [node for node in convolutions if node.args[TRANSPOSED]]
    return {each for node in transposed for each in node.args[1:3] if isinstance(each, Node)}


def split(original: Graph, kinds: Sequence[str]) -> HoistedGraph:
    """Split the computations that depend on weights only off a graph.

    Args:
        original: Functional graph; it is not changed.
        kinds: Kinds of its placeholders, as in `HoistedGraph`.
    """
    graph = Graph()
    graph.output(graph.graph_copy(original, {}))
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    dependent = weight_dependent(graph, dict(zip(placeholders, kinds, strict=True))) - aliases_of_results(graph)
    last = placeholders[-1] if placeholders else None
    hoisted = [node for node in graph.nodes if is_hoisted(node, dependent)]
    if not hoisted:
        return HoistedGraph(graph, tuple(kinds), None, ())
    module, sources = extract(graph, hoisted, placeholders)
    for number, node in enumerate(hoisted):
        with graph.inserting_after(last):
            last = graph.placeholder(f"held{number}")
        last.meta["val"] = node.meta["val"]
        node.replace_all_uses_with(last)
    graph.eliminate_dead_code()
    transformed = transformed_weights(graph)
    computed = [each for each in graph.nodes if each.op == "placeholder"][len(kinds) :]
    return HoistedGraph(
        graph, (*kinds, *("" if each in transformed else "weight" for each in computed)), module, sources
    )


def weight_dependent(graph: Graph, kinds: dict[Node, str]) -> set[Node]:
    """Return the nodes that depend on weights and on no varying input."""
    independent, dependent = set[Node](), set[Node]()
    for node in graph.nodes:
        if node.op == "placeholder":
            (dependent if kinds[node] == "weight" else independent if kinds[node] else set()).add(node)
        elif node.op in {"call_function", "get_attr"} and not is_random(node):
            below = node.all_input_nodes
            if all(each in independent or each in dependent for each in below):
                (dependent if any(each in dependent for each in below) else independent).add(node)
    return dependent | {node for node in independent if any(user in dependent for user in node.users)}


def aliases_of_results(graph: Graph) -> set[Node]:
    """Return the operations whose results may share elements with a result of the graph."""
    aliases, stack = set[Node](), list(graph.output_node().all_input_nodes)
    while stack:
        node = stack.pop()
        if node.op == "call_function" and node not in aliases:
            aliases.add(node)
            stack.extend(node.all_input_nodes if may_alias(node) else ())
    return aliases


def may_alias(node: Node) -> bool:
    """Return whether the result of an operation may alias its operands."""
    if node.target in VIEWS or node.target is operator.getitem:
        return True
    schema = getattr(node.target, "_schema", None)
    return any(each.alias_info is not None for each in getattr(schema, "arguments", ()))


def is_hoisted(node: Node, dependent: set[Node]) -> bool:
    """Return whether a value is to be hoisted: the remaining graph uses it, and it is not a view of a weight."""
    if node.op != "call_function" or node not in dependent or all(user in dependent for user in node.users):
        return False
    if not isinstance(node.meta.get("val"), torch.Tensor) or not any(
        each in dependent for each in node.all_input_nodes
    ):
        return False
    return not is_view(node)


def is_view(node: Node) -> bool:
    """Return whether a value is a placeholder or a view of one."""
    while node.op == "call_function" and (node.target in VIEWS or node.target is operator.getitem):
        node = node.all_input_nodes[0]
    return bool(node.op == "placeholder")


def extract(graph: Graph, outputs: Sequence[Node], placeholders: Sequence[Node]) -> tuple[GraphModule, tuple[int, ...]]:
    """Return a module that computes some nodes, and the indices of the placeholders that it reads."""
    needed, stack = set[Node](), list(outputs)
    while stack:
        node = stack.pop()
        if node not in needed:
            needed.add(node)
            stack.extend(node.all_input_nodes)
    part, copies = Graph(), dict[Node, Node]()
    for node in graph.nodes:
        if node in needed:
            copies[node] = part.node_copy(node, copies.__getitem__)
    part.output(tuple(copies[node] for node in outputs))
    sources = tuple(number for number, node in enumerate(placeholders) if node in needed)
    return GraphModule(torch.nn.Module(), part), sources
