"""Shifts of whole numbers by any count, as PyTorch has them: MLIR has none below 0, or as large as there are bits.

    x << n   0 where n < 0 or n >= bits
    x >> n   x >> (bits - 1) there, of numbers with a sign: 0 or -1

Counts that are known are changed when a program is imported, others in each call.
"""

from typing import TYPE_CHECKING, Any

from payload.importers.pt2_unsigned import cast, describe_anew, value_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch.fx import Graph, Node

LEFTWARDS = ("__lshift__", "bitwise_left_shift")
RIGHTWARDS = ("__rshift__", "bitwise_right_shift")


def guard_shifts(graph: "Graph") -> None:
    """Let shifts be by counts that there are, in place.

    Args:
        graph: Graph of a program, whose sizes are fixed.
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
    """A shift by any count.

    Args:
        graph: The graph, at its insertion point.
        value: What is shifted: whole numbers.
        count: Bits that it is shifted by: a number, or a tensor of the same type.
        is_left: Whether it is shifted to the left.
    """
    import torch  # noqa: PLC0415

    aten, held = torch.ops.aten, torch.iinfo(value.meta["val"].dtype)
    last = held.bits - (held.min < 0)  # by which nothing is left but the sign
    if isinstance(count, int):
        is_inside = 0 <= count < held.bits
        if is_left and not is_inside:
            return number_like(graph, value, 0, value.meta["val"].shape)
        op = aten.__lshift__.Scalar if is_left else aten.__rshift__.Scalar
        return call(graph, op, value, count if is_inside else last)
    inside = call(
        graph,
        aten.logical_and.default,
        call(graph, aten.ge.Scalar, count, 0),
        call(graph, aten.lt.Scalar, count, held.bits),
    )
    zero = number_like(graph, value, 0)
    if not is_left:
        by = call(graph, aten.where.self, inside, count, number_like(graph, value, last))
        return call(graph, aten.bitwise_right_shift.Tensor, value, by)
    by = call(graph, aten.where.self, inside, count, zero)
    return call(graph, aten.where.self, inside, call(graph, aten.bitwise_left_shift.Tensor, value, by), zero)


def in_type_of(graph: "Graph", operand: "Node | int", node: "Node") -> "Node | int":
    """An operand in the type of what a node gives; a number that is shifted as a tensor of rank 0."""
    wanted = node.meta["val"].dtype
    if isinstance(operand, int):
        return number_like(graph, node, operand) if operand is node.args[0] else operand
    return operand if operand.meta["val"].dtype == wanted else cast(graph, operand, wanted)


def number_like(graph: "Graph", node: "Node", number: int, shape: "Sequence[int]" = ()) -> "Node":
    """A tensor of one whole number, of the type of what a node gives."""
    import torch  # noqa: PLC0415

    like = node.meta["val"]
    kind = {"dtype": like.dtype, "device": like.device}
    made = graph.call_function(torch.ops.aten.full.default, (list(shape), number), kind)
    describe_anew(made, like.new_full(tuple(shape), number))
    return made


def call(graph: "Graph", op: Any, *operands: Any) -> "Node":  # noqa: ANN401 - as the op has them
    """A call of an op that gives one tensor."""
    made = graph.call_function(op, operands)
    describe_anew(made, value_of(made))
    return made
