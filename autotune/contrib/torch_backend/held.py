"""Hoisting of computations that depend on weights only, so that calls use cached values.

Views of weights are not hoisted, because programs read weights in place. Operations on constants only are not hoisted
either; the importer folds them into the program. A graph result is computed in each call, since the caller may write
it.

A weight that the importer transforms, such as the kernel of a transposed convolution, is treated as a constant: its
elements are part of the program and of its key, and the program is made again when they change.
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
class HeldApart:
    """Graph without the computations that depend on weights only.

    Attributes:
        graph: Remaining graph; its placeholders are those of the original, then the results of `held`.
        kinds: Kind of each placeholder: ``"weight"``, ``"constant"``, or ``""`` for a varying input.
        held: Module that computes the hoisted values from the weights at `sources`; `None` if there are none.
        sources: Indices of the placeholders that `held` reads.
    """

    graph: Graph
    kinds: tuple[str, ...]
    held: GraphModule | None
    sources: tuple[int, ...]


def is_random(node: Node) -> bool:
    """Return whether an operation is random."""
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())


def remade(graph: Graph) -> set[Node]:
    """Return the nodes that the importer transforms if they are weights: operands of transposed convolutions.

    `payload.importers.pt2_phases` writes these as dense ones, by other kernels and biases.
    """
    convolutions = (node for node in graph.nodes if node.target is torch.ops.aten.convolution.default)
    transposed = [node for node in convolutions if node.args[TRANSPOSED]]
    return {each for node in transposed for each in node.args[1:3] if isinstance(each, Node)}


def split(whole: Graph, kinds: Sequence[str]) -> HeldApart:
    """Split the computations that depend on weights only off a graph.

    Args:
        whole: Functional graph; it is not changed.
        kinds: Kinds of its placeholders, as in `HeldApart`.
    """
    graph = Graph()
    graph.output(graph.graph_copy(whole, {}))
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    varying = weights_under(graph, dict(zip(placeholders, kinds, strict=True))) - given_out(graph)
    last = placeholders[-1] if placeholders else None
    taken = [node for node in graph.nodes if is_taken(node, varying)]
    if not taken:
        return HeldApart(graph, tuple(kinds), None, ())
    held, sources = extract(graph, taken, placeholders)
    for number, node in enumerate(taken):
        with graph.inserting_after(last):
            last = graph.placeholder(f"held{number}")
        last.meta["val"] = node.meta["val"]
        node.replace_all_uses_with(last)
    graph.eliminate_dead_code()
    fixed = remade(graph)
    computed = [each for each in graph.nodes if each.op == "placeholder"][len(kinds) :]
    return HeldApart(graph, (*kinds, *("" if each in fixed else "weight" for each in computed)), held, sources)


def weights_under(graph: Graph, kinds: dict[Node, str]) -> set[Node]:
    """Return the nodes that depend on weights and on no varying input."""
    free, found = set[Node](), set[Node]()
    for node in graph.nodes:
        if node.op == "placeholder":
            (found if kinds[node] == "weight" else free if kinds[node] else set()).add(node)
        elif node.op in {"call_function", "get_attr"} and not is_random(node):
            below = node.all_input_nodes
            if all(each in free or each in found for each in below):
                (found if any(each in found for each in below) else free).add(node)
    return found | {node for node in free if any(user in found for user in node.users)}


def given_out(graph: Graph) -> set[Node]:
    """Return the operations whose results may share elements with a result of the graph."""
    found, stack = set[Node](), list(graph.output_node().all_input_nodes)
    while stack:
        node = stack.pop()
        if node.op == "call_function" and node not in found:
            found.add(node)
            stack.extend(node.all_input_nodes if gives_elements_on(node) else ())
    return found


def gives_elements_on(node: Node) -> bool:
    """Return whether the result of an operation may alias its operands."""
    if node.target in VIEWS or node.target is operator.getitem:
        return True
    schema = getattr(node.target, "_schema", None)
    return any(each.alias_info is not None for each in getattr(schema, "arguments", ()))


def is_taken(node: Node, held: set[Node]) -> bool:
    """Return whether a value is to be hoisted: the remaining graph uses it, and it is not a view of a weight."""
    if node.op != "call_function" or node not in held or all(user in held for user in node.users):
        return False
    if not isinstance(node.meta.get("val"), torch.Tensor) or not any(each in held for each in node.all_input_nodes):
        return False
    return not is_view(node)


def is_view(node: Node) -> bool:
    """Return whether a value is a placeholder or a view of one."""
    while node.op == "call_function" and (node.target in VIEWS or node.target is operator.getitem):
        node = node.all_input_nodes[0]
    return bool(node.op == "placeholder")


def extract(graph: Graph, wanted: Sequence[Node], placeholders: Sequence[Node]) -> tuple[GraphModule, tuple[int, ...]]:
    """Return a module that computes some nodes, and the indices of the placeholders that it reads."""
    needed, stack = set[Node](), list(wanted)
    while stack:
        node = stack.pop()
        if node not in needed:
            needed.add(node)
            stack.extend(node.all_input_nodes)
    part, copies = Graph(), dict[Node, Node]()
    for node in graph.nodes:
        if node in needed:
            copies[node] = part.node_copy(node, copies.__getitem__)
    part.output(tuple(copies[node] for node in wanted))
    sources = tuple(number for number, node in enumerate(placeholders) if node in needed)
    return GraphModule(torch.nn.Module(), part), sources
