"""What a graph computes of weights alone: taken out of it, so that calls find it computed.

Views of weights stay where they are: programs read weights as they lie. So do ops of constants alone, which the
importer computes once: whole numbers and truth values do not change from call to call; what they become is in the
text. A result is computed anew in each call, since who called may write it.

A weight of which the importer makes others, such as the kernel of a transposed convolution, is a constant: its elements
are in the program, so that it is known by them, and made anew where they change.
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
    """A graph without what weights alone decide.

    Attributes:
        graph: The rest: its placeholders are those of the whole, then values of `held`.
        kinds: ``"weight"``, ``"constant"``, or ``""`` for what is given, a word each placeholder.
        held: Computes those values of the weights at `sources`; `None` where there are none.
        sources: Placeholders of the whole that it reads.
    """

    graph: Graph
    kinds: tuple[str, ...]
    held: GraphModule | None
    sources: tuple[int, ...]


def is_random(node: Node) -> bool:
    """Tell whether an op draws: each call gives another result."""
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())


def remade(graph: Graph) -> set[Node]:
    """Nodes of which the importer makes other weights, where they are weights: what transposed convolutions read.

    `payload.importers.pt2_phases` writes these as dense ones, by other kernels and biases.
    """
    convolutions = (node for node in graph.nodes if node.target is torch.ops.aten.convolution.default)
    transposed = [node for node in convolutions if node.args[TRANSPOSED]]
    return {each for node in transposed for each in node.args[1:3] if isinstance(each, Node)}


def split(whole: Graph, kinds: Sequence[str]) -> HeldApart:
    """Take what weights alone decide out of a graph.

    Args:
        whole: Graph of a functional program; it is not changed.
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
    """Nodes that depend on weights, and on nothing that calls give."""
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
    """Ops whose elements are those of a result: what gives the result, and what it is a view of."""
    found, stack = set[Node](), list(graph.output_node().all_input_nodes)
    while stack:
        node = stack.pop()
        if node.op == "call_function" and node not in found:
            found.add(node)
            stack.extend(node.all_input_nodes if gives_elements_on(node) else ())
    return found


def gives_elements_on(node: Node) -> bool:
    """Tell whether what an op gives may be the elements that it reads, and no copy."""
    if node.target in VIEWS or node.target is operator.getitem:
        return True
    schema = getattr(node.target, "_schema", None)
    return any(each.alias_info is not None for each in getattr(schema, "arguments", ()))


def is_taken(node: Node, held: set[Node]) -> bool:
    """Tell whether a value is one that the rest of the graph reads, and no view of a weight."""
    if node.op != "call_function" or node not in held or all(user in held for user in node.users):
        return False
    if not isinstance(node.meta.get("val"), torch.Tensor) or not any(each in held for each in node.all_input_nodes):
        return False
    return not is_view(node)


def is_view(node: Node) -> bool:
    """Tell whether a value is a weight as it lies, or a view of one."""
    while node.op == "call_function" and (node.target in VIEWS or node.target is operator.getitem):
        node = node.all_input_nodes[0]
    return bool(node.op == "placeholder")


def extract(graph: Graph, wanted: Sequence[Node], placeholders: Sequence[Node]) -> tuple[GraphModule, tuple[int, ...]]:
    """A module that computes some nodes, and the placeholders that it reads."""
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
