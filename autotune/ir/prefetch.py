"""Software prefetch: while one block of a weight is worked on, the next one comes into the caches.

A schedule marks the loops of a contraction that reads its B from panels: those over blocks of n and of k, the one over
strips of m, and the innermost ones. Every strip then fetches its share of the block that is next. Prefetches do not
change what is computed, and may point anywhere.
"""

from mlir import ir
from mlir.dialects import arith, memref, scf

from autotune.ir.loops import constant, parent_marked, parents, trip_count
from autotune.ir.values import maker
from autotune.script import BLOCKS_OF_K, BLOCKS_OF_N, PREFETCHING, STRIPS_OF_M

LINE_BYTES = 64  # of x86, and of most Arm cores
TO_L2 = 2  # locality hint: 3 is into all caches, 0 into none


def prefetch_panels(function: ir.OpView, panel: ir.Value) -> None:
    """Insert prefetches of one weight that lies in panels, ``(..., panels, k, columns)``, before the marked loops."""
    for load in [use.owner.operation for use in panel.uses]:
        loop = parent_marked(load, PREFETCHING)
        if loop is not None and load.name == "vector.load":
            del loop.attributes[PREFETCHING]  # one load stands for all of a loop
            prefetch_next_block(loop, load, panel)


def prefetch_next_block(loop: ir.Operation, load: ir.Operation, panel: ir.Value) -> None:
    """In an innermost loop, fetch rows of the panel that the next block has in this one's place, a few lines a step.

    All of them at once would keep every line buffer of the core waiting for memory, and with them what the loop reads.
    """
    strips = parent_marked(loop, STRIPS_OF_M)
    if strips is None:
        return
    columns = ir.MemRefType(panel.type).shape[-1]
    k_block, n_block = parent_marked(loop, BLOCKS_OF_K), parent_marked(loop, BLOCKS_OF_N)
    depth = constant(loop.operands[1]) - constant(loop.operands[0])
    rows = -(-depth // trip_count(strips))
    with ir.InsertionPoint(loop), loop.location:
        *before, _, column = list(load.operands)[1:]  # the index along k is the only one that the loop changes
        *lead, number = [rebuild(value, loop) for value in before]
        column = rebuild(column, loop)
        start = index(0)
        if k_block is not None:
            after = arith.addi(k_block.regions[0].blocks[0].arguments[0], k_block.operands[2])
            ended = arith.cmpi(arith.CmpIPredicate.uge, after, k_block.operands[1])
            start = arith.select(ended, index(0), after)
        if n_block is not None:
            following = arith.addi(number, index(constant(n_block.operands[2]) // columns))
            number = arith.select(ended, following, number) if k_block is not None else following
        strip = arith.divui(strips.regions[0].blocks[0].arguments[0], strips.operands[2])
        first = arith.addi(start, arith.muli(strip, index(rows)))
        prefetch_in_steps(loop, panel, [*lead, number, first, column], rows * columns)


def prefetch_in_steps(loop: ir.Operation, panel: ir.Value, place: list[ir.Value], elements: int) -> None:
    """Fetch so many elements from a place on, which lie one after the other, spread over the steps of a loop."""
    line = LINE_BYTES * 8 // int(ir.MemRefType(panel.type).element_type.width)
    lines_a_step = -(-elements // line // trip_count(loop))
    body = loop.regions[0].blocks[0]
    with ir.InsertionPoint.at_block_begin(body), loop.location:
        steps = arith.divui(arith.subi(body.arguments[0], loop.operands[0]), loop.operands[2])
        done = arith.muli(steps, index(lines_a_step * line))
        some_left = scf.IfOp(arith.cmpi(arith.CmpIPredicate.ult, done, index(elements)))
        with ir.InsertionPoint(some_left.then_block):
            for i in range(lines_a_step):
                ahead = arith.addi(done, index(i * line))
                memref.prefetch(panel, [*place[:-1], arith.addi(place[-1], ahead)], False, TO_L2, True)
            scf.yield_([])


def rebuild(value: ir.Value, loop: ir.Operation) -> ir.Value:
    """A value computed in a loop, but not from it, computed again at the insertion point."""
    made_by = maker(value)
    if made_by is None or not any(parent == loop for parent in parents(made_by)):
        return value
    operands = [rebuild(v, loop) for v in made_by.operands]
    clone = made_by.clone()
    for i, operand in enumerate(operands):
        clone.operands[i] = operand
    return clone.results[0]


def index(value: int) -> ir.Value:
    """A constant."""
    return arith.constant(ir.IndexType.get(), value)
