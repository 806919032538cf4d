"""Traffic of one call: bytes over every link of a grid, in both directions between neighbouring cores.

Links are indexed by the core on their left or upper side. Arrays are updated by rectangular slices, so that a million
links take milliseconds.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.contrib.costs.mesh.collective import LINKS
from autotune.contrib.costs.mesh.ops import COPY, EXCHANGE, GATHER, SUM
from autotune.contrib.costs.mesh.placement import CoreRegion
from autotune.contrib.costs.mesh.simulate import Simulation

Bytes = npt.NDArray[np.float64]
PASSES = {SUM: "sum", GATHER: "gather", EXCHANGE: "exchange", COPY: "copy"}


@dataclass(frozen=True)
class Traffic:
    """Bytes over links.

    Attributes:
        across: Bytes between a core and its right neighbour, both ways, of shape (rows, columns - 1).
        along: Bytes between a core and the one below, both ways, of shape (rows - 1, columns).
    """

    across: Bytes
    along: Bytes

    @property
    def by_core(self) -> Bytes:
        """Bytes over the links of every core: (rows, columns)."""
        totals = np.zeros((self.across.shape[0], self.along.shape[1]))
        totals[:, :-1] += self.across
        totals[:, 1:] += self.across
        totals[:-1] += self.along
        totals[1:] += self.along
        return totals

    @property
    def busiest(self) -> float:
        """Bytes over the busiest link."""
        return max(float(each.max(initial=0.0)) for each in (self.across, self.along))


def traffic_of(simulation: Simulation) -> Traffic:
    """Return the traffic of one call."""
    grid = simulation.grid
    traffic = Traffic(np.zeros((grid.rows, grid.columns - 1)), np.zeros((grid.rows - 1, grid.columns)))
    for number, _, phase in simulation.phases():
        region = simulation.regions[number]
        if phase.kind in PASSES:
            load = LINKS[PASSES[phase.kind]](phase.cores, phase.size)
            if phase.axis == 0:
                rows = slice(region.row, region.row + phase.cores - 1)
                traffic.along[rows, region.column : region.column + phase.lines] += load
            else:
                columns = slice(region.column, region.column + phase.cores - 1)
                traffic.across[region.row : region.row + phase.lines, columns] += load
        elif phase.axis < 0 and phase.size:
            route(traffic, region, simulation.regions[number + 1], phase.size)
    return traffic


def route(traffic: Traffic, before: CoreRegion, after: CoreRegion, size: float) -> None:
    """Add a transfer from every core to the corresponding one of another region, by XY routing, to the traffic."""
    each = size / (before.height * before.width)
    move = after.column - before.column
    rows = slice(before.row, before.row + before.height)
    starts = np.arange(before.column, before.column + before.width)
    traffic.across[rows] += each * passed(starts, move, traffic.across.shape[1])
    move = after.row - before.row
    columns = slice(after.column, after.column + after.width)
    starts = np.arange(before.row, before.row + before.height)
    traffic.along[:, columns] += each * passed(starts, move, traffic.along.shape[0])[:, None]


def passed(starts: npt.NDArray[np.int64], move: int, links: int) -> Bytes:
    """Return the number of moves over each link of a line, from each start over the same distance.

    Computed as the prefix sum of the number of moves that start or end at each link.
    """
    change = np.zeros(links + 1)
    low, high = np.minimum(starts, starts + move), np.maximum(starts, starts + move)
    np.add.at(change, low, 1.0)
    np.add.at(change, high, -1.0)
    return np.cumsum(change)[:links]
