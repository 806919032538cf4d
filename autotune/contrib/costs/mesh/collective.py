"""What moves along a line of cores, in cycles: copies, sums, gatherings, exchanges.

A message of m bytes takes ``m / link_bytes`` cycles to pass a link, each core further on sees it `hop_cycles` later,
and each core that adds its own takes `core_cycles` besides. Sums follow Luczynski et al., "Near-Optimal Wafer-Scale
Reduce" (arXiv:2404.15888): of a chain, a tree, and chains of chains, the fastest for the size is taken.
"""

import math
from collections.abc import Callable

from autotune.contrib.costs.mesh.grid import Grid

Sum = Callable[[Grid, int, float], float]


def words(grid: Grid, size: float) -> float:
    """Cycles that a message takes to pass a link."""
    return math.ceil(size / grid.link_bytes) if size > 0 else 0


def broadcast(grid: Grid, cores: int, size: float) -> float:
    """Copy a message from an end of a line to all of its cores; routers pass it on and hand it down at once."""
    if cores < 2 or size <= 0:
        return 0.0
    return words(grid, size) + (cores - 1) * grid.hop_cycles + grid.core_cycles


def chain(grid: Grid, cores: int, size: float) -> float:
    """Sum along a line, each core adding its own to what passes: one message a link."""
    return words(grid, size) + (cores - 1) * (grid.hop_cycles + grid.core_cycles)


def tree(grid: Grid, cores: int, size: float) -> float:
    """Sum by halves: a message for each level through the links at the end, few additions in a row."""
    levels = math.ceil(math.log2(cores))
    return levels * (words(grid, size) + grid.core_cycles) + (cores - 1) * grid.hop_cycles


def two_phase(grid: Grid, cores: int, size: float) -> float:
    """Sum along chains of about the square root of the line, then along their ends."""
    length = math.isqrt(cores - 1) + 1
    groups = math.ceil(cores / length)
    return 2 * words(grid, size) + (cores - 1) * grid.hop_cycles + (length + groups - 2) * grid.core_cycles


SUMS: dict[str, Sum] = {"chain": chain, "tree": tree, "two-phase": two_phase}


def reduce(grid: Grid, cores: int, size: float) -> float:
    """Sum a message of every core of a line into one end, the fastest way."""
    if cores < 2 or size <= 0:
        return 0.0
    return min(way(grid, cores, size) for way in SUMS.values())


def allreduce(grid: Grid, cores: int, size: float) -> float:
    """Sum a message of every core of a line, and copy the sum to all of them."""
    return reduce(grid, cores, size) + broadcast(grid, cores, size)


def gather(grid: Grid, cores: int, size: float) -> float:
    """Give every core of a line the whole of what they hold a part each of.

    Args:
        grid: The grid.
        cores: Cores of the line.
        size: Bytes of the whole. The link at an end passes all parts but its own core's.
    """
    if cores < 2 or size <= 0:
        return 0.0
    return words(grid, size * (cores - 1) / cores) + (cores - 1) * grid.hop_cycles + grid.core_cycles


def exchange(grid: Grid, cores: int, size: float) -> float:
    """Give every core of a line another part of what they hold a part each of: at worst halves are swapped."""
    if cores < 2 or size <= 0:
        return 0.0
    return words(grid, size / 2) + (cores - 1) * grid.hop_cycles + grid.core_cycles


LINKS: dict[str, Callable[[int, float], float]] = {  # bytes that a link of the line passes, on average or at most
    "sum": lambda cores, size: 2 * size,
    "copy": lambda cores, size: size,
    "gather": lambda cores, size: size * (cores - 1) / cores,
    "exchange": lambda cores, size: size / 2,
}
