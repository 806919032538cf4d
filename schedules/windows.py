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
from schedules.blocking import Piece, cut
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
        nest, op, around = task.nest, "%op", ""
        for dim, (size, kind) in enumerate(zip(nest.sizes, nest.iterators, strict=True)):
            if kind == "parallel" and dim != lane and size > 1:
                op, loop = moves.tile_loop(script, op, len(nest.sizes), dim, 1)
                around = around or loop
        pieces = cut(nest.sizes[lane], 0, int(config["vectors"]) * machine.lanes, powers_of_two=True)
        parts = list(moves.split_into(script, op, lane, [piece.size for piece in pieces]))
        tiled = [tile_piece(script, part, task, piece) for part, piece in zip(parts, pieces, strict=True)]
        if around:
            tiled = [(op, around) for op in drop_unit_loops(script, [op for op, _ in tiled], around)]
        for (part, loop), piece in zip(tiled, pieces, strict=True):
            if piece.register > 1:  # a last column of its own stays a loop of scalars
                inner = drop_unit_loops(script, [part], loop) if loop and not around else [part]
                moves.vectorize(script, inner[0])
        return script.text

    def rewrites(self, task: Task, config: Config) -> Rewrites:
        """It leaves operands as they are."""
        return Rewrites()


def tile_piece(script: Script, op: str, task: Task, piece: Piece) -> tuple[str, str]:
    """Loops along the lane, and those that sum inside; consumes `op`.

    y[c] = max over k of x[k, c]   ->   for c0 step 32: for k: y[c0 : c0 + 32] = max(y[c0 : c0 + 32], x[k, ...])

    Args:
        script: Script that ops are appended to.
        op: Handle of a piece of the lane.
        task: Task that the piece is of.
        piece: Elements of the piece, and of a vector.

    Returns:
        Handles of the op, and of the outermost loop; empty where there is none.
    """
    nest, outermost = task.nest, ""
    sums = [(dim, 1, size) for dim, size in enumerate(nest.sizes) if nest.iterators[dim] == "reduction"]
    for dim, step, size in [(task.lane or 0, piece.register, piece.size), *sums]:
        if step < size:
            op, loop = moves.tile_loop(script, op, len(nest.sizes), dim, step)
            outermost = outermost or loop
            if dim != task.lane:
                moves.annotate(script, loop, SUMS)
    return op, outermost


def drop_unit_loops(script: Script, ops: list[str], loop: str) -> list[str]:
    """Drop loops of one step from all ops inside a loop; consumes `ops`. One that only moves elements stays an op.

    y[0, 0, c] = x[0, 2, c]   ->   y_[c] = x_[c]
    """
    for op in ops:
        moves.generalize(script, op)
    script.emit(
        f"transform.apply_patterns to {loop} "
        f"{{ transform.apply_patterns.linalg.fold_unit_extent_dims_via_slices }} : {moves.ANY}"
    )
    found = moves.match_inside(script, loop, "linalg.generic", stem="plain")
    if len(ops) == 1:
        return [found]
    parts = [script.fresh("part") for _ in ops]
    kinds = ", ".join([moves.ANY] * len(ops))
    script.emit(f"{', '.join(parts)} = transform.split_handle {found} : ({moves.ANY}) -> ({kinds})")
    return parts


WINDOWS = Windows()
