"""Softmaxes that PyTorch guards against rows that are hidden whole: plain ones, where no row can be.

where(all(x == -inf), 0, softmax(x))   ->   softmax(x)
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from autotune.core.payload import Array

if TYPE_CHECKING:
    from torch.fx import Graph, Node

ALL = (("all", "eq"), ("logical_not", "any", "logical_not", "eq"))  # from where's condition back to what is compared
PRODUCTS = ("mm", "bmm", "addmm", "matmul", "_softmax", "convolution")  # of finite numbers they give finite numbers


def trust_softmaxes(graph: "Graph", weights: Mapping[str, Array]) -> None:
    """Drop guards where some number of each row is finite, in place.

    Args:
        graph: The program, constants folded.
        weights: Values of its placeholders that are no inputs.
    """
    for node in list(graph.nodes):
        guarded = guarded_of(node)
        if guarded is not None and shows_each_row(guarded, weights):
            node.replace_all_uses_with(node.args[2])
    graph.eliminate_dead_code()


def name_of(node: "Node") -> str:
    """Name of a node's op, without overload; empty for what computes nothing."""
    return getattr(node.target, "__name__", "").partition(".")[0] if node.op == "call_function" else ""


def guarded_of(node: "Node") -> "Node | None":
    """What a guarded softmax is of; `None` for any other node."""
    if name_of(node) != "where" or name_of(node.args[2]) != "_softmax":
        return None
    condition, names = node.args[0], list[str]()
    while name_of(condition) not in ("", "eq"):
        names.append(name_of(condition))
        condition = condition.args[0]
    (guarded, *_), compared = node.args[2].args, condition.args[:2]
    return guarded if (*names, "eq") in ALL and compared == (guarded, -np.inf) else None


def shows_each_row(node: "Node", weights: Mapping[str, Array]) -> bool:
    """Tell whether each row of a value holds a finite number, as far as can be told."""
    if not any(lows_of(node, weights)):
        return True
    if name_of(node) != "add":
        return False
    sides = [side for side in node.args if hasattr(side, "op")]
    hidden = [side for side in sides if any(lows_of(side, weights))]
    if len(hidden) != 1:
        return False
    mask = source_of(hidden[0])
    return mask.name in weights and bool(np.isfinite(weights[mask.name]).any(axis=-1).all())


def source_of(node: "Node") -> "Node":
    """Where a value comes from that is expanded or seen in another shape at most; rows stay rows."""
    while name_of(node) in ("expand", "unsqueeze", "clone", "alias"):
        node = node.args[0]
    return node


def lows_of(node: "Node", weights: Mapping[str, Array]) -> Iterator[bool]:
    """Whether each source of a value may hold minus infinity; products of finite numbers are finite."""
    seen, left = set[Any](), [node]
    while left:
        each = left.pop()
        if each in seen or name_of(each) in PRODUCTS:
            continue
        seen.add(each)
        if each.op == "placeholder":
            yield each.name not in weights or not np.isfinite(weights[each.name]).all()
        else:
            yield any(value == -np.inf for value in each.args if isinstance(value, int | float))
        left += each.all_input_nodes
