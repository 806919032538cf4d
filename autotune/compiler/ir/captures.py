"""Captured values of operations that were outlined into a function."""

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
    """Replace values captured by outlined operations with new block arguments; return the captured values in order.

    Args:
        ops: All operations of the function.
        inside: Values defined in the function: results of its operations and arguments of their blocks.
        block: Entry block of the function, which gets one argument for each captured value.
        location: Location of the new arguments.
        is_copied: Predicate on captured values whose defining operation is cloned into the function instead.
    """
    outside: list[ir.Value] = []
    replacements: dict[ir.Value, ir.Value] = {}
    for op in ops:
        for number, value in enumerate(list(op.operands)):
            if value in inside:
                continue
            if value not in replacements and is_copied(value):
                replacements[value] = value.owner.operation.clone(ir.InsertionPoint.at_block_begin(block)).results[0]
            elif value not in replacements:
                replacements[value] = block.add_argument(value.type, location)
                outside.append(value)
            op.operands[number] = replacements[value]
    return outside
