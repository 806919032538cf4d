"""Softmaxes that PyTorch guards against rows that are hidden whole, written so that such rows are zero by themselves.

where(all(x == -inf), 0, softmax(x))   ->   m = max(max(x), lowest);  e = exp(x - m);  e / (sum(e) + tiny)

Under a finite maximum each e of a row of -inf is 0, and so is the quotient. Any other row has an e of 1, beside which
the smallest normal number is nothing. A maximum and a sum that start from these numbers take no pass more than others.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from torch.fx import Graph, Node

ALL = (("all", "eq"), ("logical_not", "any", "logical_not", "eq"))  # from where's condition back to what is compared
KINDS = ("torch.float32", "torch.float64")  # narrower ones are computed in another type


def write_guards(graph: "Graph") -> None:
    """Write guarded softmaxes by ops that need no guard, in place.

    Args:
        graph: The program, constants folded.
    """
    for node in list(graph.nodes):
        if is_guarded(node):
            with graph.inserting_before(node):
                node.replace_all_uses_with(write_softmax(graph, node.args[2]))
    graph.eliminate_dead_code()


def name_of(node: Any) -> str:  # noqa: ANN401 - an argument of a node
    """Name of a node's op, without overload; empty for what computes nothing."""
    called = getattr(node, "op", "") == "call_function"
    return getattr(node.target, "__name__", "").partition(".")[0] if called else ""


def is_guarded(node: "Node") -> bool:
    """Return whether a node is a softmax, and 0 in rows that are -inf all over."""
    if name_of(node) != "where" or name_of(node.args[2]) != "_softmax" or not is_zero(node.args[1]):
        return False
    (guarded, dim, widened), rank = node.args[2].args, node.meta["val"].dim()
    condition, names = node.args[0], list[str]()
    while name_of(condition) not in ("", "eq"):
        names.append(name_of(condition))
        if names[-1] in ("any", "all") and (len(condition.args) < 3 or condition.args[1] % rank != dim % rank):
            return False
        condition = condition.args[0]
    of_rows = (*names, name_of(condition)) in ALL and condition.args[:2] == (guarded, -np.inf)
    return of_rows and not widened and str(node.meta["val"].dtype) in KINDS


def is_zero(node: Any) -> bool:  # noqa: ANN401
    """Return whether an argument is 0 everywhere."""
    return name_of(node) in ("full", "full_like", "scalar_tensor") and next(
        value == 0 for value in reversed(node.args) if isinstance(value, int | float)
    )


def write_softmax(graph: "Graph", softmax: "Node") -> "Node":
    """A softmax that is 0 in rows that are -inf all over, before the node at hand; the maximum and sum come first.

    The numbers are next to the reductions that are to start from them.
    """
    import torch  # noqa: PLC0415 - comes with an extra

    (x, dim, _), aten = softmax.args, torch.ops.aten
    limits = torch.finfo(softmax.meta["val"].dtype)

    def call(op: Any, *args: Any) -> "Node":  # noqa: ANN401 - of PyTorch
        node = graph.call_function(op, args)
        node.meta["val"] = op(*(each.meta["val"] if hasattr(each, "meta") else each for each in args))
        return node

    largest = call(aten.clamp.default, call(aten.amax.default, x, [dim], False), limits.min)
    powers = call(aten.exp.default, call(aten.sub.Tensor, x, call(aten.unsqueeze.default, largest, dim % rank_of(x))))
    total = call(aten.add.Scalar, call(aten.sum.dim_IntList, powers, [dim], False), limits.tiny)
    return call(aten.div.Tensor, powers, call(aten.unsqueeze.default, total, dim % rank_of(x)))


def rank_of(node: "Node") -> int:
    """Dimensions of what a node gives."""
    return int(node.meta["val"].dim())
