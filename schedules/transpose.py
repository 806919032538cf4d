"""Family for element-wise ops with a transposed operand, such as a transpose: square tiles transposed in registers.

    y[c, h, w] = x[h, w, c]   ->   for h: for c0 step 8: for w0 step 8:  y[c0 : c0 + 8, h, w0 : w0 + 8] = ...

A square of vectors is read, transposed in registers, and written as vectors.
"""

from dataclasses import dataclass

from autotune.core.host.machine import Machine
from autotune.core.space import Config, Knob
from autotune.core.task import Task
from schedules import moves
from schedules.blocking import cut
from schedules.moves import Script
from schedules.single_op import SingleOp

SIDES = (4, 8, 16)


@dataclass(frozen=True)
class Transpose(SingleOp):
    """Element-wise ops with a transposed operand."""

    name: str = "transpose"

    def covers(self, task: Task) -> bool:
        """Return whether the task is one such op, of static shape, that can be vectorized."""
        is_single = not task.is_group and not task.grows and not task.root.gathers
        return task.root.turned is not None and task.root.vectorizes and is_single

    def knobs(self, task: Task, machine: Machine) -> tuple[Knob, ...]:
        """Return the knob for the side of a square tile."""
        return (Knob("side", SIDES),)

    def values(self, task: Task, machine: Machine) -> Config:
        """Return squares of 8 x 8: larger ones would not stay in registers."""
        return {"side": SIDES[1]}

    def write(self, script: Script, op: str, sizes: tuple[int, ...], task: Task, config: Config, *, lanes: int) -> None:
        """Tile an op into squares, and the leftovers into smaller ones."""
        row, last, side = task.root.turned or 0, len(sizes) - 1, int(config["side"])
        for dim, size in enumerate(sizes):
            if dim not in (row, last) and size > 1:
                op, _ = moves.tile_loop(script, op, len(sizes), dim, 1)
        rows, columns = (cut(sizes[dim], 0, side, powers_of_two=True) for dim in (row, last))
        for tile, strip in zip(rows, moves.split_into(script, op, row, [piece.size for piece in rows]), strict=True):
            parts = moves.split_into(script, strip, last, [piece.size for piece in columns])
            for column, part in zip(columns, parts, strict=True):
                square = part
                for dim, piece in ((row, tile), (last, column)):
                    if piece.register < piece.size:
                        square, _ = moves.tile_loop(script, square, len(sizes), dim, piece.register)
                moves.vectorize(script, square)


TRANSPOSE = Transpose()
