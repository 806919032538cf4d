"""`Simulation`: cycles of every stage and bytes of every core, for one mapping of a program to a grid."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from autotune.contrib.costs.mesh.grid import Grid
from autotune.contrib.costs.mesh.layout import Layout
from autotune.contrib.costs.mesh.mapping import Mapping
from autotune.contrib.costs.mesh.ops import HAND_OVER, OpCost, Phase, cost_of, follow
from autotune.contrib.costs.mesh.placement import CoreRegion, regions_of, transfer
from autotune.contrib.costs.mesh.program import MeshProgram, MeshUnit

Body = tuple[int, ...]


@dataclass(frozen=True)
class Simulation:
    """Simulation of a program on a grid.

    Attributes:
        program: The program.
        grid: The grid.
        mapping: Mapping of the program to the grid.
        batch: Number of pipelined calls.
        crossing: Bytes of values that are live between each unit and the next.
    """

    program: MeshProgram
    grid: Grid
    mapping: Mapping
    batch: int
    crossing: tuple[int, ...]

    @cached_property
    def regions(self) -> tuple[CoreRegion, ...]:
        """Region of each stage."""
        return regions_of(self.grid, self.mapping.stages, self.mapping.stage_rows, self.mapping.order)

    @cached_property
    def bodies(self) -> dict[Body, dict[int, OpCost]]:
        """Costs of the ops of every distinct unit; the first iteration of a loop has the layouts of the others."""
        costs: dict[Body, dict[int, OpCost]] = {}
        layouts: dict[int, Layout] = {}
        distinct = list(dict.fromkeys(unit.ops for unit in self.program.units))
        for _ in range(2):  # the second pass starts with the layouts of loop-carried values
            for body in distinct:
                costs[body] = self._walk(body, layouts)
        return costs

    def _walk(self, body: Body, layouts: dict[int, Layout]) -> dict[int, OpCost]:
        costs: dict[int, OpCost] = {}
        done: set[object] = set()
        shape = self.regions[0].shape
        for number in body:
            op = self.program.ops[number]
            spread = self.mapping.spreads.get(number) or follow(op, layouts, shape, spread=self.mapping.spread)
            costs[number] = cost_of(op, spread, grid=self.grid, region=shape, layouts=layouts, done=done)
            layouts[number] = costs[number].layout
        return costs

    @cached_property
    def body_cycles(self) -> dict[Body, float]:
        """Cycles of every distinct unit."""
        return {
            body: sum(phase.cycles for cost in costs.values() for phase in cost.phases)
            for body, costs in self.bodies.items()
        }

    @cached_property
    def stages(self) -> tuple[tuple[int, ...], ...]:
        """Units of every stage, by their positions in the program."""
        if self.mapping.balance == "time":
            weights = [self.body_cycles[unit.ops] for unit in self.program.units]
        else:
            weights = [float(sum(self.stored(unit).values())) for unit in self.program.units]
        return cut(weights, self.mapping.stages)

    def stored(self, unit: MeshUnit) -> dict[tuple[int, int, bool], int]:
        """Return the bytes of a unit's weights and caches on the fullest core, by array and iteration."""
        sizes: dict[tuple[int, int, bool], int] = {}
        for number, cost in self.bodies[unit.ops].items():
            fresh = {access.value: access.moves for access in self.program.ops[number].stored}
            for (value, gathered), size in cost.stored.items():
                key = (value, unit.iteration if fresh[value] else 0, gathered)
                sizes[key] = max(sizes.get(key, 0), size)
        return sizes

    @cached_property
    def memory(self) -> tuple[int, ...]:
        """Bytes of the fullest core of every stage: code, weights and caches, and the values of one op."""
        totals = []
        for stage in self.stages:
            stored: dict[tuple[int, int, bool], int] = {}
            values = 0
            for position in stage:
                unit = self.program.units[position]
                stored |= self.stored(unit)
                values = max(values, *(cost.values for cost in self.bodies[unit.ops].values()))
            here = {key: size for key, size in stored.items() if not (key[2] and (*key[:2], False) in stored)}
            totals.append(self.grid.program + sum(here.values()) + values * (2 if self.batch > 1 else 1))
        return tuple(totals)

    @property
    def fits(self) -> bool:
        """Whether every core has enough memory."""
        return max(self.memory) <= self.grid.memory

    @cached_property
    def hand_overs(self) -> tuple[Phase, ...]:
        """Transfers from each stage to the next."""
        transfers = []
        for number, (before, after) in enumerate(zip(self.regions, self.regions[1:], strict=False)):
            size = self.crossing[self.stages[number][-1]]
            cycles = transfer(self.grid, before, after, size)
            transfers.append(Phase(-1, HAND_OVER, cycles, size=size))
        return tuple(transfers)

    @cached_property
    def stage_cycles(self) -> tuple[float, ...]:
        """Cycles of every stage, including its transfer to the next."""
        cycles = [
            sum(self.body_cycles[self.program.units[position].ops] for position in stage) for stage in self.stages
        ]
        for number, phase in enumerate(self.hand_overs):
            cycles[number] += phase.cycles
        return tuple(cycles)

    @property
    def cycles(self) -> float:
        """Cycles of a batch, from the start of the first call to the end of the last one."""
        return pipeline(self.stage_cycles, self.batch)

    @property
    def seconds(self) -> float:
        """Seconds of a batch."""
        return self.cycles / self.grid.hertz

    @property
    def latency(self) -> float:
        """Seconds of a call."""
        return sum(self.stage_cycles) / self.grid.hertz

    def phases(self) -> list[tuple[int, int, Phase]]:
        """Return the phases of a call in order, each with its stage and unit."""
        phases = []
        for number, stage in enumerate(self.stages):
            for position in stage:
                for cost in self.bodies[self.program.units[position].ops].values():
                    phases += [(number, position, phase) for phase in cost.phases]
            if number < len(self.hand_overs):
                phases.append((number, stage[-1], self.hand_overs[number]))
        return phases

    def shares(self) -> dict[str, float]:
        """Return the share of each kind of phase in the cycles of a call."""
        cycles_by_kind: dict[str, float] = {}
        for _, _, phase in self.phases():
            cycles_by_kind[phase.kind] = cycles_by_kind.get(phase.kind, 0.0) + phase.cycles
        total = sum(cycles_by_kind.values()) or 1.0
        return {kind: cycles / total for kind, cycles in cycles_by_kind.items()}


def pipeline(stages: Sequence[float], batch: int) -> float:
    """Return the cycles of pipelined calls: the latency of the first, then the slowest stage for each further one."""
    return sum(stages) + (batch - 1) * max(stages)


def cut(weights: Sequence[float], stages: int) -> tuple[tuple[int, ...], ...]:
    """Partition a sequence of units into non-empty stages, with the least weight of the heaviest, by bisection.

    Args:
        weights: Weight of every unit.
        stages: Number of stages, at most that of units.
    """
    low, high = max(weights), sum(weights)
    for _ in range(40):
        middle = (low + high) / 2
        if len(filled(weights, middle, stages)) <= stages:
            high = middle
        else:
            low = middle
    stages_of_units = filled(weights, high, stages)
    return tuple(map(tuple, stages_of_units))


def filled(weights: Sequence[float], most: float, stages: int) -> list[list[int]]:
    """Fill stages greedily up to a weight each; the last units are split so that no stage is empty."""
    filled_stages: list[list[int]] = [[]]
    load = 0.0
    for index, weight in enumerate(weights):
        left = len(weights) - index
        if filled_stages[-1] and (load + weight > most * (1 + 1e-12) or left <= stages - len(filled_stages)):
            filled_stages.append([])
            load = 0.0
        filled_stages[-1].append(index)
        load += weight
    return filled_stages


def crossings(program: MeshProgram) -> tuple[int, ...]:
    """Return the bytes that are live between each unit and the next: computed before it, and read after it."""
    made: dict[int, int] = {}  # op -> the unit that computed it last
    last: dict[tuple[int, int], int] = {}  # op and the unit that computed it -> the last unit that reads that
    for index, unit in enumerate(program.units):
        for number in unit.ops:
            for access in program.ops[number].values:
                source = access.source
                if source is not None and made.get(source, index) != index:
                    last[source, made[source]] = index
            made[number] = index
    live = [0] * len(program.units)
    for (source, begin), end in last.items():
        op = program.ops[source]
        for index in range(begin, end):
            live[index] += op.size(op.result)
    return tuple(live)
