"""A cache, simulated: the addresses of an op's plain loops, one by one, and how often a cache of some size misses."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from autotune.contrib.analysis.reuse import misses, reuses
from autotune.core.ops.facts import LINE
from autotune.core.ops.op import Operand, ProgramOp
from autotune.core.payload import Array

MOST_POINTS = 1 << 14  # iterations of a small case
SMALLEST = 8  # lines of the smallest cache
WAYS = 8


@dataclass(frozen=True)
class Agreement:
    """A small case of an op: what was predicted beside what a simulation found.

    Attributes:
        op: Number of the op.
        sizes: Trip counts of the small case.
        accesses: Number of its accesses.
        caches: Lines of every cache that was tried.
        predicted: Misses of each by arithmetic.
        simulated: Misses of each in a cache that drops what was used longest ago.
        in_ways: Misses of each in a cache whose lines may lie in eight ways each.
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
        """Largest difference of the share of accesses that miss."""
        pairs = zip(self.predicted, self.simulated, strict=True)
        return max(abs(mine - theirs) for mine, theirs in pairs) / self.accesses

    @property
    def total(self) -> float:
        """Predicted misses of all caches over simulated ones."""
        return sum(self.predicted) / max(1, sum(self.simulated))


def compare(op: ProgramOp) -> Agreement:
    """Simulate a small case of an op, with caches from `SMALLEST` lines up to one that holds all it touches."""
    small = shrink(op)
    lines = trace(small)
    touched = len(np.unique(lines))
    caches = tuple(SMALLEST << step for step in range(max(1, int(np.ceil(np.log2(max(touched, 16) / SMALLEST))) + 1)))
    found = reuses(small)
    return Agreement(
        op.number,
        small.sizes,
        len(lines),
        caches,
        tuple(misses(found, cache) for cache in caches),
        tuple(simulate(lines, cache) for cache in caches),
        tuple(simulate(lines, cache, WAYS) for cache in caches),
    )


def shrink(op: ProgramOp) -> ProgramOp:
    """The op with its longest loops halved until it has few iterations; arrays keep their sizes in step."""
    sizes = list(op.sizes)
    while prod(sizes) > MOST_POINTS:
        longest = max(range(len(sizes)), key=lambda loop: sizes[loop])
        sizes[longest] = -(-sizes[longest] // 2)
    cut = tuple(sizes)
    operands = tuple(replace(each, shape=shape_in(each, cut)) for each in op.operands)
    captured = tuple(replace(each, shape=shape_in(each, cut)) for each in op.captured)
    return replace(op, nest=replace(op.nest, sizes=cut), operands=operands, captured=captured)


def shape_in(operand: Operand, sizes: Sequence[int]) -> tuple[int, ...]:
    """Sizes of an array of which loops of some trip counts touch all that they move along."""
    moved = zip(operand.shape, operand.terms, strict=True)
    return tuple(1 + sum(c * (sizes[loop] - 1) for loop, c in terms) if terms else size for size, terms in moved)


def trace(op: ProgramOp) -> Array:
    """Line of every access, in order; arrays lie one behind the other, each at the beginning of a line."""
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
    """Misses of a cache of so many lines that drops what was used longest ago; of sets of so many ways, if not 0."""
    sets = max(1, capacity // ways) if ways else 1
    room, missed = capacity // sets, 0
    held: list[dict[int, None]] = [{} for _ in range(sets)]
    for line in without_repeats(lines.tolist()):
        mine = held[line % sets]
        if line in mine:
            del mine[line]
        else:
            missed += 1
            if len(mine) >= room:
                del mine[next(iter(mine))]
        mine[line] = None
    return missed


def without_repeats(lines: Sequence[int]) -> Iterator[int]:
    """Lines without those that were the line before: they hit in any cache."""
    before = -1
    for line in lines:
        if line != before:
            yield line
        before = line
