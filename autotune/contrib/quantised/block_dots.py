"""Schedules for products with weights in blocks that round activations to 8 bits: bytes are multiplied as bytes.

The activations of a block share a step, as its weights do. Rounded once a call, they meet the weight as it is stored, 64
bytes of a row at a time, or many rows of them in tiles of a matrix unit; the code of that is ours (`block_code.py`), as no
vector op says so.
"""

from dataclasses import dataclass

from autotune.contrib.quantised.block_marks import AHEAD as AHEAD_MARK
from autotune.contrib.quantised.block_marks import BLOCK_CODE, DOTS, TILES, UNROLL
from autotune.contrib.quantised.block_marks import ROWS as ROWS_MARK
from autotune.contrib.quantised.family import BLOCKS, dividing, sizes_of
from autotune.core.host.machine import Machine
from autotune.core.host.matrix_unit import ROWS as SIDE
from autotune.core.host.matrix_unit import cpu_flags, why_no_tiles
from autotune.core.plugs.family import Family
from autotune.core.plugs.rewrites import Rewrites
from autotune.core.space import Config, Constraint, Knob, Space
from autotune.core.task import Task
from schedules import moves
from schedules.moves import Script
from schedules.shares import LINE, even_counts, knobs_for, pieces, tile_parallel

FLAG = "avx512_vnni"
COLUMNS, ROWS, UNROLLS = (1, 2, 4, 8), (1, 2, 4), (1, 2, 4)
AHEADS = (0, 1024, 4096)  # bytes
MOST_SUMS = 16  # vectors of sums; others hold bytes, scales and masks
PANELS = (16, 32, 64, 128)  # columns


@dataclass(frozen=True)
class RoundedBlocks(Family):
    """What families have in common that round activations: whole columns, shared out among threads."""

    name: str = ""
    fallback: bool = False

    @property
    def error(self) -> float:
        """Half a step of the largest activation of a block."""
        return 0.5 / 127

    def runs_on(self, machine: Machine) -> bool:
        """Dot products are of vectors of 512 bits, tiles of as many bytes."""
        return machine.isa == "avx512f"

    def rewrites(self, task: Task, config: Config) -> Rewrites:
        """Code of ours for the marked op."""
        return Rewrites(needed=(BLOCK_CODE,))

    def shared(self, task: Task, machine: Machine) -> tuple[tuple[Knob, ...], tuple[Constraint, ...]]:
        """Pieces of columns for threads."""
        _, columns, _ = sizes_of(task.nest)
        found = tuple(each for each in even_counts(columns, machine) if columns // each % LINE == 0 or each == 1)

        def whole(config: Config) -> bool:
            return columns // pieces(config, "n") % int(config["columns"]) == 0

        return knobs_for({"n": found}), (Constraint("columns of a tile divide those of a piece", whole),)

    def default_pieces(self, task: Task, machine: Machine) -> Config:
        """As many pieces as threads."""
        knobs, _ = self.shared(task, machine)
        return {knob.name: max(int(v) for v in knob.values if int(v) <= machine.threads) for knob in knobs}

    def tiled(self, script: Script, task: Task, config: Config) -> str:
        """Loops over pieces and tiles of columns; the op inside them."""
        op, rank, (_, columns, _) = "%op", len(task.nest.sizes), sizes_of(task.nest)
        if (count := pieces(config, "n")) > 1:
            op, _ = tile_parallel(script, op, [columns // count if d == rank - 3 else 0 for d in range(rank)])
        return moves.tile_loop(script, op, rank, rank - 3, int(config["columns"]), knob="columns")[0]


@dataclass(frozen=True)
class BlockDots(RoundedBlocks):
    """The family of sums over blocks of bytes by dot products of bytes."""

    name: str = "blocks_int8"

    @property
    def lacking(self) -> str:
        """What this CPU lacks; empty if nothing."""
        return "" if FLAG in cpu_flags() else f"{self.name} needs a CPU with {FLAG}, which this one lacks"

    def covers(self, task: Task) -> bool:
        """What family ``blocks`` does."""
        return BLOCKS.covers(task)

    def space(self, task: Task, machine: Machine) -> Space:
        """Rows and columns of a register tile, sums of each, and bytes that are fetched ahead."""
        rows, columns, _ = sizes_of(task.nest)
        threads, wholes = self.shared(task, machine)
        knobs = [Knob("columns", dividing(COLUMNS, columns)), Knob("unroll", UNROLLS), Knob("ahead", AHEADS), *threads]
        if rows > 1:
            knobs.append(Knob("rows", dividing(ROWS, rows)))

        def fits(config: Config) -> bool:
            return int(config["columns"]) * int(config.get("rows", 1)) * int(config["unroll"]) <= MOST_SUMS

        return Space(tuple(knobs), (Constraint("sums of a register tile fit the registers", fits), *wholes))

    def default(self, task: Task, machine: Machine) -> Config:
        """One column with two sums, fetched ahead; four rows by two columns where there are several."""
        several = sizes_of(task.nest)[0] > 1
        wanted = {"columns": 2 if several else 1, "unroll": 1 if several else 2, "ahead": 4096, "rows": 4}
        knobs = [knob for knob in self.space(task, machine).knobs if knob.name in wanted]
        chosen = {knob.name: max(int(v) for v in knob.values if int(v) <= wanted[knob.name]) for knob in knobs}
        return {**chosen, **self.default_pieces(task, machine)}

    def build(self, task: Task, config: Config, machine: Machine) -> str:
        """A loop over tiles of columns; what is inside is marked for code of ours."""
        space = self.space(task, machine)
        space.check(config)
        script = Script(space.knobs, config)
        op = self.tiled(script, task, config)
        moves.annotate(script, op, DOTS)
        for mark, name in ((ROWS_MARK, "rows"), (UNROLL, "unroll"), (AHEAD_MARK, "ahead")):
            moves.annotate(script, op, mark, int(config.get(name, 1)))
        return script.text


@dataclass(frozen=True)
class BlockTiles(RoundedBlocks):
    """The family of sums over blocks of bytes by tiles of a matrix unit."""

    name: str = "blocks_tile_int8"

    @property
    def lacking(self) -> str:
        """Why tiles cannot be used here; empty if they can."""
        return why_no_tiles()

    def covers(self, task: Task) -> bool:
        """What family ``blocks`` does, of at least half a tile of rows and of whole tiles of columns."""
        if not BLOCKS.covers(task):
            return False
        rows, columns, _ = sizes_of(task.nest)
        return rows >= SIDE // 2 and columns % SIDE == 0

    def space(self, task: Task, machine: Machine) -> Space:
        """Columns whose bytes are unpacked at a time."""
        threads, wholes = self.shared(task, machine)
        return Space((Knob("columns", dividing(PANELS, sizes_of(task.nest)[1])), *threads), wholes)

    def default(self, task: Task, machine: Machine) -> Config:
        """Four tiles of columns, or what there is."""
        pieces_of = self.default_pieces(task, machine)
        space = self.space(task, machine)
        for count in (64, 32, 16):
            if count in space.knobs[0].values and not space.broken_constraint({"columns": count, **pieces_of}):
                return {"columns": count, **pieces_of}
        return next(space.configs())

    def build(self, task: Task, config: Config, machine: Machine) -> str:
        """A loop over panels of columns; what is inside is marked for code of ours."""
        space = self.space(task, machine)
        space.check(config)
        script = Script(space.knobs, config)
        moves.annotate(script, self.tiled(script, task, config), TILES)
        return script.text


BLOCK_DOTS, BLOCK_TILES = BlockDots(), BlockTiles()
