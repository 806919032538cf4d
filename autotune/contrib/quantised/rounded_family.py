"""Families for products with block-quantized weights that round activations to 8 bits and multiply i8 by i8.

The activations of a block share a scale, as its weights do. They are rounded once per call and multiplied with the
weight as stored, 64 bytes of a row at a time, or many rows of it in tiles of a matrix unit. A custom pass lowers the
products (`block_code.py`), as no vector op expresses them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from autotune.contrib.quantised.block_marks import (
    AHEAD,
    DEPTH,
    DOTS,
    FROM_ZERO,
    PIECE,
    STREAMS,
    TILES,
    UNROLL,
    WIDENED_TILES,
)
from autotune.contrib.quantised.block_marks import ROWS as ROWS_MARK
from autotune.contrib.quantised.by_columns import ByOwnCode, column_loop, dividing, sizes_of
from autotune.contrib.quantised.family import BLOCKS, UNROLLS, tile_knobs
from autotune.core.host.machine import Machine
from autotune.core.host.matrix_unit import ROWS as SIDE
from autotune.core.host.matrix_unit import cpu_flags, lacking_flags, why_no_tiles
from autotune.core.precision import TILE_BF16
from autotune.core.scripts.marks import BY_TILES, ZEROS
from autotune.core.space import Config, Constraint, Knob, Space, largest_up_to
from autotune.core.task import Task
from schedules import moves
from schedules.moves import Script
from schedules.row_blocks import starts_from_zero

FLAG = "avx512_vnni"
COLUMNS, ROWS = (1, 2, 4, 8), (1, 2, 4)
MOST_SUMS = 16  # accumulator registers; the others hold bytes, scales and masks
PANELS = (16, 32, 64, 128)  # columns
WIDEST_PANEL = 256  # columns, if the panel is tiled along k
DEPTHS = (0, 512, 1024, 2048, 4096)  # elements of k per piece whose activations stay in L2; 0 for all
PIECES = (0, 256, 512, 1024)  # elements of k per piece of which L1 holds two tiles of columns; 0 for all
WORD, FLOAT = 2, 4  # bytes per element in bf16, and per element of the result


@dataclass(frozen=True)
class RoundedBlocks(ByOwnCode):
    """Base of the families that round activations."""

    @property
    def error(self) -> float:
        """Relative rounding error: half a step of a block's largest activation."""
        return 0.5 / 127

    def runs_on(self, machine: Machine) -> bool:
        """Return whether the machine has 512-bit vectors."""
        return machine.isa == "avx512f"


@dataclass(frozen=True)
class BlockDots(RoundedBlocks):
    """Products with a block-quantized weight, activations quantized to int8; for few rows."""

    name: str = "blocks_int8"

    @property
    def lacking(self) -> str:
        """CPU feature that this machine lacks; empty if none."""
        return lacking_flags(self.name, [FLAG], cpu_flags())

    def covers(self, task: Task) -> bool:
        """Return whether family ``blocks`` covers the task."""
        return BLOCKS.covers(task)

    def space(self, task: Task, machine: Machine) -> Space:
        """Return the knobs: rows, columns and accumulators of a register tile, and prefetch distance."""
        threads, wholes = self.shared(task, machine)
        knobs = tile_knobs(task, COLUMNS, ROWS, threads)

        def fits(config: Config) -> bool:
            return int(config["columns"]) * int(config.get("rows", 1)) * int(config["unroll"]) <= MOST_SUMS

        return Space(tuple(knobs), (Constraint("sums of a register tile fit the registers", fits), *wholes))

    def default(self, task: Task, machine: Machine) -> Config:
        """Return one column with four accumulators; four rows by two columns if there are several rows."""
        several = sizes_of(task.nest)[0] > 1
        preferences = {"columns": 2 if several else 1, "unroll": 1 if several else 4, "ahead": 8192, "rows": 4}
        knobs = self.space(task, machine).knobs
        preferred = {k.name: largest_up_to(preferences[k.name], k.values) for k in knobs if k.name in preferences}
        return {**preferred, **self.default_pieces(task, machine)}

    def marks(self, config: Config, machine: Machine) -> dict[str, int | None]:
        """Return the marks for few rows by vector dot products."""
        return {
            DOTS: None,
            ROWS_MARK: int(config.get("rows", 1)),
            UNROLL: int(config["unroll"]),
            AHEAD: int(config["ahead"]),
        }


@dataclass(frozen=True)
class BlockTiles(RoundedBlocks):
    """Products of many rows with a block-quantized weight, activations quantized to int8, by AMX tiles."""

    name: str = "blocks_tile_int8"

    @property
    def lacking(self) -> str:
        """Reason why the matrix unit cannot be used; empty if it can."""
        return why_no_tiles()

    def covers(self, task: Task) -> bool:
        """Return whether ``blocks`` covers the task, with at least half a tile of rows and whole tiles of columns."""
        if not BLOCKS.covers(task):
            return False
        rows, columns, _ = sizes_of(task.nest)
        return rows >= SIDE // 2 and columns % SIDE == 0

    def space(self, task: Task, machine: Machine) -> Space:
        """Return the knobs: columns unpacked at a time, and tiles that are multiplied before their sums are scaled."""
        _, columns, blocks = sizes_of(task.nest)
        groups = -(-blocks * halves_of(task) // (SIDE // 4))
        threads, wholes = self.shared(task, machine)
        knobs = (Knob("columns", dividing(PANELS, columns)), Knob("unroll", dividing(UNROLLS, groups)), *threads)
        return Space(knobs, wholes)

    def default(self, task: Task, machine: Machine) -> Config:
        """Return a panel of four tiles of columns, or the widest smaller one."""
        return self.widest(task, machine, [each for each in PANELS if each <= 4 * SIDE])

    def widest(self, task: Task, machine: Machine, widths: Sequence[int]) -> Config:
        """Return the valid config with the widest of these panels and the largest values of the other knobs."""
        space, shared = self.space(task, machine), self.default_pieces(task, machine)
        largest_values = {knob.name: knob.values[-1] for knob in space.knobs if knob.name not in ("columns", *shared)}
        for count in reversed(widths):
            config = {"columns": count, **largest_values, **shared}
            if count in space.knobs[0].values and space.broken_constraint(config) is None:
                return config
        return next(space.configs())

    def marks(self, config: Config, machine: Machine) -> dict[str, int | None]:
        """Return the marks for many rows by i8 tiles."""
        return {TILES: None, UNROLL: int(config["unroll"]), BY_TILES: None}


@dataclass(frozen=True)
class BlockWidenedTiles(BlockTiles):
    """Products of many rows with a block-quantized weight, both rounded to bf16, by AMX tiles."""

    name: str = "blocks_tile_bf16"

    @property
    def error(self) -> float:
        """Relative rounding error of bf16, for weights and activations."""
        return TILE_BF16.error

    def space(self, task: Task, machine: Machine) -> Space:
        """Return the knobs: columns widened at a time, pieces of k for L2 and for L1, and non-temporal stores."""
        threads, wholes = self.shared(task, machine)
        columns = dividing((*PANELS, WIDEST_PANEL), sizes_of(task.nest)[1])
        own = {"columns": columns, "tile_k": DEPTHS, "piece": PIECES, "stream": (False, True)}
        return Space((*(Knob(name, values) for name, values in own.items()), *threads), wholes)

    def default(self, task: Task, machine: Machine) -> Config:
        """Return a piece of k whose activations fill half of L2, and two or more tiles of columns, whose sums fill 1/4.

        Pieces for L1 are those of which two tiles of columns fill two thirds of it. Results are stored non-temporally
        if L2 does not hold them beside the activations.
        """
        rows, columns, _ = sizes_of(task.nest)
        k = task.nest.sizes[column_loop(task.nest) + 1] * outer_elements(task)
        depth = largest_up_to(max(DEPTHS[1], machine.l2_bytes // 2 // (rows * WORD)), DEPTHS)
        panels = PANELS if depth >= k else (*PANELS, WIDEST_PANEL)
        fit = [each for each in panels if each <= max(2 * SIDE, machine.l2_bytes // (4 * FLOAT * rows))]
        own = {
            "tile_k": depth if depth < k else 0,
            "piece": largest_up_to(machine.l1_bytes * 2 // 3 // (2 * SIDE * WORD), PIECES),
            "stream": rows * (columns * FLOAT + min(k, depth) * WORD) > machine.l2_bytes,
        }
        return {**self.widest(task, machine, fit), **own}

    def tiled(self, script: Script, task: Task, config: Config) -> str:
        """Tile the op; if it is filled with zeros, leave the fill to the lowering."""
        filled = task.root.filled
        zeros = moves.producer(script, "%op", filled) if filled is not None and starts_from_zero(task.root) else ""
        op = super().tiled(script, task, config)
        if zeros:
            moves.annotate(script, zeros, ZEROS, 0)
            moves.annotate(script, op, FROM_ZERO)
        return op

    def marks(self, config: Config, machine: Machine) -> dict[str, int | None]:
        """Return the marks for many rows by bf16 tiles."""
        lengths = {DEPTH: int(config["tile_k"]), PIECE: int(config["piece"])}
        tiles = {mark: length // (2 * SIDE) for mark, length in lengths.items() if length}
        return {WIDENED_TILES: None, BY_TILES: None, **tiles, **({STREAMS: None} if config["stream"] else {})}


def outer_elements(task: Task) -> int:
    """Return the elements per iteration of the outermost reduction loop: those of a block, or of a group of blocks."""
    return prod(task.nest.sizes[column_loop(task.nest) + 2 :]) * halves_of(task)


def halves_of(task: Task) -> int:
    """Return the number of operands that hold the activations of a block, 16 elements each."""
    innermost = len(task.nest.sizes) - 1
    return sum(each.dtype == "f32" and each.loops[-1] == innermost for each in task.root.operands)


BLOCK_DOTS, BLOCK_TILES, BLOCK_WIDENED_TILES = BlockDots(), BlockTiles(), BlockWidenedTiles()
