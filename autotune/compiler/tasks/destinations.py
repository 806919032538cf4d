"""Destinations: what an op writes to, and what is filled into it first, is made for it alone."""

from mlir import ir
from mlir.dialects import tensor

from autotune.compiler.ir.nests import structured_ops
from autotune.compiler.ir.values import maker

MADE = ("linalg.fill", "tensor.empty")


def own_destinations(function: ir.OpView) -> None:
    """Give every structured op a destination that no other op has, in place.

        z = fill 0;  s = sum(x) into z;  t = sum(y) into z   ->   z = fill 0;  s = sum(x) into z;  w = fill 0;  t = ...

    A schedule fuses the fill of an op's destination into its loops: one that others read too would be consumed with the
    first of them.
    """
    for op, _ in list(structured_ops(function.regions[0].blocks[0])):
        for number in range(len(op.operands) - len(op.results), len(op.operands)):
            make_own(op.operation, number)


def make_own(reader: ir.Operation, number: int) -> None:
    """Let an operand that is a fill, or an empty tensor, be one that nothing else reads."""
    made_by = maker(reader.operands[number])
    if made_by is None or made_by.name not in MADE:
        return
    if len(list(made_by.results[0].uses)) > 1:
        with ir.InsertionPoint(reader):
            made_by = made_by.clone().operation
        reader.operands[number] = made_by.results[0]
    if made_by.name == "linalg.fill":
        make_own(made_by, len(made_by.operands) - 1)


def skip_settled_copy(op: ir.Operation) -> ir.WalkResult:
    """Let a value that is already computed in its destination stand for the copy of it there.

    One-shot bufferization sees that the two are one buffer for a single op, but no longer for the loops that
    tiling makes of it. Where the op also reads its destination, it sees neither: then the value is computed elsewhere,
    and copied.
    """
    if op.name == "bufferization.materialize_in_destination" and len(op.results) == 1:
        source, destination = op.operands
        made_by = maker(source)
        if made_by is None or not made_by.name.startswith("linalg.") or made_by.operands[-1] != destination:
            return ir.WalkResult.ADVANCE
        if reads_besides(made_by, destination):
            with ir.InsertionPoint(made_by), op.location:
                kind = destination.type
                made_by.operands[len(made_by.operands) - 1] = tensor.empty(kind.shape, kind.element_type)
            return ir.WalkResult.ADVANCE
        op.results[0].replace_all_uses_with(source)
        op.erase()
    return ir.WalkResult.ADVANCE


def reads_besides(op: ir.Operation, value: ir.Value) -> bool:
    """Tell whether an op that writes to a value reads it as another operand, and only there."""
    return value in list(op.operands)[:-1] and not list(op.regions[0].blocks[0].arguments[-1].uses)
