"""Start accumulators from zero: a contraction whose C is filled with zeros need neither fill nor load C.

A schedule marks the fill, with the number of loops over k that are the first for some tile of C, and those loops. The
marked program is correct as it is; here accumulators are initialized to zeros, only in the first block of k if there
are several, and fills are erased. The remainder loop of an unrolled loop has the mark too, but continues with the
results of the main loop. If the number of loops differs, or the fill is not of zeros, nothing is changed.
"""

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import arith, scf

from autotune.compiler.ir.values import maker, splat_of
from autotune.compiler.passes.marked_loops import counter, marked, parent_marked
from autotune.core.scripts.marks import BLOCKS_OF_K, FROM_ZERO, ZEROS

BOUNDS = 3  # operands of scf.for before its iter_args


def start_from_zero(module: ir.Module) -> None:
    """Initialize accumulators of marked loops of a bufferized module to zeros, and erase the marked fills, in place."""
    fills, loops = marked(module.operation, ZEROS), first_loops(marked(module.operation, FROM_ZERO))
    wanted = sum(int(ir.IntegerAttr(fill.attributes[ZEROS]).value) for fill in fills)
    sound = len(loops) == wanted and all(map(carries_accumulators, loops)) and all(map(fills_zeros, fills))
    if not sound:
        return
    for loop in loops:
        zero_accumulators(loop)
    for fill in fills:
        fill.erase()


def first_loops(loops: Sequence[ir.Operation]) -> list[ir.Operation]:
    """Return the loops whose initial values are not results of another of the loops."""
    results = {value for loop in loops for value in loop.results}
    return [loop for loop in loops if not any(value in results for value in list(loop.operands)[BOUNDS:])]


def fills_zeros(fill: ir.Operation) -> bool:
    """Return whether a fill is with a constant zero of a float type; integers keep their fill."""
    made_by = maker(fill.operands[0])
    if made_by is None or made_by.name != "arith.constant":
        return False
    value = made_by.attributes["value"]
    return isinstance(value, ir.FloatAttr) and float(value.value) == 0.0


def carries_accumulators(loop: ir.Operation) -> bool:
    """Return whether a loop carries vectors, and nothing else."""
    return len(loop.results) > 0 and all(isinstance(result.type, ir.VectorType) for result in loop.results)


def zero_accumulators(loop: ir.Operation) -> None:
    """Initialize the accumulators of a loop to zeros, only in the first block of k if there are several."""
    for number in range(len(loop.results)):
        zero_accumulator(loop, number)


def zero_accumulator(loop: ir.Operation, number: int) -> None:
    """Initialize one loop-carried vector to zeros."""
    vector_type, initial = loop.results[number].type, loop.operands[BOUNDS + number]
    block = parent_marked(loop, BLOCKS_OF_K)
    with ir.InsertionPoint(loop), loop.location:
        zeros = splat_of(vector_type, 0.0)
        if block is None:
            loop.operands[BOUNDS + number] = zeros
            return
        first = arith.cmpi(arith.CmpIPredicate.eq, counter(block), block.operands[0])
        branch = scf.IfOp(first, [vector_type], has_else=True)
        with ir.InsertionPoint(branch.then_block):
            scf.yield_([zeros])
        with ir.InsertionPoint(branch.else_block):
            last = scf.yield_([initial])
    loop.operands[BOUNDS + number] = branch.results[0]
    for op in made_only_for(initial):
        op.move_before(last)


def made_only_for(value: ir.Value) -> Sequence[ir.Operation]:
    """Return the loads and inserts that build a vector, and have no other uses, in program order."""
    ops: list[ir.Operation] = []
    waiting = [value]
    while waiting:
        op = maker(waiting.pop())
        if op is not None and op.name in ("vector.insert", "vector.load") and len(list(op.results[0].uses)) == 1:
            ops.insert(0, op)
            waiting += reversed([v for v in op.operands if isinstance(v.type, ir.VectorType)])
    return ops
