"""What ops that moved into a function of their own read from outside of it."""

from collections.abc import Callable, Collection, Sequence

from mlir import ir

from autotune.compiler.ir.values import is_constant


def capture(
    ops: Sequence[ir.Operation],
    inside: Collection[ir.Value],
    block: ir.Block,
    location: ir.Location,
    is_copied: Callable[[ir.Value], bool] = is_constant,
) -> list[ir.Value]:
    """Let ops read what lies outside by arguments of a function's block; gives those values, in their order.

    Args:
        ops: All ops of the function.
        inside: Values that they compute, or are given by blocks of their own.
        block: First block of the function, which gets an argument for each.
        location: Location of the arguments.
        is_copied: Whether a value is cloned into the function instead.
    """
    outside: list[ir.Value] = []
    given: dict[ir.Value, ir.Value] = {}
    for op in ops:
        for number, value in enumerate(list(op.operands)):
            if value in inside:
                continue
            if value not in given and is_copied(value):
                given[value] = value.owner.operation.clone(ir.InsertionPoint.at_block_begin(block)).results[0]
            elif value not in given:
                given[value] = block.add_argument(value.type, location)
                outside.append(value)
            op.operands[number] = given[value]
    return outside
