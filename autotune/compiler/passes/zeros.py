"""Sums that start from zero: a contraction whose C is filled with zeros first need neither fill nor read it.

A schedule marks the fill, with the number of loops over k that come first for some part of C, and those loops. As
marked, the script is right and fills; here accumulators become zeros, in the first block of k where there are several,
and fills go. What unrolling leaves over of a loop has its mark, too, and goes on with what the loop gives. If not every
marked loop is found, or something else than zeros is filled in, nothing is done.
"""

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import arith, scf

from autotune.compiler.ir.values import maker, splat_of
from autotune.compiler.passes.marked_loops import counter, marked, parent_marked
from autotune.core.scripts.marks import BLOCKS_OF_K, FROM_ZERO, ZEROS

BOUNDS = 3  # operands of a loop before what it carries


def start_from_zero(module: ir.Module) -> None:
    """Replace what the marked loops of a bufferized module read of C by zeros, in place, and erase the marked fills."""
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
    """The loops that begin with what is read, and not with what another one gives."""
    given = {value for loop in loops for value in loop.results}
    return [loop for loop in loops if not any(value in given for value in list(loop.operands)[BOUNDS:])]


def fills_zeros(fill: ir.Operation) -> bool:
    """Tell whether an op that fills does so with a constant zero, of real numbers: integers keep their fill."""
    made_by = maker(fill.operands[0])
    if made_by is None or made_by.name != "arith.constant":
        return False
    value = made_by.attributes["value"]
    return isinstance(value, ir.FloatAttr) and float(value.value) == 0.0


def carries_accumulators(loop: ir.Operation) -> bool:
    """Tell whether a loop carries vectors, and nothing else."""
    return len(loop.results) > 0 and all(isinstance(result.type, ir.VectorType) for result in loop.results)


def zero_accumulators(loop: ir.Operation) -> None:
    """Start a loop from zeros; where it is one of several over k, in the first block."""
    for number in range(len(loop.results)):
        zero_accumulator(loop, number)


def zero_accumulator(loop: ir.Operation, number: int) -> None:
    """Start one of the vectors that a loop carries from zeros."""
    kind, read = loop.results[number].type, loop.operands[BOUNDS + number]
    block = parent_marked(loop, BLOCKS_OF_K)
    with ir.InsertionPoint(loop), loop.location:
        zeros = splat_of(kind, 0.0)
        if block is None:
            loop.operands[BOUNDS + number] = zeros
            return
        first = arith.cmpi(arith.CmpIPredicate.eq, counter(block), block.operands[0])
        chosen = scf.IfOp(first, [kind], has_else=True)
        with ir.InsertionPoint(chosen.then_block):
            scf.yield_([zeros])
        with ir.InsertionPoint(chosen.else_block):
            last = scf.yield_([read])
    loop.operands[BOUNDS + number] = chosen.results[0]
    for op in made_only_for(read):
        op.move_before(last)


def made_only_for(value: ir.Value) -> Sequence[ir.Operation]:
    """Loads and inserts that build a vector which nothing else reads, in program order."""
    found: list[ir.Operation] = []
    waiting = [value]
    while waiting:
        op = maker(waiting.pop())
        if op is not None and op.name in ("vector.insert", "vector.load") and len(list(op.results[0].uses)) == 1:
            found.insert(0, op)
            waiting += reversed([v for v in op.operands if isinstance(v.type, ir.VectorType)])
    return found
