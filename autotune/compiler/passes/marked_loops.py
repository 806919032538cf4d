"""Loops that a schedule has marked, in a bufferized program."""

from collections.abc import Iterator

from mlir import ir
from mlir.dialects import arith

from autotune.compiler.ir.module import every_op
from autotune.compiler.ir.values import index
from autotune.core.errors import CompileError
from autotune.core.scripts.marks import HIDDEN


def marked(scope: ir.Operation, mark: str) -> list[ir.Operation]:
    """Ops under `scope` that have a mark, in program order."""
    return [op for op in every_op(scope) if mark in op.attributes]


def marked_numbers(op: ir.Operation, *marks: str) -> list[int]:
    """Numbers that marks of an op hold, of 1 or more.

    Raises:
        CompileError: Stage ``transform``; a mark is missing, or holds something else.
    """
    found = []
    for mark in marks:
        given = op.attributes.get(mark, None)
        if not isinstance(given, ir.IntegerAttr) or given.value < 1:
            raise CompileError("transform", f"{mark} must be a number of 1 or more on {op.name}, got {given or 'none'}")
        found.append(int(given.value))
    return found


def mark_hidden(loop: ir.OpView, columns: int, *, is_hidden: bool) -> None:
    """Mark a loop whose steps of 1 are so many columns each, if what a causal mask hides of them may be left out."""
    if is_hidden:
        number = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), columns)
        loop.operation.attributes[HIDDEN] = number


def parents(op: ir.Operation) -> Iterator[ir.Operation]:
    """The ops around an op, innermost first, up to its function."""
    while op.name != "func.func":
        op = op.parent.operation
        yield op


def parent_marked(op: ir.Operation, mark: str) -> ir.Operation | None:
    """The innermost op around an op that has a mark."""
    return next((parent for parent in parents(op) if mark in parent.attributes), None)


def counter(loop: ir.Operation) -> ir.Value:
    """What a loop counts with, inside it."""
    return loop.regions[0].blocks[0].arguments[0]


def piece_start(shared: ir.Operation, mark: str, position: int) -> ir.Value:
    """First row, or column, of the piece that a marked parallel loop is at, at the insertion point inside it.

    Args:
        shared: The loop, on buffers.
        mark: Attribute that holds how many rows, or columns, a piece has.
        position: Position of that dimension among those that the loop cuts.
    """
    length = int(ir.IntegerAttr(shared.attributes[mark]).value)
    return arith.muli(list(shared.regions[0].blocks[0].arguments)[position], index(length))
