"""Software prefetch of rows: while one block of rows is worked on, the next one comes into the caches.

A group of row-wise ops passes over its rows several times. Memory is busy in the first pass alone, unless a later one
fetches what the next block will begin with.
"""

from mlir import ir
from mlir.dialects import arith, memref

from autotune.ir.loops import constant, counter, marked
from autotune.ir.prefetch import TO_L2, elements_of_line
from autotune.ir.values import index, maker
from autotune.script import NEXT_ROWS


def prefetch_rows(module: ir.Module) -> None:
    """At the last load of each argument in the marked loops, fetch what that loads a block of rows further down."""
    for loop in marked(module.operation, NEXT_ROWS):
        del loop.attributes[NEXT_ROWS]
        last: dict[ir.Value, ir.Operation] = {}

        def see(op: ir.Operation, last: dict[ir.Value, ir.Operation] = last) -> ir.WalkResult:
            if op.name == "vector.load" and maker(op.operands[0]) is None:
                last[op.operands[0]] = op
            return ir.WalkResult.ADVANCE

        loop.walk(see, ir.WalkOrder.PRE_ORDER)
        for load in last.values():
            prefetch_below(load, loop)


def prefetch_below(load: ir.Operation, loop: ir.Operation) -> None:
    """Fetch the lines of a load as many rows further down as a step of the loop takes, if its first index is a row."""
    source, row, *others = load.operands
    if not others or not depends(row, counter(loop)):
        return
    width = ir.VectorType(load.results[0].type).shape[-1]
    with ir.InsertionPoint(load), load.location:
        below = arith.addi(row, index(constant(loop.operands[2])))
        for start in range(0, width, elements_of_line(source)):
            column = arith.addi(others[-1], index(start))
            memref.prefetch(source, [below, *others[:-1], column], False, TO_L2, True)


def depends(value: ir.Value, on: ir.Value) -> bool:
    """Tell whether a value is computed from another one."""
    made_by = maker(value)
    return value == on or (made_by is not None and any(depends(operand, on) for operand in made_by.operands))
