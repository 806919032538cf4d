"""Element-wise ops that read neighbours, in steps, or at places that repeat: pools, depthwise convolutions, resizes.

    y[c, h, w] = max(x[c, 2 h, 2 w], x[c, 2 h, 2 w + 1], ...)
      ->   for c: for h: for w0 step 32:  y[c, h, w0 : w0 + 32] = lanes of x[c, 2 h, 2 w0 : 2 w0 + 64], ...

Tiles are left as ops, and marked: a rewrite of ours makes vectors of them (``passes/stencil.py``).
"""

from dataclasses import dataclass
from math import lcm

from autotune.core.host.machine import Machine
from autotune.core.plugs.family import Family
from autotune.core.plugs.rewrites import Rewrites
from autotune.core.scripts.marks import STENCIL as MARK
from autotune.core.space import Config, Constraint, Knob, Space
from autotune.core.task import Task
from schedules import moves
from schedules.blocking import vectors_up_to
from schedules.functions import choose_functions, function_defaults, function_knobs
from schedules.moves import Script
from schedules.shares import knobs_for, outer_counts, outer_default, outer_loop, share_outer

ROWS = (1, 2, 4)
VECTORS = (1, 2, 4, 8)
MOST_VECTORS = 16  # machine vectors in one tile


@dataclass(frozen=True)
class Stencils(Family):
    """The family for element-wise ops of which a tile reads more, or less, than its own elements."""

    name: str = "stencil"
    fallback: bool = False

    def covers(self, task: Task) -> bool:
        """Every such op that stands alone."""
        return bool(task.periods) and not task.members and not task.grows and not task.gathers

    def space(self, task: Task, machine: Machine) -> Space:
        """Rows and vectors of a tile."""
        sizes, periods = task.nest.sizes, task.periods
        rows = (r for r in ROWS if len(sizes) > 1 and sizes[-2] % r == 0 and (r == 1 or r % periods[-2] == 0))
        knobs = (Knob("rows", tuple(rows) or ROWS[:1]), Knob("vectors", vectors_of(task, machine)))

        def small(config: Config) -> bool:
            vectors = -(-width(task, int(config["vectors"]), machine) // machine.lanes)
            return int(config["rows"]) == 1 or int(config["rows"]) * vectors <= MOST_VECTORS

        small_tile = f"a tile of several rows has at most {MOST_VECTORS} machine vectors"
        return Space(
            (*knobs, *function_knobs(task), *knobs_for({"m": shared(task, machine)})), (Constraint(small_tile, small),)
        )

    def default(self, task: Task, machine: Machine) -> Config:
        """One row, four vectors of it."""
        count = vectors_up_to(4, vectors_of(task, machine))
        shares = outer_default(task.nest, len(task.nest.sizes) - 1, machine) if len(shared(task, machine)) > 1 else {}
        return {"rows": 1, "vectors": count, **function_defaults(task), **shares}

    def build(self, task: Task, config: Config, machine: Machine) -> str:
        """Cut ``%op`` into tiles, and mark them."""
        space = self.space(task, machine)
        space.check(config)
        script, last = Script(space.knobs, config), len(task.nest.sizes) - 1
        choose_functions(script, config, "%op")
        op, sizes = share_outer(script, "%op", task.nest, last, config)
        step = min(width(task, int(config["vectors"]), machine), sizes[last])
        whole = sizes[last] // step * step
        pieces = [size for size in (whole, sizes[last] - whole) if size]
        tile = [*(task.periods[d] if task.periods[d] == task.nest.sizes[d] else 1 for d in range(last)), step]
        if last:
            tile[-2] = max(tile[-2], int(config["rows"]))
        for size, part in zip(pieces, moves.split_into(script, op, last, pieces), strict=True):
            inside = part
            for dim, (all_of_it, length) in enumerate(zip((*sizes[:last], size), tile, strict=True)):
                if length < all_of_it:
                    knob = "rows" if dim == last - 1 else ""
                    inside, _ = moves.tile_loop(script, inside, len(sizes), dim, length, knob=knob)
            moves.annotate(script, inside, MARK, machine.lanes)
        return script.text

    def rewrites(self, task: Task, config: Config) -> Rewrites:
        """It leaves operands as they are."""
        return Rewrites()


def width(task: Task, vectors: int, machine: Machine) -> int:
    """Elements of a tile along the last loop: whole vectors, and whole periods."""
    return vectors * lcm(machine.lanes, task.periods[-1])


def vectors_of(task: Task, machine: Machine) -> tuple[int, ...]:
    """Numbers of vectors, or of what whole periods make of them, that a row has room for; one at least."""
    return tuple(v for v in VECTORS if v == 1 or width(task, v, machine) <= task.nest.sizes[-1])


def shared(task: Task, machine: Machine) -> tuple[int, ...]:
    """Numbers of equal pieces of the outer loop that begin where a tile may."""
    last = len(task.nest.sizes) - 1
    dim = outer_loop(task.nest, last)
    if dim is None or task.periods[dim] > 1:
        return (1,)
    return outer_counts(task.nest, last, machine)


STENCIL = Stencils()
