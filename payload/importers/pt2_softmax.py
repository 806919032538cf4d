"""Rewrite of PyTorch's guarded softmax, which handles fully masked rows, to a form that needs no guard.

where(all(x == -inf), 0, softmax(x))   ->   m = max(max(x), lowest);  e = exp(x - m);  e / (sum(e) + tiny)

With a finite maximum, every e of a row of -inf is 0, and so is the quotient. Any other row has an e of 1, to which
adding the smallest normal number changes nothing. The clamp and the addition fold into the start values of the maximum
and the sum, so that no additional pass is needed.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from torch.fx import Graph, Node

ALL = (("all", "eq"), ("logical_not", "any", "logical_not", "eq"))  # ops from where's condition to the comparison
KINDS = ("torch.float32", "torch.float64")  # narrower types are computed in a wider one


def write_guards(graph: "Graph") -> None:
    """Rewrite guarded softmaxes to ops that need no guard, in place.

    Args:
        graph: Graph of a program with folded constants.
    """
    for node in list(graph.nodes):
        if is_guarded(node):
            with graph.inserting_before(node):
                node.replace_all_uses_with(write_softmax(graph, node.args[2]))
    graph.eliminate_dead_code()


def name_of(node: Any) -> str:  # noqa: ANN401 - an argument of a node
    """Return the name of a node's op without its overload; empty if the node is not a call."""
    called = getattr(node, "op", "") == "call_function"
    return getattr(node.target, "__name__", "").partition(".")[0] if called else ""


def is_guarded(node: "Node") -> bool:
    """Return whether a node is a softmax that is replaced by 0 in rows that are all -inf."""
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
    """Add a softmax that is 0 in rows that are all -inf, at the insertion point.

    The clamp and the addition directly follow their reductions, so that they can be folded into them.
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
    """Return the rank of a node's result."""
    return int(node.meta["val"].dim())
