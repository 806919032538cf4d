"""Families for sums over blocks: products with weights stored in blocks of integers.

    y[m, n] = sum over b, j of scale[n, b] * q[n, b, j] * x[m, b, j]

A register tile of some rows and columns of y has 16 f32 sums per element over the whole of k; blocks are widened in
registers, once for all rows of the tile. A custom pass lowers it (`block_code.py`): upstream's vectorization took up
to three times as long. For many rows, `widened_family.py` widens each block once.
"""

from dataclasses import dataclass

from autotune.contrib.quantised.block_marks import AHEAD, FLOATS, LOOKUP, UNROLL
from autotune.contrib.quantised.block_marks import ROWS as ROWS_MARK
from autotune.contrib.quantised.block_operands import is_product
from autotune.contrib.quantised.by_columns import ByOwnCode, dividing, sizes_of
from autotune.core.host.machine import Machine
from autotune.core.space import Config, Constraint, Knob, Space, largest_up_to
from autotune.core.task import Task

COLUMNS, ROWS, UNROLLS = (1, 2, 3, 4, 6, 8), (1, 2, 3, 4, 6, 8), (1, 2, 4)
AHEADS = (0, 1024, 4096, 8192)  # bytes
WIDTH = 16  # contiguous elements of a block in one operand
SHIFTS = {"arith.shrsi", "arith.shrui"}  # of nibbles
SPARE = 4  # 16-lane registers for words, a part of them, a lookup table and a scale
MOST_PARALLEL, SUMMED = 2, (2, 3)  # numbers of loops: rows and columns; groups of blocks, blocks and elements


@dataclass(frozen=True)
class BlockSums(ByOwnCode):
    """Products with a block-quantized weight, dequantized in registers; for few rows."""

    name: str = "blocks"

    @property
    def specific(self) -> int:
        """Priority over the families for any sum."""
        return 1

    def covers(self, task: Task) -> bool:
        """Return whether the task is a sum over i8 blocks in one or two parallel loops, its innermost loop a vector."""
        nest = task.nest
        parallel = nest.iterators.count("parallel")
        sums = 1 <= parallel <= MOST_PARALLEL and len(nest.iterators) - parallel in SUMMED
        sums = sums and set(nest.iterators[parallel:]) == {"reduction"}
        stored = any(argument.dtype == "i8" for argument in task.payload.arguments)
        is_single = not task.is_group and not task.grows and not task.root.gathers and task.root.lanes is None
        plain = is_single and not task.root.counts and is_product({step.name for step in task.root.body})
        return plain and sums and stored and nest.sizes[-1] == WIDTH and has_rows_of_all(task, parallel)

    def space(self, task: Task, machine: Machine) -> Space:
        """Return the knobs: rows, columns and accumulators of a register tile, prefetch distance, and nibble lookup."""
        threads, wholes = self.shared(task, machine)
        knobs = tile_knobs(task, COLUMNS, ROWS, threads)
        if machine.isa == "avx512f":
            knobs.append(Knob("lookup", (True, False)))
        registers = machine.vector_registers * machine.lanes // WIDTH

        def fits(config: Config) -> bool:
            rows, columns = int(config.get("rows", 1)), int(config["columns"])
            return rows * columns * int(config["unroll"]) + rows + SPARE <= registers or rows * columns == 1

        return Space(tuple(knobs), (Constraint("sums of a register tile fit the registers", fits), *wholes))

    def default(self, task: Task, machine: Machine) -> Config:
        """Return four rows by one column of i8 with two accumulators, or by two of nibbles, which share activations."""
        several = sizes_of(task.nest)[0] > 1
        is_one_column = not several and not SHIFTS & {step.name for step in task.root.body}
        targets = {"columns": 1 if is_one_column else 2, "unroll": 2 if is_one_column else 1, "ahead": 8192, "rows": 4}
        space = self.space(task, machine)
        preferred = {k.name: largest_up_to(targets[k.name], k.values) for k in space.knobs if k.name in targets}
        lookup = {"lookup": True} if machine.isa == "avx512f" else {}
        minimal = {**preferred, "columns": 1} | ({"rows": 1} if several else {})
        shared = self.default_pieces(task, machine)
        candidates = ({**config, **lookup, **shared} for config in (preferred, minimal))
        return next(
            (candidate for candidate in candidates if space.broken_constraint(candidate) is None), next(space.configs())
        )

    def marks(self, config: Config, machine: Machine) -> dict[str, int | None]:
        """Return the marks for few rows in f32."""
        return {
            FLOATS: None,
            ROWS_MARK: int(config.get("rows", 1)),
            UNROLL: int(config["unroll"]),
            AHEAD: int(config["ahead"]),
            **({LOOKUP: None} if config.get("lookup") else {}),
        }


def tile_knobs(task: Task, columns: tuple[int, ...], rows: tuple[int, ...], threads: tuple[Knob, ...]) -> list[Knob]:
    """Return the knobs of a register tile: columns, accumulators, prefetch distance, threads; rows if it has several.

    Args:
        task: Product.
        columns: Possible columns of a tile.
        rows: Possible rows of a tile.
        threads: Knobs for pieces of columns.
    """
    m, n, _ = sizes_of(task.nest)
    knobs = [Knob("columns", dividing(columns, n)), Knob("unroll", UNROLLS), Knob("ahead", AHEADS), *threads]
    return [*knobs, Knob("rows", dividing(rows, m))] if m > 1 else knobs


def has_rows_of_all(task: Task, parallel: int) -> bool:
    """Return whether activations are indexed by every loop but that of columns, the last parallel one."""
    summed = range(parallel, len(task.nest.sizes))
    activations = [
        operand for operand in task.root.operands if operand.dtype == "f32" and operand.loops[-1:] == [summed[-1]]
    ]
    return bool(activations) and all(operand.loops == [*range(parallel - 1), *summed] for operand in activations)


BLOCKS = BlockSums()
