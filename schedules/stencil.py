"""Family for element-wise ops that read neighbours, with strides or periodic indices: pooling, depthwise, resize.

    y[c, h, w] = max(x[c, 2 h, 2 w], x[c, 2 h, 2 w + 1], ...)
      ->   for c: for h: for w0 step 32:  y[c, h, w0 : w0 + 32] = lanes of x[c, 2 h, 2 w0 : 2 w0 + 64], ...

Tiles stay ops and are marked: a custom pass vectorizes them (``passes/stencil.py``).
"""

from dataclasses import dataclass
from math import lcm

from autotune.core.host.machine import Machine
from autotune.core.ops.traversal import INDICES
from autotune.core.scripts.marks import STENCIL as MARK
from autotune.core.space import Config, Constraint, Knob, largest_up_to
from autotune.core.task import Task
from schedules import moves
from schedules.moves import Script
from schedules.shares import outer_loop
from schedules.single_op import SingleOp

ROWS = (1, 2, 4)
VECTORS = (1, 2, 4, 8)
MOST_VECTORS = 16  # vector registers per tile
BYTE, BYTES_OF_F32 = "i8", 4


@dataclass(frozen=True)
class Stencils(SingleOp):
    """Element-wise ops that read neighbours, strided elements or repeated elements."""

    name: str = "stencil"

    def covers(self, task: Task) -> bool:
        """Return whether the task is a single such op."""
        return bool(task.root.periods) and not task.is_group and not task.grows and not task.root.gathers

    def knobs(self, task: Task, machine: Machine) -> tuple[Knob, ...]:
        """Return the knobs for rows and vectors of a tile."""
        sizes, periods = task.nest.sizes, task.root.periods
        rows = (r for r in ROWS if len(sizes) > 1 and sizes[-2] % r == 0 and (r == 1 or r % periods[-2] == 0))
        return (Knob("rows", tuple(rows) or ROWS[:1]), Knob("vectors", vectors_of(task, machine)))

    def constraints(self, task: Task, machine: Machine) -> tuple[Constraint, ...]:
        """Return the constraint that a tile of several rows fits the registers."""

        def small(config: Config) -> bool:
            lanes = lanes_of(task, machine.lanes)
            vectors = -(-width(task, int(config["vectors"]), lanes) // lanes)
            return int(config["rows"]) == 1 or int(config["rows"]) * vectors <= MOST_VECTORS

        return (Constraint(f"a tile of several rows has at most {MOST_VECTORS} machine vectors", small),)

    def values(self, task: Task, machine: Machine) -> Config:
        """Return tiles of one row and four vectors, or as many as fit."""
        return {"rows": 1, "vectors": largest_up_to(4, vectors_of(task, machine))}

    def counts(self, task: Task, machine: Machine) -> tuple[int, ...]:
        """Return the numbers of equal pieces of the outer loop that start at a tile boundary."""
        dim = outer_loop(task.nest, len(task.nest.sizes) - 1)
        return (1,) if dim is None or task.root.periods[dim] > 1 else super().counts(task, machine)

    def write(self, script: Script, op: str, sizes: tuple[int, ...], task: Task, config: Config, *, lanes: int) -> None:
        """Tile an op and mark the tiles."""
        last, lanes = len(sizes) - 1, lanes_of(task, lanes)
        step = min(width(task, int(config["vectors"]), lanes), sizes[last])
        whole = sizes[last] // step * step
        pieces = [size for size in (whole, sizes[last] - whole) if size]
        tile = [*(task.root.periods[d] if task.root.periods[d] == task.nest.sizes[d] else 1 for d in range(last)), step]
        if last:
            tile[-2] = max(tile[-2], int(config["rows"]))
        for size, part in zip(pieces, moves.split_into(script, op, last, pieces), strict=True):
            tiled_op = part
            for dim, (all_of_it, length) in enumerate(zip((*sizes[:last], size), tile, strict=True)):
                if length < all_of_it:
                    knob = "rows" if dim == last - 1 else ""
                    tiled_op, _ = moves.tile_loop(script, tiled_op, len(sizes), dim, length, knob=knob)
            moves.annotate(script, tiled_op, MARK, lanes)


def width(task: Task, vectors: int, lanes: int) -> int:
    """Return the length of a tile along the last loop in elements: whole vectors and whole periods."""
    return vectors * lcm(lanes, task.root.periods[-1])


def vectors_of(task: Task, machine: Machine) -> tuple[int, ...]:
    """Return the numbers of vectors, each rounded up to whole periods, that fit a row; at least one."""
    lanes = lanes_of(task, machine.lanes)
    return tuple(v for v in VECTORS if v == 1 or width(task, v, lanes) <= task.nest.sizes[-1])


def lanes_of(task: Task, lanes: int) -> int:
    """Return the lanes of a vector of the op's element type, given those of f32: i8 has four times as many."""
    dtypes = {each.dtype for each in task.root.operands}
    dtypes |= {dtype for step in task.root.body if step.name not in INDICES for dtype in step.dtypes}
    return BYTES_OF_F32 * lanes if dtypes <= {BYTE, "i1"} else lanes


STENCIL = Stencils()
