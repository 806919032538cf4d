"""Tracking of the user's node that an op originates from: its name, its op, and its module."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.fx import Graph, Node

LOCATION_PREFIX = "node "  # prefix of the location names passed to torch-mlir


def describe(node: "Node") -> str:
    """Describe a node in the user's terms: ``node linear (aten.linear.default) in layers.0.mlp``."""
    name, op = node.name, str(node.target)
    source: Any = next(iter(node.meta.get("from_node") or ()), None)
    while source is not None:
        name, op = source.name, source.target if isinstance(source.target, str) and source.target else op
        source = next(iter(source.from_node or ()), None)
    stack = node.meta.get("nn_module_stack") or {}
    path = next((path for path, _ in reversed(stack.values()) if path), "")
    return f"node {name} ({op}){f' in {path}' if path else ''}"


def name_locations(graph: "Graph") -> "dict[str, Node]":
    """Set location names of nodes for torch-mlir's errors, in place; return the nodes by location name."""
    nodes = {}
    for number, node in enumerate(graph.nodes):
        location = f"{LOCATION_PREFIX}{number}"
        node.meta["stack_trace"] = f'File "{location}", line {number}, in forward'
        nodes[location] = node
    return nodes


def drop_settings(graph: "Graph") -> None:
    """Remove non-tensor placeholders, in place: export specialized the program to their values."""
    import torch  # noqa: PLC0415 - comes with an extra
    from torch.fx.node import map_arg  # noqa: PLC0415

    for node in [each for each in graph.nodes if each.op == "placeholder"]:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) or not isinstance(value, int | float | str | None):
            continue
        for user in list(node.users):
            user.args, user.kwargs = map_arg(
                (user.args, user.kwargs),
                lambda used, node=node, value=value: value if used is node else used,
            )
        graph.erase_node(node)
