"""Where an operand comes from: the op that computes it, or the argument that holds it, through views and loops."""

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from autotune.compiler.ir.values import maker

VIEWS = ("tensor.extract_slice", "tensor.expand_shape", "tensor.collapse_shape")
SAME = ("tensor.cast", "bufferization.to_tensor", "bufferization.materialize_in_destination", "linalg.copy")
LOOP = "scf.for"


@dataclass(frozen=True)
class Origin:
    """Where an operand comes from.

    Attributes:
        op: The structured op that computes it, also in an earlier iteration; `None` where none does.
        held: Role of the argument that holds it; empty where an op computes it.
        viewed: Whether it is a slice or another shape of that.
    """

    op: ir.Operation | None = None
    held: str = ""
    viewed: bool = False


def origin_of(value: ir.Value, roles: Sequence[str]) -> Origin:
    """Where a value comes from.

    Args:
        value: Operand of a structured op of the entry function.
        roles: Role of each argument of that function.
    """
    viewed, seen = False, set[ir.Value]()
    while True:
        made_by = maker(value)
        if made_by is None:
            argument = ir.BlockArgument(value)
            owner = argument.owner.owner.operation
            if owner.name != LOOP:
                known = owner.name == "func.func" and argument.arg_number < len(roles)
                return Origin(held=roles[argument.arg_number] if known else "", viewed=viewed)
            if argument.arg_number == 0:
                return Origin(viewed=viewed)
            again = value in seen
            seen.add(value)
            value = carried(owner, argument.arg_number - 1, again=again)
        elif made_by.name in VIEWS:
            viewed, value = True, made_by.operands[0]
        elif made_by.name in SAME:
            value = made_by.operands[0]
        elif made_by.name == "tensor.insert_slice":
            viewed, value = True, made_by.operands[1]  # a cache with a row more is that cache
        elif made_by.name == LOOP:
            value = carried(made_by, ir.OpResult(value).result_number, again=False)
        elif made_by.name.startswith("linalg.") and made_by.name != "linalg.fill":
            return Origin(made_by, viewed=viewed)
        else:
            return Origin(viewed=viewed)


def carried(loop: ir.Operation, number: int, *, again: bool) -> ir.Value:
    """What a loop carries: the value that its body gives; the one it begins with where that leads back to itself."""
    if again:
        return loop.operands[3 + number]
    body = loop.regions[0].blocks[0]
    return list(body.operations)[-1].operation.operands[number]
