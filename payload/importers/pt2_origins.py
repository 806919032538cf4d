"""Which node of the user's program an op comes from: its name, its op, and the module that it is in."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.fx import Graph, Node

LOCATION_PREFIX = "node "  # what names of locations in torch-mlir begin with


def describe(node: "Node") -> str:
    """A node as the user knows it: ``node linear (aten.linear.default) in layers.0.mlp``."""
    name, op = node.name, str(node.target)
    source: Any = next(iter(node.meta.get("from_node") or ()), None)
    while source is not None:
        name, op = source.name, source.target if isinstance(source.target, str) and source.target else op
        source = next(iter(source.from_node or ()), None)
    stack = node.meta.get("nn_module_stack") or {}
    path = next((path for path, _ in reversed(stack.values()) if path), "")
    return f"node {name} ({op}){f' in {path}' if path else ''}"


def name_locations(graph: "Graph") -> "dict[str, Node]":
    """Let torch-mlir's errors tell of which node they are, in place; the nodes by what they tell."""
    found = {}
    for number, node in enumerate(graph.nodes):
        location = f"{LOCATION_PREFIX}{number}"
        node.meta["stack_trace"] = f'File "{location}", line {number}, in forward'
        found[location] = node
    return found


def drop_settings(graph: "Graph") -> None:
    """Take arguments out of a program that are no tensors, in place: export made constants of their values."""
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
