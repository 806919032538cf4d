"""Analytic reuse distances of loop nests, in cache lines, and the cache misses that follow from them.

An operation is modelled as its loop nest in order, without a schedule. A line that two consecutive iterations of a loop
access is reused at the distance of all lines that one iteration touches, over all operands; an LRU cache of that many
lines still holds it. A loop of n iterations that touch D lines of an operand each, and D' lines in total, therefore
reuses n D - D' lines at that distance; an access that no loop reuses is a first touch. (K. Beyls and E. D'Hollander,
"Reuse Distance as a Metric for Cache Behavior", 2001.)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, prod

from autotune.core.ops.facts import LINE
from autotune.core.ops.op import Operand, ProgramOp


@dataclass(frozen=True)
class Reuse:
    """Accesses with the same reuse distance.

    Attributes:
        lines: Reuse distance: lines touched in between, including the line itself; infinite for first touches.
        count: Number of such accesses.
    """

    lines: float
    count: float


def reuses(op: ProgramOp) -> tuple[Reuse, ...]:
    """Return the reuses of one execution of an operation, innermost loop first, then the first touches."""
    depth, distances = len(op.sizes), []
    inner = [lines_touched(access, op.sizes, depth) for access in op.accesses]
    executions = prod(op.sizes)
    for loop in reversed(range(depth)):
        distance, executions = sum(inner), executions // op.sizes[loop]
        outer = [lines_touched(access, op.sizes, loop) for access in op.accesses]
        back = sum(op.sizes[loop] * few - many for few, many in zip(inner, outer, strict=True))
        distances.append(Reuse(distance, max(0.0, back) * executions))
        inner = outer
    return (*(each for each in distances if each.count), Reuse(float("inf"), sum(inner)))


def lines_touched(access: Operand, sizes: Sequence[int], outermost: int) -> float:
    """Return the number of lines of an operand that the loops from `outermost` inward touch, with outer loops fixed.

    Elements less than a line apart form one contiguous stretch, and so do rows that are touched to their ends.
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


def misses(reuses: Sequence[Reuse], lines: float) -> float:
    """Return the number of misses of an LRU cache with the given number of lines, including first touches."""
    return sum(reuse.count for reuse in reuses if reuse.lines > lines)


def first_touches(reuses: Sequence[Reuse]) -> float:
    """Return the number of distinct lines touched."""
    return reuses[-1].count


def fetched(ops: Sequence[ProgramOp], lines: float) -> list[float]:
    """Return the number of lines that a cache fetches for each operation in a call, in the steady state.

    The first touches of an array hit if the array and all lines touched since its last use fit in the cache. The calls
    are simulated twice, and the second one is counted.
    """
    distances = [reuses(op) for op in ops]
    recent: dict[tuple[int, int], float] = {}  # lines of every array by the order of their last use
    totals: list[float] = []
    for _ in range(2):
        totals = [0.0] * len(ops)
        for number, iteration in order(ops):
            op = ops[number]
            totals[number] += misses(distances[number], lines) - first_touches(distances[number])
            for access in op.accesses:
                key = (access.value, iteration if access.moves else 0)
                touched = lines_touched(access, op.sizes, 0)
                totals[number] += touched if since(recent, key) + touched > lines else 0.0
            for access in op.accesses:
                key = (access.value, iteration if access.moves else 0)
                recent[key] = max(recent.pop(key, 0.0), lines_touched(access, op.sizes, 0))
    return totals


def order(ops: Sequence[ProgramOp]) -> list[tuple[int, int]]:
    """Return the executions in order, as pairs of operation index and iteration.

    Consecutive operations with the same trip count are assumed to share a loop.
    """
    executions, start = [], 0
    while start < len(ops):
        end = start
        while end < len(ops) and ops[end].trips == ops[start].trips:
            end += 1
        executions += [(index, i) for i in range(ops[start].trips) for index in range(start, end)]
        start = end
    return executions


def since(recent: dict[tuple[int, int], float], key: tuple[int, int]) -> float:
    """Return the number of lines of the arrays used after the array `key`; infinity if that was never used."""
    if key not in recent:
        return float("inf")
    total = 0.0
    for other in reversed(recent):
        if other == key:
            return total
        total += recent[other]
    return total
