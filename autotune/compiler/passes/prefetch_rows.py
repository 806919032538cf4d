"""Software prefetch of rows: while one block of rows is worked on, the next one comes into the caches.

A group of row-wise ops passes over its rows several times. Memory is busy in the first pass alone, unless a later one
fetches what the next block will begin with.
"""

from collections.abc import Iterator

from mlir import ir
from mlir.dialects import arith, memref

from autotune.compiler.ir.module import every_op
from autotune.compiler.ir.values import constant, depends, index, is_constant, maker
from autotune.compiler.passes.marked_loops import counter, marked
from autotune.compiler.passes.prefetch import TO_L1, elements_of_line
from autotune.core.scripts.marks import NEXT_ROWS, WRITTEN_ROWS


def prefetch_rows(module: ir.Module) -> None:
    """At the last load of every part of an argument in the marked loops, fetch what that loads a block of rows below.

    Where the loop says so, what later passes write is fetched there, too.
    """
    for loop in marked(module.operation, NEXT_ROWS):
        del loop.attributes[NEXT_ROWS]
        loads = accesses(loop, "vector.load", 0)
        stores = accesses(loop, "vector.store", 1) if WRITTEN_ROWS in loop.attributes else []
        last = {(argument, part_of(load)): load for argument, load in loads if of_row(load, loop)}
        for (argument, _), load in last.items():
            prefetch_below(load, loop)
            for written in dict.fromkeys(w for w, store in stores if store.block != load.block):
                if written.type == argument.type:
                    prefetch_here(load, written)


def accesses(loop: ir.Operation, name: str, number: int) -> list[tuple[ir.Value, ir.Operation]]:
    """Ops of a name under a loop whose operand `number` is an argument of the function, or a part of one; with that."""
    wholes = ((whole_of(op.operands[number]), op) for op in every_op(loop) if op.name == name)
    return [(whole, op) for whole, op in wholes if maker(whole) is None]


def whole_of(value: ir.Value) -> ir.Value:
    """What a view is a view of."""
    made_by = maker(value)
    return whole_of(made_by.operands[0]) if made_by is not None and made_by.name == "memref.subview" else value


def part_of(load: ir.Operation) -> tuple[int, ...] | ir.Value:
    """Which columns a load runs over: the one it begins at, or the bounds of its loop; equal for loads of the same."""
    column = load.operands[-1]
    if is_constant(column):
        return (constant(column),)
    if maker(column) is None and all(map(is_constant, list(column.owner.owner.operands)[:2])):
        return tuple(constant(bound) for bound in list(column.owner.owner.operands)[:2])
    return column


def of_row(load: ir.Operation, loop: ir.Operation) -> bool:
    """Tell whether the first of several indices of a load is a row of the loop's block."""
    return maker(load.operands[0]) is None and len(load.operands) > 2 and depends(load.operands[1], counter(loop))


def prefetch_below(load: ir.Operation, loop: ir.Operation) -> None:
    """Fetch the lines of a load as many rows further down as a step of the loop takes."""
    source, row, *others = load.operands
    with ir.InsertionPoint(load), load.location:
        below = arith.addi(row, index(constant(loop.operands[2])))
        for column in columns_of_lines(load):
            memref.prefetch(source, [below, *others[:-1], column], False, TO_L1, True)


def prefetch_here(load: ir.Operation, written: ir.Value) -> None:
    """Fetch the lines of another array where a load is, to be written."""
    with ir.InsertionPoint(load), load.location:
        for column in columns_of_lines(load):
            memref.prefetch(written, [*list(load.operands)[1:-1], column], True, TO_L1, True)


def columns_of_lines(load: ir.Operation) -> Iterator[ir.Value]:
    """The last index of every cache line of a load, at the insertion point."""
    width = ir.VectorType(load.results[0].type).shape[-1]
    for start in range(0, width, elements_of_line(load.operands[0])):
        yield arith.addi(load.operands[-1], index(start))
