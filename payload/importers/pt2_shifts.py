"""Shifts of integers with PyTorch's semantics for any amount: in MLIR, amounts outside ``[0, bits)`` are poison.

    x << n   0 where n < 0 or n >= bits
    x >> n   x >> (bits - 1) there, of numbers with a sign: 0 or -1

Constant amounts are adjusted at import, others at run time.
"""

from typing import TYPE_CHECKING, Any

from payload.importers.pt2_unsigned import cast, describe_anew, value_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch.fx import Graph, Node

LEFTWARDS = ("__lshift__", "bitwise_left_shift")
RIGHTWARDS = ("__rshift__", "bitwise_right_shift")


def guard_shifts(graph: "Graph") -> None:
    """Guard shifts against amounts out of range, in place.

    Args:
        graph: Graph of a program with static sizes.
    """
    import torch  # noqa: PLC0415 - comes with an extra

    for node in list(graph.nodes):
        schema = getattr(node.target, "_schema", None)
        name = schema.name.split("::")[1] if node.op == "call_function" and schema is not None else ""
        if name not in LEFTWARDS + RIGHTWARDS or node.meta["val"].dtype is torch.bool:
            continue
        with graph.inserting_before(node):
            value, count = (in_type_of(graph, each, node) for each in node.args)
            shifted = shift(graph, value, count, is_left=name in LEFTWARDS)
        node.replace_all_uses_with(shifted)
        graph.erase_node(node)


def shift(graph: "Graph", value: "Node", count: "Node | int", *, is_left: bool) -> "Node":
    """Add a shift by any amount.

    Args:
        graph: Graph, at its insertion point.
        value: Integer tensor to shift.
        count: Amount: an int, or a tensor of the same type.
        is_left: Whether to shift left.
    """
    import torch  # noqa: PLC0415

    aten, info = torch.ops.aten, torch.iinfo(value.meta["val"].dtype)
    last = info.bits - (info.min < 0)  # a right shift by this leaves the sign bits only
    if isinstance(count, int):
        is_inside = 0 <= count < info.bits
        if is_left and not is_inside:
            return number_like(graph, value, 0, value.meta["val"].shape)
        op = aten.__lshift__.Scalar if is_left else aten.__rshift__.Scalar
        return call(graph, op, value, count if is_inside else last)
    inside = call(
        graph,
        aten.logical_and.default,
        call(graph, aten.ge.Scalar, count, 0),
        call(graph, aten.lt.Scalar, count, info.bits),
    )
    zero = number_like(graph, value, 0)
    if not is_left:
        by = call(graph, aten.where.self, inside, count, number_like(graph, value, last))
        return call(graph, aten.bitwise_right_shift.Tensor, value, by)
    by = call(graph, aten.where.self, inside, count, zero)
    return call(graph, aten.where.self, inside, call(graph, aten.bitwise_left_shift.Tensor, value, by), zero)


def in_type_of(graph: "Graph", operand: "Node | int", node: "Node") -> "Node | int":
    """Convert an operand to the result type of a node; a scalar that is shifted becomes a tensor of rank 0."""
    wanted = node.meta["val"].dtype
    if isinstance(operand, int):
        return number_like(graph, node, operand) if operand is node.args[0] else operand
    return operand if operand.meta["val"].dtype == wanted else cast(graph, operand, wanted)


def number_like(graph: "Graph", node: "Node", number: int, shape: "Sequence[int]" = ()) -> "Node":
    """Add a tensor filled with an integer, of the result type of a node."""
    import torch  # noqa: PLC0415

    like = node.meta["val"]
    kind = {"dtype": like.dtype, "device": like.device}
    result = graph.call_function(torch.ops.aten.full.default, (list(shape), number), kind)
    describe_anew(result, like.new_full(tuple(shape), number))
    return result


def call(graph: "Graph", op: Any, *operands: Any) -> "Node":  # noqa: ANN401 - as the op has them
    """Add a call of an op with one result."""
    result = graph.call_function(op, operands)
    describe_anew(result, value_of(result))
    return result
