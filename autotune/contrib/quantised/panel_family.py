"""Family for products of many rows with a block-quantized weight, with activations rounded to 8 bits, by i8 panels.

A panel of columns is transposed once for all rows, so that 16 columns are the lanes of an i8 dot product; a
custom pass lowers it (`panel_product.py`).
"""

from dataclasses import dataclass

from autotune.contrib.quantised.block_marks import BYTE_PANELS, LANES, PIECE, VECTORS
from autotune.contrib.quantised.block_marks import ROWS as ROWS_MARK
from autotune.contrib.quantised.family import WIDTH
from autotune.contrib.quantised.rounded_family import BlockDots
from autotune.contrib.quantised.widened_family import WIDENED_BLOCKS, panel_space
from autotune.core.host.machine import Machine
from autotune.core.space import Config, Constraint, Space
from autotune.core.task import Task

ROWS = (2, 3, 4, 6, 8, 12, 14)
PIECES = (2, 4, 8, 16, 32)  # steps of k in a panel
STEP = 128  # elements per step, at most
SPARE = 1  # registers, for broadcast scalars


@dataclass(frozen=True)
class BlockPanels(BlockDots):
    """Products of many rows with a block-quantized weight, activations quantized to int8, by panels."""

    name: str = "blocks_panel_int8"

    @property
    def specific(self) -> int:
        """Priority over ``blocks_int8``."""
        return 1

    def covers(self, task: Task) -> bool:
        """Return whether family ``blocks_widened`` covers the task."""
        return WIDENED_BLOCKS.covers(task)

    def space(self, task: Task, machine: Machine) -> Space:
        """Return the knobs: columns and steps of a panel, rows and vectors of a register tile."""

        def fits(config: Config) -> bool:
            return registers_of(config) + SPARE <= machine.vector_registers

        sums = Constraint("sums of a register tile, in whole numbers and in f32, fit the registers", fits)
        return panel_space(self, task, machine, ROWS, PIECES, WIDTH, sums)

    def default(self, task: Task, machine: Machine) -> Config:
        """Return the tile with fewest loads per product, and the longest panel of about 64 columns in half of L2."""
        space, shared = self.space(task, machine), self.default_pieces(task, machine)

        def preference(config: Config) -> tuple[float, ...]:
            rows, vectors, columns, piece = (int(config[name]) for name in ("rows", "vectors", "columns", "piece"))
            uses_threads = all(config[name] == count for name, count in shared.items())
            small = columns * piece * STEP <= machine.l2_bytes // 2
            return uses_threads, small, rows * vectors / (rows + vectors), rows, -abs(columns - 64), piece

        return max(space.configs(), key=preference)

    def marks(self, config: Config, machine: Machine) -> dict[str, int | None]:
        """Return the marks for many rows by i8 panels."""
        return {
            BYTE_PANELS: None,
            ROWS_MARK: int(config["rows"]),
            VECTORS: int(config["vectors"]),
            PIECE: int(config["piece"]),
            LANES: WIDTH,
        }


def registers_of(config: Config) -> int:
    """Return the registers that accumulators, integer and f32, and the weight take."""
    rows, vectors = int(config["rows"]), int(config["vectors"])
    return 2 * rows * vectors + vectors


BLOCK_PANELS = BlockPanels()
