"""Software prefetch of rows: fetch the next block of rows into the caches while the current one is processed.

A group of row-wise ops passes over its rows several times. Only the first pass accesses memory, unless a later pass
prefetches the rows of the next block.
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
    """Prefetch the next block of rows in marked loops, at the last load of every column range of an argument.

    If the loop is marked so, outputs of later passes are prefetched there, too.
    """
    for loop in marked(module.operation, NEXT_ROWS):
        del loop.attributes[NEXT_ROWS]
        loads = accesses(loop, "vector.load", 0)
        stores = accesses(loop, "vector.store", 1) if WRITTEN_ROWS in loop.attributes else []
        last_loads = {(argument, part_of(load)): load for argument, load in loads if of_row(load, loop)}
        for (argument, _), load in last_loads.items():
            prefetch_below(load, loop)
            for written in dict.fromkeys(w for w, store in stores if store.block != load.block):
                if written.type == argument.type:
                    prefetch_here(load, written)


def accesses(loop: ir.Operation, name: str, number: int) -> list[tuple[ir.Value, ir.Operation]]:
    """Return ops by name in a loop whose operand `number` is (a subview of) a block argument, with that argument."""
    wholes = ((whole_of(op.operands[number]), op) for op in every_op(loop) if op.name == name)
    return [(whole, op) for whole, op in wholes if maker(whole) is None]


def whole_of(value: ir.Value) -> ir.Value:
    """Return the memref behind a chain of subviews."""
    made_by = maker(value)
    return whole_of(made_by.operands[0]) if made_by is not None and made_by.name == "memref.subview" else value


def part_of(load: ir.Operation) -> tuple[int, ...] | ir.Value:
    """Return a key of the columns that a load reads: its constant column, or the bounds of its loop."""
    column = load.operands[-1]
    if is_constant(column):
        return (constant(column),)
    if maker(column) is None and all(map(is_constant, list(column.owner.owner.operands)[:2])):
        return tuple(constant(bound) for bound in list(column.owner.owner.operands)[:2])
    return column


def of_row(load: ir.Operation, loop: ir.Operation) -> bool:
    """Return whether a load has several indices, the first of which depends on a loop over rows."""
    return maker(load.operands[0]) is None and len(load.operands) > 2 and depends(load.operands[1], counter(loop))


def prefetch_below(load: ir.Operation, loop: ir.Operation) -> None:
    """Prefetch the cache lines of a load, one step of the loop over rows further down."""
    source, row, *others = load.operands
    with ir.InsertionPoint(load), load.location:
        below = arith.addi(row, index(constant(loop.operands[2])))
        for column in columns_of_lines(load):
            memref.prefetch(source, [below, *others[:-1], column], False, TO_L1, True)


def prefetch_here(load: ir.Operation, written: ir.Value) -> None:
    """Prefetch the cache lines at a load's indices in another array, for writing."""
    with ir.InsertionPoint(load), load.location:
        for column in columns_of_lines(load):
            memref.prefetch(written, [*list(load.operands)[1:-1], column], True, TO_L1, True)


def columns_of_lines(load: ir.Operation) -> Iterator[ir.Value]:
    """Build the column of every cache line of a load, at the insertion point."""
    width = ir.VectorType(load.results[0].type).shape[-1]
    for start in range(0, width, elements_of_line(load.operands[0])):
        yield arith.addi(load.operands[-1], index(start))
