"""LRU cache simulation of the addresses of an operation's unscheduled loop nest, to check predicted misses."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from autotune.contrib.analysis.reuse import misses, reuses
from autotune.core.ops.facts import LINE
from autotune.core.ops.op import Operand, ProgramOp
from autotune.core.payload import Array

MOST_POINTS = 1 << 14  # maximum number of iterations of a small case
SMALLEST = 8  # capacity of the smallest simulated cache, in lines
WAYS = 8


@dataclass(frozen=True)
class Agreement:
    """Predicted and simulated cache misses of a small case of an operation.

    Attributes:
        op: Number of the operation.
        sizes: Trip counts of the small case.
        accesses: Number of its accesses.
        caches: Capacities of the caches, in lines.
        predicted: Misses per cache by reuse distances.
        simulated: Misses per cache of a fully associative LRU cache.
        in_ways: Misses per cache of an eight-way set-associative LRU cache.
    """

    op: int
    sizes: tuple[int, ...]
    accesses: int
    caches: tuple[int, ...]
    predicted: tuple[float, ...]
    simulated: tuple[int, ...]
    in_ways: tuple[int, ...]

    @property
    def worst(self) -> float:
        """Largest absolute difference between predicted and simulated miss rate."""
        pairs = zip(self.predicted, self.simulated, strict=True)
        return max(abs(mine - theirs) for mine, theirs in pairs) / self.accesses

    @property
    def total(self) -> float:
        """Ratio of predicted to simulated misses, summed over all caches."""
        return sum(self.predicted) / max(1, sum(self.simulated))


def compare(op: ProgramOp) -> Agreement:
    """Simulate a small case of an operation with caches from `SMALLEST` lines up to one that holds all of its lines."""
    small = shrink(op)
    lines = trace(small)
    touched = len(np.unique(lines))
    caches = tuple(SMALLEST << step for step in range(max(1, int(np.ceil(np.log2(max(touched, 16) / SMALLEST))) + 1)))
    distances = reuses(small)
    return Agreement(
        op.number,
        small.sizes,
        len(lines),
        caches,
        tuple(misses(distances, cache) for cache in caches),
        tuple(simulate(lines, cache) for cache in caches),
        tuple(simulate(lines, cache, WAYS) for cache in caches),
    )


def shrink(op: ProgramOp) -> ProgramOp:
    """Halve the longest loops of an operation until at most `MOST_POINTS` iterations are left; shrink its arrays."""
    sizes = list(op.sizes)
    while prod(sizes) > MOST_POINTS:
        longest = max(range(len(sizes)), key=lambda loop: sizes[loop])
        sizes[longest] = -(-sizes[longest] // 2)
    cut = tuple(sizes)
    operands = tuple(replace(each, shape=shape_in(each, cut)) for each in op.operands)
    captured = tuple(replace(each, shape=shape_in(each, cut)) for each in op.captured)
    return replace(op, nest=replace(op.nest, sizes=cut), operands=operands, captured=captured)


def shape_in(operand: Operand, sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the shape of the part of an operand that loops of the given trip counts index."""
    indexed = zip(operand.shape, operand.terms, strict=True)
    return tuple(1 + sum(c * (sizes[loop] - 1) for loop, c in terms) if terms else size for size, terms in indexed)


def trace(op: ProgramOp) -> Array:
    """Return the cache line of every access in program order; arrays are laid out consecutively, aligned to lines."""
    loops = np.indices(op.sizes).reshape(len(op.sizes), -1)
    columns, start = [], 0
    for access in op.accesses:
        offset = np.zeros(loops.shape[1], np.int64)
        stride = access.element_bytes
        for size, terms in reversed(list(zip(access.shape, access.terms, strict=True))):
            for loop, coefficient in terms:
                offset += stride * coefficient * loops[loop]
            stride *= size
        columns.append(start + offset // LINE)
        start += -(-stride // LINE)
    return np.stack(columns, axis=1).reshape(-1)


def simulate(lines: Array, capacity: int, ways: int = 0) -> int:
    """Count the misses of an LRU cache.

    Args:
        lines: Cache line of every access, in order.
        capacity: Capacity of the cache in lines.
        ways: Associativity; 0 for a fully associative cache.
    """
    sets = max(1, capacity // ways) if ways else 1
    room, missed = capacity // sets, 0
    cache_sets: list[dict[int, None]] = [{} for _ in range(sets)]
    # A dict keeps insertion order, so the first key of a set is the least recently used line.
    for line in without_repeats(lines.tolist()):
        cache_set = cache_sets[line % sets]
        if line in cache_set:
            del cache_set[line]
        else:
            missed += 1
            if len(cache_set) >= room:
                del cache_set[next(iter(cache_set))]
        cache_set[line] = None
    return missed


def without_repeats(lines: Sequence[int]) -> Iterator[int]:
    """Yield the lines without immediate repetitions, which hit in any cache."""
    before = -1
    for line in lines:
        if line != before:
            yield line
        before = line
