"""Ops that read windows, such as pooling, depthwise convolutions, patches of a convolution: vectors along one loop.

All loops but that one go by ones; what is left of the op is vectors that lie side by side, in every operand.
"""

from dataclasses import dataclass

from autotune.core.family import Rewrites
from autotune.core.machine import Machine
from autotune.core.marks import SUMS
from autotune.core.space import Config, Knob, Space
from autotune.core.task import Task
from schedules import moves
from schedules.blocking import cut
from schedules.functions import choose_functions, function_defaults, function_knobs
from schedules.moves import Script

VECTORS = (1, 2, 4, 8, 16)


@dataclass(frozen=True)
class Windows:
    """The family for ops of which one loop alone becomes vectors."""

    name: str = "windows"
    fallback: bool = False

    def covers(self, task: Task) -> bool:
        """Every op with such a loop that does not vectorize as it is."""
        return task.lane is not None and not task.vectorizes and not task.members and not task.grows

    def space(self, task: Task, machine: Machine) -> Space:
        """Vectors computed at a time."""
        fitting = tuple(v for v in VECTORS if v * machine.lanes <= task.nest.sizes[task.lane or 0]) or VECTORS[:1]
        return Space((Knob("vectors", fitting), *function_knobs(task)), ())

    def default(self, task: Task, machine: Machine) -> Config:
        """Four vectors, or what there is."""
        vectors = self.space(task, machine).knobs[0].values
        return {"vectors": max(v for v in vectors if int(v) <= 4), **function_defaults(task)}

    def build(self, task: Task, config: Config, machine: Machine) -> str:
        """Cut the loop of ``%op`` into pieces that vectors divide, and each piece into vectors."""
        space = self.space(task, machine)
        space.check(config)
        script, lane = Script(space.knobs, config), task.lane or 0
        choose_functions(script, config, "%op")
        pieces = cut(task.nest.sizes[lane], 0, int(config["vectors"]) * machine.lanes, powers_of_two=True)
        parts = moves.split_into(script, "%op", lane, [piece.size for piece in pieces])
        for piece, part in zip(pieces, parts, strict=True):
            write_piece(script, part, task, (piece.size, piece.register))
        return script.text

    def rewrites(self, task: Task, config: Config) -> Rewrites:
        """It leaves operands as they are."""
        return Rewrites()


def write_piece(script: Script, op: str, task: Task, piece: tuple[int, int]) -> None:
    """Loops of ones around vectors of one piece of the lane; those that sum are innermost. Consumes `op`.

    y[i, c] = max over k of x[2 i + k, c]   ->   for i: for c0 step 32: for k: y[i, c0 : c0 + 32] = max(..., x[...])

    Args:
        script: Script that ops are appended to.
        op: Handle of the piece.
        task: Task that the piece is of.
        piece: Elements of the piece along the lane, and of a vector.
    """
    nest, lane, (size, width) = task.nest, task.lane or 0, piece
    rank, outermost = len(nest.sizes), ""
    steps = [(dim, 1) for dim, kind in enumerate(nest.iterators) if kind == "parallel" and dim != lane]
    sums = [(dim, 1) for dim, kind in enumerate(nest.iterators) if kind == "reduction"]
    for dim, step in [*steps, (lane, width), *sums]:
        if step < (size if dim == lane else nest.sizes[dim]):
            op, loop = moves.tile_loop(script, op, rank, dim, step)
            outermost = outermost or loop
            if nest.iterators[dim] == "reduction" or not sums:
                moves.annotate(script, loop, SUMS)
    if width == 1:
        return  # a last column of its own stays a loop of scalars
    if outermost:
        op = drop_unit_loops(script, op, outermost)
    moves.vectorize(script, op)


def drop_unit_loops(script: Script, op: str, loop: str) -> str:
    """Drop loops of one step from an op inside a loop; consumes `op`. One that only moves elements stays an op.

    y[0, 0, c] = x[0, 2, c]   ->   y_[c] = x_[c]
    """
    moves.generalize(script, op)
    script.emit(
        f"transform.apply_patterns to {loop} "
        f"{{ transform.apply_patterns.linalg.fold_unit_extent_dims_via_slices }} : {moves.ANY}"
    )
    return moves.match_inside(script, loop, "linalg.generic", stem="plain")


WINDOWS = Windows()
