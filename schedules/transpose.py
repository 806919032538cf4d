"""Family for element-wise ops with a transposed operand, such as a transpose: square tiles transposed in registers.

    y[c, h, w] = x[h, w, c]   ->
      for h: for w1 step 256: for c0 step 8: for w0 step 8 of the block:  y[c0 : c0 + 8, h, w0 : w0 + 8] = ...

A square of vectors is read, transposed in registers, and written as vectors.
"""

from dataclasses import dataclass
from math import prod

from autotune.core.host.machine import Machine
from autotune.core.space import Config, Knob
from autotune.core.task import Task
from schedules import moves
from schedules.blocking import cut
from schedules.matmul_space import BYTES
from schedules.moves import Script
from schedules.single_op import SingleOp

SIDES = (4, 8, 16)
BLOCKS = (0, 64, 128, 256)  # columns of the result that are written before the next; 0 for all


@dataclass(frozen=True)
class Transpose(SingleOp):
    """Element-wise ops with a transposed operand."""

    name: str = "transpose"

    def covers(self, task: Task) -> bool:
        """Return whether the task is one such op, of static shape, that can be vectorized."""
        is_single = not task.is_group and not task.grows and not task.root.gathers
        return task.root.turned is not None and task.root.vectorizes and is_single

    def knobs(self, task: Task, machine: Machine) -> tuple[Knob, ...]:
        """Return the knobs for the side of a square tile, and beyond L2 for the columns of a block of the result."""
        blocks = blocks_of(task, machine)
        return (Knob("side", SIDES), *([Knob("block", blocks)] if blocks else []))

    def values(self, task: Task, machine: Machine) -> Config:
        """Return squares of 8 x 8, in blocks beyond L2 if what a block reads stays there.

        Larger squares would not stay in registers. A square reads half of a cache line of each of its rows; the next
        row of squares reads the other half.
        """
        blocks, rows = blocks_of(task, machine), task.root.nest.sizes[task.root.turned or 0]
        values: Config = {"side": SIDES[1]}
        if not blocks:
            return values
        stays = BLOCKS[-1] in blocks and BYTES * rows * BLOCKS[-1] <= machine.l2_bytes // 2
        return {**values, "block": BLOCKS[-1] if stays else 0}

    def write(self, script: Script, op: str, sizes: tuple[int, ...], task: Task, config: Config, *, lanes: int) -> None:
        """Tile an op into squares, and the leftovers into smaller ones."""
        row, last, side = task.root.turned or 0, len(sizes) - 1, int(config["side"])
        for dim, size in enumerate(sizes):
            if dim not in (row, last) and size > 1:
                op, _ = moves.tile_loop(script, op, len(sizes), dim, 1)
        rows = cut(sizes[row], 0, side, powers_of_two=True)
        columns = cut(sizes[last], int(config.get("block", 0)), side, powers_of_two=True)
        parts = moves.split_into(script, op, last, [piece.size for piece in columns])
        for column, part in zip(columns, parts, strict=True):
            block = part
            if column.cache < column.size:
                block, _ = moves.tile_loop(script, part, len(sizes), last, column.cache)
            strips = moves.split_into(script, block, row, [piece.size for piece in rows])
            for tile, strip in zip(rows, strips, strict=True):
                square = strip
                for dim, step, size in ((row, tile.register, tile.size), (last, column.register, column.cache)):
                    if step < size:
                        square, _ = moves.tile_loop(script, square, len(sizes), dim, step)
                moves.vectorize(script, square)


def blocks_of(task: Task, machine: Machine) -> tuple[int, ...]:
    """Return the valid columns of a block; empty if all that the op accesses fits L2, or if blocks are too wide."""
    sizes = task.root.nest.sizes
    blocks = tuple(block for block in BLOCKS if block < sizes[-1])
    return blocks if 2 * BYTES * prod(sizes) > machine.l2_bytes and len(blocks) > 1 else ()


TRANSPOSE = Transpose()
