"""Cycles of collectives along a line of cores: broadcast, reduce, all-reduce, all-gather, exchange.

A message of m bytes takes ``m / link_bytes`` cycles to pass a link, reaches each further core `hop_cycles` later, and
each core that adds to it takes another `core_cycles`. Reductions follow Luczynski et al., "Near-Optimal Wafer-Scale
Reduce" (arXiv:2404.15888): the fastest of a chain, a tree, and two-phase chains for the message size.
"""

import math
from collections.abc import Callable

from autotune.contrib.costs.mesh.grid import Grid

Sum = Callable[[Grid, int, float], float]


def words(grid: Grid, size: float) -> float:
    """Return the cycles that a message of `size` bytes takes to pass a link."""
    return math.ceil(size / grid.link_bytes) if size > 0 else 0


def broadcast(grid: Grid, cores: int, size: float) -> float:
    """Return the cycles of a broadcast from an end of a line; routers forward and deliver simultaneously."""
    if cores < 2 or size <= 0:
        return 0.0
    return words(grid, size) + (cores - 1) * grid.hop_cycles + grid.core_cycles


def chain(grid: Grid, cores: int, size: float) -> float:
    """Return the cycles of a chain reduction: each core adds its message to the passing sum, one message a link."""
    return words(grid, size) + (cores - 1) * (grid.hop_cycles + grid.core_cycles)


def tree(grid: Grid, cores: int, size: float) -> float:
    """Return the cycles of a tree reduction: a message for each level on the last links, few dependent additions."""
    levels = math.ceil(math.log2(cores))
    return levels * (words(grid, size) + grid.core_cycles) + (cores - 1) * grid.hop_cycles


def two_phase(grid: Grid, cores: int, size: float) -> float:
    """Return the cycles of a two-phase reduction: along chains of about sqrt(cores), then their ends."""
    length = math.isqrt(cores - 1) + 1
    groups = math.ceil(cores / length)
    return 2 * words(grid, size) + (cores - 1) * grid.hop_cycles + (length + groups - 2) * grid.core_cycles


SUMS: dict[str, Sum] = {"chain": chain, "tree": tree, "two-phase": two_phase}


def reduce(grid: Grid, cores: int, size: float) -> float:
    """Return the cycles of the fastest reduction of a message of every core of a line to one end."""
    if cores < 2 or size <= 0:
        return 0.0
    return min(way(grid, cores, size) for way in SUMS.values())


def allreduce(grid: Grid, cores: int, size: float) -> float:
    """Return the cycles of a reduction over a line, followed by a broadcast of the sum."""
    return reduce(grid, cores, size) + broadcast(grid, cores, size)


def gather(grid: Grid, cores: int, size: float) -> float:
    """Return the cycles of an all-gather: every core of a line receives the parts of all others.

    Args:
        grid: The grid.
        cores: Number of cores of the line.
        size: Bytes of the whole value. The link at an end passes all parts except that of its own core.
    """
    if cores < 2 or size <= 0:
        return 0.0
    return words(grid, size * (cores - 1) / cores) + (cores - 1) * grid.hop_cycles + grid.core_cycles


def exchange(grid: Grid, cores: int, size: float) -> float:
    """Return the cycles of a redistribution of parts among the cores of a line; at worst, halves are swapped."""
    if cores < 2 or size <= 0:
        return 0.0
    return words(grid, size / 2) + (cores - 1) * grid.hop_cycles + grid.core_cycles


LINKS: dict[str, Callable[[int, float], float]] = {  # average or largest bytes over a link of the line
    "sum": lambda cores, size: 2 * size,
    "copy": lambda cores, size: size,
    "gather": lambda cores, size: size * (cores - 1) / cores,
    "exchange": lambda cores, size: size / 2,
}
