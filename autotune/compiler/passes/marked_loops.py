"""Queries on loops of a bufferized program that a schedule has marked by attributes."""

from collections.abc import Iterator

from mlir import ir
from mlir.dialects import arith

from autotune.compiler.ir.module import every_op
from autotune.compiler.ir.values import index
from autotune.core.errors import CompileError
from autotune.core.scripts.marks import HIDDEN


def marked(scope: ir.Operation, mark: str) -> list[ir.Operation]:
    """Return `scope` and its nested ops that have a mark, in program order."""
    return [op for op in every_op(scope) if mark in op.attributes]


def marked_numbers(op: ir.Operation, *marks: str) -> list[int]:
    """Return the positive integers that marks of an op hold.

    Raises:
        CompileError: Stage ``transform``; a mark is missing, or not a positive integer.
    """
    numbers = []
    for mark in marks:
        value = op.attributes.get(mark, None)
        if not isinstance(value, ir.IntegerAttr) or value.value < 1:
            raise CompileError("transform", f"{mark} must be a number of 1 or more on {op.name}, got {value or 'none'}")
        numbers.append(int(value.value))
    return numbers


def mark_hidden(loop: ir.OpView, columns: int, *, is_hidden: bool) -> None:
    """Mark a loop, whose steps of 1 are `columns` columns each, if it may skip columns hidden by a causal mask."""
    if is_hidden:
        number = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), columns)
        loop.operation.attributes[HIDDEN] = number


def parents(op: ir.Operation) -> Iterator[ir.Operation]:
    """Yield the ancestors of an op, innermost first, up to its function."""
    while op.name != "func.func":
        op = op.parent.operation
        yield op


def parent_marked(op: ir.Operation, mark: str) -> ir.Operation | None:
    """Return the innermost ancestor of an op that has a mark."""
    return next((parent for parent in parents(op) if mark in parent.attributes), None)


def counter(loop: ir.Operation) -> ir.Value:
    """Return the induction variable of a loop."""
    return loop.regions[0].blocks[0].arguments[0]


def piece_start(shared: ir.Operation, mark: str, position: int) -> ir.Value:
    """Build the first row, or column, of the current chunk of a marked parallel loop, at an insertion point inside it.

    Args:
        shared: Parallel loop on buffers.
        mark: Attribute that holds the number of rows, or columns, of a chunk.
        position: Position of that dimension among the induction variables of the loop.
    """
    length = int(ir.IntegerAttr(shared.attributes[mark]).value)
    return arith.muli(list(shared.regions[0].blocks[0].arguments)[position], index(length))
