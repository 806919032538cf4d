"""Element-wise ops of which an operand lies the other way round, such as a transpose: turned square by square.

    y[c, h, w] = x[h, w, c]   ->   for h: for c0 step 8: for w0 step 8:  y[c0 : c0 + 8, h, w0 : w0 + 8] = ...

A square of vectors is read, turned in registers, and written as vectors.
"""

from dataclasses import dataclass

from autotune.core.host.machine import Machine
from autotune.core.plugs.family import Family
from autotune.core.plugs.rewrites import Rewrites
from autotune.core.space import Config, Knob, Space
from autotune.core.task import Task
from schedules import moves
from schedules.blocking import cut
from schedules.functions import choose_functions, function_defaults, function_knobs
from schedules.moves import Script
from schedules.shares import knobs_for, outer_counts, outer_default, share_outer

SIDES = (4, 8, 16)


@dataclass(frozen=True)
class Squares(Family):
    """The family for element-wise ops that read an operand along another loop than they write."""

    name: str = "turned"
    fallback: bool = False

    def covers(self, task: Task) -> bool:
        """Every such op of known loops that stands alone and becomes vectors as it is."""
        alone = not task.members and not task.grows and not task.gathers
        return task.turned is not None and task.vectorizes and alone

    def space(self, task: Task, machine: Machine) -> Space:
        """Side of a square."""
        shares = knobs_for({"m": outer_counts(task.nest, len(task.nest.sizes) - 1, machine)})
        return Space((Knob("side", SIDES), *function_knobs(task), *shares), ())

    def default(self, task: Task, machine: Machine) -> Config:
        """Squares of 8 x 8: more would not stay in registers."""
        shares = outer_default(task.nest, len(task.nest.sizes) - 1, machine)
        return {"side": SIDES[1], **function_defaults(task), **shares}

    def build(self, task: Task, config: Config, machine: Machine) -> str:
        """Cut ``%op`` into squares, and what they leave over into smaller ones."""
        space, turned = self.space(task, machine), task.turned or 0
        space.check(config)
        side = int(config["side"])
        script, last = Script(space.knobs, config), len(task.nest.sizes) - 1
        choose_functions(script, config, "%op")
        op, sizes = share_outer(script, "%op", task.nest, last, config)
        for dim, size in enumerate(sizes):
            if dim not in (turned, last) and size > 1:
                op, _ = moves.tile_loop(script, op, len(sizes), dim, 1)
        rows, columns = (cut(sizes[dim], 0, side, powers_of_two=True) for dim in (turned, last))
        for row, strip in zip(rows, moves.split_into(script, op, turned, [piece.size for piece in rows]), strict=True):
            parts = moves.split_into(script, strip, last, [piece.size for piece in columns])
            for column, part in zip(columns, parts, strict=True):
                square = part
                for dim, piece in ((turned, row), (last, column)):
                    if piece.register < piece.size:
                        square, _ = moves.tile_loop(script, square, len(sizes), dim, piece.register)
                moves.vectorize(script, square)
        return script.text

    def rewrites(self, task: Task, config: Config) -> Rewrites:
        """It leaves operands as they are."""
        return Rewrites()


TURNED = Squares()
