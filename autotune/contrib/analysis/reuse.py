"""Reuse distances of loops, by arithmetic: how many lines of memory lie between two uses of one; misses of a cache.

An op is taken as plain loops in their order. A line that one iteration of a loop uses and the next uses again comes
back after what one iteration touches, all operands together; a cache of so many lines, which drops what was used
longest ago, still has it. So a loop of n iterations that each touch D lines of an operand, and D' lines all together,
brings n D - D' lines back at that distance; what no loop brings back is a first touch. (K. Beyls and E. D'Hollander,
"Reuse Distance as a Metric for Cache Behavior", 2001.)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, prod

from autotune.core.ops.facts import LINE
from autotune.core.ops.op import Operand, ProgramOp


@dataclass(frozen=True)
class Reuse:
    """Accesses that come back to a line after the same distance.

    Attributes:
        lines: Lines that are touched in between, the line itself included; infinite for first touches.
        count: Number of such accesses.
    """

    lines: float
    count: float


def reuses(op: ProgramOp) -> tuple[Reuse, ...]:
    """Every access of one execution of an op by its distance, the nearest first; first touches last."""
    depth, found = len(op.sizes), []
    inner = [lines_touched(access, op.sizes, depth) for access in op.accesses]
    executions = prod(op.sizes)
    for loop in reversed(range(depth)):
        distance, executions = sum(inner), executions // op.sizes[loop]
        outer = [lines_touched(access, op.sizes, loop) for access in op.accesses]
        back = sum(op.sizes[loop] * few - many for few, many in zip(inner, outer, strict=True))
        found.append(Reuse(distance, max(0.0, back) * executions))
        inner = outer
    return (*(each for each in found if each.count), Reuse(float("inf"), sum(inner)))


def lines_touched(access: Operand, sizes: Sequence[int], outermost: int) -> float:
    """Lines of an operand that the loops from `outermost` inward touch, those around them standing still.

    What lies less than a line apart is one stretch of memory, and so are rows that are touched to their ends.
    """
    stretch = stride = access.element_bytes
    stretches = 1
    for size, terms in reversed(list(zip(access.shape, access.terms, strict=True))):
        moving = [(loop, c) for loop, c in terms if loop >= outermost]
        extent = min(size, 1 + sum(c * (sizes[loop] - 1) for loop, c in moving))
        count = min(extent, prod(sizes[loop] for loop, _ in moving))
        step = stride * (extent - 1) / max(1, count - 1)
        if stretches == 1 and step <= max(stretch, LINE):
            stretch += stride * (extent - 1)
        else:
            stretches *= count
        stride *= size
    return float(stretches * ceil(stretch / LINE))


def misses(found: Sequence[Reuse], lines: float) -> float:
    """Accesses that a cache of so many lines misses, first touches included."""
    return sum(reuse.count for reuse in found if reuse.lines > lines)


def first_touches(found: Sequence[Reuse]) -> float:
    """Lines that are touched at all."""
    return found[-1].count


def fetched(ops: Sequence[ProgramOp], lines: float) -> list[float]:
    """Lines that a cache fetches for each op in a call, after calls before it.

    What an op touches first may be there still from the ops before it: an array is, if no more lines than the cache has
    were touched since.
    """
    found = [reuses(op) for op in ops]
    recent: dict[tuple[int, int], float] = {}  # lines of every array by the order of their last use
    totals: list[float] = []
    for _ in range(2):
        totals = [0.0] * len(ops)
        for number, iteration in order(ops):
            op = ops[number]
            totals[number] += misses(found[number], lines) - first_touches(found[number])
            for access in op.accesses:
                key = (access.value, iteration if access.moves else 0)
                mine = lines_touched(access, op.sizes, 0)
                totals[number] += mine if since(recent, key) + mine > lines else 0.0
            for access in op.accesses:
                key = (access.value, iteration if access.moves else 0)
                recent[key] = max(recent.pop(key, 0.0), lines_touched(access, op.sizes, 0))
    return totals


def order(ops: Sequence[ProgramOp]) -> list[tuple[int, int]]:
    """Executions in order, as positions and iterations: ops in a row that are executed equally often share a loop."""
    found, start = [], 0
    while start < len(ops):
        end = start
        while end < len(ops) and ops[end].trips == ops[start].trips:
            end += 1
        found += [(index, i) for i in range(ops[start].trips) for index in range(start, end)]
        start = end
    return found


def since(recent: dict[tuple[int, int], float], key: tuple[int, int]) -> float:
    """Lines of the arrays that were used after one; infinite if that one never was."""
    if key not in recent:
        return float("inf")
    total = 0.0
    for other in reversed(recent):
        if other == key:
            return total
        total += recent[other]
    return total
