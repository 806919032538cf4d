"""Schedules for products with weights in blocks that round activations to 8 bits: bytes are multiplied as bytes.

The activations of a block share a step, as its weights do. Rounded once a call, they meet the weight as it is stored, 64
bytes of a row at a time; the code of that is ours (`dots_code.py`), as no vector op says so.
"""

from dataclasses import dataclass

from autotune.contrib.quantised.dots_mark import DOTS_OF_BLOCKS, MARK
from autotune.contrib.quantised.family import BLOCKS, dividing, sizes_of
from autotune.core.host.machine import Machine
from autotune.core.host.matrix_unit import cpu_flags
from autotune.core.plugs.family import Family
from autotune.core.plugs.rewrites import Rewrites
from autotune.core.space import Config, Constraint, Knob, Space
from autotune.core.task import Task
from schedules import moves
from schedules.moves import Script

FLAG = "avx512_vnni"
COLUMNS, ROWS, UNROLLS = (1, 2, 4, 8), (1, 2, 4), (1, 2, 4)
AHEAD = (0, 1024, 4096)  # bytes
MOST_SUMS = 16  # vectors of sums; others hold bytes, scales and masks


@dataclass(frozen=True)
class BlockDots(Family):
    """The family of sums over blocks of bytes by dot products of bytes."""

    name: str = "blocks_int8"
    fallback: bool = False

    @property
    def error(self) -> float:
        """Half a step of the largest activation of a block."""
        return 0.5 / 127

    @property
    def lacking(self) -> str:
        """What this CPU lacks; empty if nothing."""
        return "" if FLAG in cpu_flags() else f"{self.name} needs a CPU with {FLAG}, which this one lacks"

    def runs_on(self, machine: Machine) -> bool:
        """Dot products are of vectors of 512 bits."""
        return machine.isa == "avx512f"

    def covers(self, task: Task) -> bool:
        """What family ``blocks`` does."""
        return BLOCKS.covers(task)

    def space(self, task: Task, machine: Machine) -> Space:
        """Rows and columns of a register tile, sums of each, and bytes that are fetched ahead."""
        rows, columns, _ = sizes_of(task.nest)
        knobs = [Knob("columns", dividing(COLUMNS, columns)), Knob("unroll", UNROLLS), Knob("ahead", AHEAD)]
        if rows > 1:
            knobs.append(Knob("rows", dividing(ROWS, rows)))

        def fits(config: Config) -> bool:
            return int(config["columns"]) * int(config.get("rows", 1)) * int(config["unroll"]) <= MOST_SUMS

        return Space(tuple(knobs), (Constraint("sums of a register tile fit the registers", fits),))

    def default(self, task: Task, machine: Machine) -> Config:
        """Two columns of one row, with two sums each; four rows by two columns where there are several."""
        several = sizes_of(task.nest)[0] > 1
        wanted = {"columns": 2, "unroll": 1 if several else 2, "ahead": 0, "rows": 4}
        knobs = self.space(task, machine).knobs
        return {knob.name: max(int(v) for v in knob.values if int(v) <= wanted[knob.name]) for knob in knobs}

    def build(self, task: Task, config: Config, machine: Machine) -> str:
        """A loop over tiles of columns; what is inside is marked for code of ours."""
        space = self.space(task, machine)
        space.check(config)
        script = Script(space.knobs, config)
        rank = len(task.nest.sizes)
        op, _ = moves.tile_loop(script, "%op", rank, rank - 3, int(config["columns"]), knob="columns")
        for name in ("rows", "unroll", "ahead"):
            moves.annotate(script, op, f"{MARK}_{name}", int(config.get(name, 1)))
        return script.text

    def rewrites(self, task: Task, config: Config) -> Rewrites:
        """Code of ours for the marked op."""
        return Rewrites(needed=(DOTS_OF_BLOCKS,))


BLOCK_DOTS = BlockDots()
