"""Software prefetch: fetch the next block of B into the caches while the current one is processed.

A schedule marks the loops of a contraction that reads B from panels: those over blocks of n and of k, the one over
strips of m, the innermost ones, and those that copy B into panels if it is packed at run time. Every innermost loop
then prefetches its share of the next block: of its panels, or of the source that will be copied into them. Prefetches
do not affect results, and addresses need not be valid.
"""

from collections.abc import Callable
from itertools import takewhile
from math import prod

from mlir import ir
from mlir.dialects import arith, memref, scf

from autotune.compiler.ir.values import constant, index, maker, trip_count
from autotune.compiler.passes.marked_loops import counter, marked, parent_marked, parents, piece_start
from autotune.core.scripts.marks import BLOCKS_OF_K, BLOCKS_OF_N, COPIES, PIECES_OF_N, PREFETCHING, STRIPS_OF_M

LINE_BYTES = 64  # cache line of x86 and most Arm cores
TO_L1, TO_L2 = 3, 2  # locality hints: into all caches, or all but the first


def prefetch_panels(function: ir.OpView, panel: ir.Value) -> None:
    """Prefetch a weight in panels, ``(..., panels, k, columns)``, in the marked loops that read it."""
    for load in [use.owner.operation for use in panel.uses]:
        loop = parent_marked(load, PREFETCHING)
        if loop is not None and load.name == "vector.load":
            del loop.attributes[PREFETCHING]  # one load is enough per loop
            prefetch_next_panel(loop, load, panel)


def prefetch_next_panel(loop: ir.Operation, load: ir.Operation, panel: ir.Value) -> None:
    """Prefetch, in an innermost loop, rows of the corresponding panel of the next block."""
    strips = parent_marked(loop, STRIPS_OF_M)
    if strips is None:
        return
    columns = ir.MemRefType(panel.type).shape[-1]
    rows = -(-length(loop) // trip_count(strips))
    with ir.InsertionPoint(loop), loop.location:
        *before, _, column = list(load.operands)[1:]  # only the index along k depends on the loop
        *lead, number = [rebuild(value, loop) for value in before]
        column = rebuild(column, loop)
        start, shift = next_block(loop)
        number = arith.addi(number, arith.divui(shift, index(columns)))
        first = arith.addi(start, arith.muli(iteration_number([strips]), index(rows)))
        line = elements_of_line(panel)

    def indices_of(of: ir.Value) -> list[ir.Value]:
        return [*lead, number, first, arith.addi(column, arith.muli(of, index(line)))]  # rows are contiguous

    prefetch_in_steps(loop, panel, -(-rows * columns // line), indices_of)


def prefetch_copied(module: ir.Module) -> None:
    """Prefetch the source that is copied into panels, in the marked loops that read the panels."""
    for loop in marked(module.operation, PREFETCHING):
        block = next((p for p in parents(loop) if BLOCKS_OF_K in p.attributes or BLOCKS_OF_N in p.attributes), None)
        copies = marked(block, COPIES) if block is not None else []
        if block is not None and copies:
            del loop.attributes[PREFETCHING]
            prefetch_next_source(loop, block, copies[0])
    for copy in marked(module.operation, COPIES):
        del copy.attributes[COPIES]


def prefetch_next_source(loop: ir.Operation, block: ir.Operation, copy: ir.Operation) -> None:
    """Prefetch, in an innermost loop, rows of B, ``(..., k, n)``, that the next block will copy."""
    loads = [op for op in copy.regions[0].blocks[0].operations if op.operation.name == "vector.load"]
    if not loads:
        return
    source, *lead = list(loads[0].operands)[:-2]
    if any(is_inside(value, block) for value in (source, *lead)):
        return
    line = elements_of_line(source)
    outer = copy.parent.operation
    columns = length(outer) if outer != block else ir.VectorType(loads[0].results[0].type).shape[-1]
    lines_a_row = -(-columns // line)
    nest = list(takewhile(lambda parent: parent != block, parents(loop)))
    rows = -(-length(copy) // prod(trip_count(each) for each in nest))
    n_block = parent_marked(loop, BLOCKS_OF_N)
    with ir.InsertionPoint(loop), loop.location:
        start, shift = next_block(loop)
        column = arith.addi(counter(n_block), shift) if n_block is not None else shift
        if (shared := parent_marked(loop, PIECES_OF_N)) is not None:
            column = arith.addi(column, piece_start(shared, PIECES_OF_N, -1))
        first = arith.addi(start, arith.muli(iteration_number(nest), index(rows)))

    def indices_of(of: ir.Value) -> list[ir.Value]:
        row, within = arith.divui(of, index(lines_a_row)), arith.remui(of, index(lines_a_row))
        return [*lead, arith.addi(first, row), arith.addi(column, arith.muli(within, index(line)))]

    prefetch_in_steps(loop, source, rows * lines_a_row, indices_of)


def next_block(loop: ir.Operation) -> tuple[ir.Value, ir.Value]:
    """Build the first k of the block after the current one, and its distance in columns from the current one."""
    k_block, n_block = parent_marked(loop, BLOCKS_OF_K), parent_marked(loop, BLOCKS_OF_N)
    step = index(constant(n_block.operands[2]) if n_block is not None else 0)
    if k_block is None:
        return index(0), step
    after = arith.addi(counter(k_block), k_block.operands[2])
    ended = arith.cmpi(arith.CmpIPredicate.uge, after, k_block.operands[1])
    return arith.select(ended, index(0), after), arith.select(ended, step, index(0))


def iteration_number(nest: list[ir.Operation]) -> ir.Value:
    """Build the linear iteration number of nested loops, given innermost first."""
    number = index(0)
    for loop in reversed(nest):
        done = arith.subi(counter(loop), loop.operands[0])
        number = arith.addi(arith.muli(number, index(trip_count(loop))), arith.divui(done, loop.operands[2]))
    return number


def prefetch_in_steps(
    loop: ir.Operation, array: ir.Value, lines: int, indices_of: Callable[[ir.Value], list[ir.Value]]
) -> None:
    """Prefetch `lines` cache lines, spread over the iterations of a loop.

    Prefetching all at once would occupy every line fill buffer of the core, and stall the loads of the loop.

    Args:
        loop: Loop with constant bounds.
        array: Memref to prefetch.
        lines: Number of cache lines.
        indices_of: Builder of the indices of a line, given its number.
    """
    lines_a_step = -(-lines // trip_count(loop))
    with ir.InsertionPoint.at_block_begin(loop.regions[0].blocks[0]), loop.location:
        done = arith.muli(iteration_number([loop]), index(lines_a_step))
        some_left = scf.IfOp(arith.cmpi(arith.CmpIPredicate.ult, done, index(lines)))
        with ir.InsertionPoint(some_left.then_block):
            for i in range(lines_a_step):
                memref.prefetch(array, indices_of(arith.addi(done, index(i))), False, TO_L2, True)
            scf.yield_([])


def elements_of_line(array: ir.Value) -> int:
    """Return the number of elements of a memref in one cache line."""
    return LINE_BYTES * 8 // int(ir.MemRefType(array.type).element_type.width)


def length(loop: ir.Operation) -> int:
    """Return the difference between the constant bounds of a loop."""
    return constant(loop.operands[1]) - constant(loop.operands[0])


def is_inside(value: ir.Value, loop: ir.Operation) -> bool:
    """Return whether a value is defined by an op in a loop."""
    made_by = maker(value)
    return made_by is not None and any(parent == loop for parent in parents(made_by))


def rebuild(value: ir.Value, loop: ir.Operation) -> ir.Value:
    """Clone the computation of a loop-invariant value at the insertion point."""
    made_by = maker(value)
    if made_by is None or not is_inside(value, loop):
        return value
    operands = [rebuild(v, loop) for v in made_by.operands]
    clone = made_by.clone()
    for i, operand in enumerate(operands):
        clone.operands[i] = operand
    return clone.results[0]
