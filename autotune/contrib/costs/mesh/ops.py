"""Cost of one op on a region of cores: redistribution of its operands, computation, and reductions.

Weights and caches stay distributed over the cores; values are moved along rows or columns of cores. Communication and
computation do not overlap.
"""

from dataclasses import dataclass

from autotune.contrib.costs.mesh.collective import allreduce, broadcast, exchange, gather
from autotune.contrib.costs.mesh.grid import Grid
from autotune.contrib.costs.mesh.layout import AXES, NOWHERE, Layout, Spread, dimension_of
from autotune.contrib.costs.mesh.program import MeshOp
from autotune.core.ops.op import Operand

COMPUTE, SUM, GATHER, EXCHANGE, COPY, HAND_OVER = "compute", "sum", "gather", "exchange", "copy", "hand over"
KINDS = (COMPUTE, SUM, GATHER, EXCHANGE, COPY, HAND_OVER)

Shape = tuple[int, int]


@dataclass(frozen=True)
class Phase:
    """A phase of an op: computation or a collective.

    Attributes:
        op: Number of the op; -1 for a transfer between units.
        kind: One of `KINDS`.
        cycles: Cycles that it takes.
        axis: Axis of cores of the collective; -1 for none.
        cores: Number of cores of a line.
        lines: Number of parallel lines.
        size: Bytes of the message on a line.
    """

    op: int
    kind: str
    cycles: float
    axis: int = -1
    cores: int = 0
    lines: int = 0
    size: float = 0.0


@dataclass(frozen=True)
class OpCost:
    """Cost of an op on a region.

    Attributes:
        phases: Phases in order.
        layout: Layout of its result.
        stored: Bytes of weights and caches on the fullest core, by array.
        values: Bytes of operands and result on that core.
    """

    phases: tuple[Phase, ...]
    layout: Layout
    stored: dict[tuple[int, bool], int]
    values: int


@dataclass(frozen=True)
class Move:
    """Redistribution of a value along an axis before an op can read it.

    Attributes:
        access: Operand of the op.
        axis: Axis of the cores.
        kind: `GATHER` or `EXCHANGE`.
        needs: Dimension to be distributed over the axis; `None` for replication.
    """

    access: Operand
    axis: int
    kind: str
    needs: int | None

    @property
    def key(self) -> tuple[int | None, int, str, int | None, tuple[int, ...]]:
        """Key that is equal for redistributions with the same result."""
        return self.access.source, self.axis, self.kind, self.needs, self.access.shape


def follow(op: MeshOp, layouts: dict[int, Layout], region: Shape, *, spread: bool) -> Spread:
    """Distribute an op like its operands: like the one distributed over most axes, and of those the largest.

    Args:
        op: The op.
        layouts: Layouts of values by the op that computes them.
        region: Rows and columns of cores.
        spread: Whether the longest remaining loop is distributed over an axis along which operands are replicated.
    """
    chosen: list[int | None] = [None, None]
    plain = [access for access in op.values if not access.viewed]
    for access in sorted(plain, key=lambda access: (-spread_of(access, layouts), -op.size(access))):
        for axis, dim in enumerate(layouts.get(access.source or 0, NOWHERE).dims):
            if dim is not None and chosen[axis] is None and len(access.terms[dim]) == 1:
                ((loop, _),) = access.terms[dim]
                chosen[axis] = loop if loop not in chosen else None
    sizes = op.facts.sizes
    left = [loop for loop in range(len(sizes)) if loop not in chosen and loop not in op.reduced and sizes[loop] > 1]
    if not plain and op.values and left:  # reshaped operands only: the outermost loop, such as heads
        chosen[1] = left.pop(0)
    for axis in sorted(AXES, key=lambda axis: -region[axis]):
        if left and chosen[axis] is None and (spread or not op.values):
            chosen[axis] = max(left, key=lambda loop: sizes[loop])
            left = [loop for loop in left if loop != chosen[axis]]
    return Spread((chosen[0], chosen[1]))


def spread_of(access: Operand, layouts: dict[int, Layout]) -> int:
    """Return the number of axes that a value is distributed over."""
    return sum(dim is not None for dim in layouts.get(access.source or 0, NOWHERE).dims)


def moves_of(op: MeshOp, spread: Spread, layouts: dict[int, Layout]) -> list[Move]:
    """Return the redistributions that an op needs before it can compute."""
    moves = []
    for access in op.values:
        have = layouts.get(access.source or 0, NOWHERE)
        for axis in AXES:
            dim, needs = have.dims[axis], dimension_of(access.terms, spread.loops[axis])
            if dim is None or (dim == needs and not access.viewed):
                continue
            moves.append(Move(access, axis, GATHER if needs is None else EXCHANGE, needs))
    return moves


def cost_of(
    op: MeshOp, spread: Spread, *, grid: Grid, region: Shape, layouts: dict[int, Layout], done: set[object]
) -> OpCost:
    """Return the cost of an op on a region.

    Args:
        op: The op.
        spread: Distribution of the op.
        grid: The grid.
        region: Rows and columns of cores.
        layouts: Layouts of values by the op that computes them.
        done: Keys of earlier redistributions; those of this op are added.
    """
    sizes = op.facts.sizes
    local, parts = spread.local(sizes, region), spread.parts(sizes, region)
    lines = tuple(region[axis] if spread.loops[axis] is None else parts[axis] for axis in AXES)
    phases: list[Phase] = []
    for move in moves_of(op, spread, layouts):
        if move.key not in done:
            done.add(move.key)
            have = layouts[move.access.source or 0]
            cores = region[move.axis] if move.needs is None else max(have.parts[move.axis], parts[move.axis])
            size = op.size(move.access) / have.parts[1 - move.axis]
            way = gather if move.kind == GATHER else exchange
            cycles = way(grid, cores, size)
            phases.append(Phase(op.facts.number, move.kind, cycles, move.axis, cores, lines[1 - move.axis], size))
    for access in op.stored:
        if access.gathered:  # gathered rows are broadcast from the core that has them
            for axis in AXES:
                size = op.size(access) / parts[1 - axis]
                cycles = broadcast(grid, lines[axis], size)
                phases.append(Phase(op.facts.number, COPY, cycles, axis, lines[axis], lines[1 - axis], size))
    phases.append(Phase(op.facts.number, COMPUTE, compute(grid, op, local)))
    result = op.result
    for axis, loop in enumerate(spread.loops):
        if loop in op.reduced:
            size = op.size(result, local)
            cycles = allreduce(grid, parts[axis], size)
            phases.append(Phase(op.facts.number, SUM, cycles, axis, parts[axis], lines[1 - axis], size))
    first, second = (dimension_of(result.terms, loop) for loop in spread.loops)
    stored = {
        (access.value, access.gathered): op.size(access, local)
        if not access.gathered
        else -(-op.whole(access) // (region[0] * region[1]))
        for access in op.stored
    }
    values = sum(op.size(access, local) for access in (*op.values, result))
    layout = Layout((first, second), (parts[0] if first is not None else 1, parts[1] if second is not None else 1))
    return OpCost(tuple(phase for phase in phases if phase.cycles > 0), layout, stored, values)


def compute(grid: Grid, op: MeshOp, local: tuple[int, ...]) -> float:
    """Return the cycles of the core with the most work, the maximum of its arithmetic and memory bounds."""
    share = 1.0
    for mine, whole in zip(local, op.facts.sizes, strict=True):
        share *= mine / whole
    touched = sum(op.size(access, local) for access in (*op.reads, op.result))
    return grid.task_cycles + max(op.facts.arithmetic * share / grid.flops, touched / grid.memory_bytes)
