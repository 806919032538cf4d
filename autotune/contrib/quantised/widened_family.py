"""Family for products of many rows with a block-quantized weight, in f32: a panel is widened once for all rows.

Upstream's vectorization would widen it again for every register tile; a custom pass (`widened_product.py`) keeps the
panel in a cache, and multiplies by it as in any f32 product.
"""

from dataclasses import dataclass

from autotune.contrib.quantised.block_marks import LANES, PANELS, PIECE, VECTORS
from autotune.contrib.quantised.block_marks import ROWS as ROWS_MARK
from autotune.contrib.quantised.by_columns import ByOwnCode, dividing, sizes_of
from autotune.contrib.quantised.family import BLOCKS, WIDTH
from autotune.core.host.machine import Machine
from autotune.core.space import Config, Constraint, Knob, Space
from autotune.core.task import Task

LEAST_ROWS = 16
COLUMNS, ROWS, VECTOR_COUNTS = (16, 32, 48, 64, 96, 128, 256), (4, 6, 8, 10, 12, 14), (1, 2, 3, 4)
PIECES = (8, 16, 32, 64)  # blocks of k in a panel
LONGEST_BLOCK = 32  # elements
BYTES = 4  # of an element
SPARE = 4  # registers, for broadcast scalars


@dataclass(frozen=True)
class WidenedBlocks(ByOwnCode):
    """Products of many rows with a block-quantized weight, dequantized to f32 panels."""

    name: str = "blocks_widened"

    @property
    def specific(self) -> int:
        """Priority over ``blocks``."""
        return 2

    def covers(self, task: Task) -> bool:
        """Return whether family ``blocks`` covers the task, with enough rows and whole vectors of columns."""
        if not BLOCKS.covers(task):
            return False
        rows, columns, _ = sizes_of(task.nest)
        return rows >= LEAST_ROWS and columns % WIDTH == 0

    def space(self, task: Task, machine: Machine) -> Space:
        """Return the knobs: columns and blocks of a panel, rows and vectors of a register tile."""

        def fits(config: Config) -> bool:
            vectors = int(config["vectors"])
            return (int(config["rows"]) + 1) * vectors + 1 <= machine.vector_registers

        fits_registers = Constraint("a register tile fits the registers", fits)
        return panel_space(self, task, machine, ROWS, PIECES, machine.lanes, fits_registers)

    def default(self, task: Task, machine: Machine) -> Config:
        """Return the tile with the most accumulators that fit beside operands, and the largest panel in half of L2."""
        space, shared = self.space(task, machine), self.default_pieces(task, machine)

        def preference(config: Config) -> tuple[int, ...]:
            rows, vectors, columns, piece = (int(config[name]) for name in ("rows", "vectors", "columns", "piece"))
            fits = (rows + 1) * vectors + SPARE <= machine.vector_registers
            small = columns * piece * LONGEST_BLOCK * BYTES <= machine.l2_bytes // 2
            uses_threads = all(config[name] == count for name, count in shared.items())
            return uses_threads, fits, small, rows * vectors * fits, vectors, min(columns, 128), min(piece, 32)

        return max(space.configs(), key=preference)

    def marks(self, config: Config, machine: Machine) -> dict[str, int | None]:
        """Return the marks for many rows in f32."""
        return {
            PANELS: None,
            ROWS_MARK: int(config["rows"]),
            VECTORS: int(config["vectors"]),
            PIECE: int(config["piece"]),
            LANES: machine.lanes,
        }


def panel_space(
    family: ByOwnCode,
    task: Task,
    machine: Machine,
    rows: tuple[int, ...],
    pieces: tuple[int, ...],
    lanes: int,
    registers: Constraint,
) -> Space:
    """Return the space of a family with panels: columns and pieces of panels, rows and vectors of a register tile.

    Args:
        family: Family.
        task: Product.
        machine: Host.
        rows: Values of the knob for rows of a register tile.
        pieces: Values of the knob for pieces of k in a panel.
        lanes: Columns per vector.
        registers: Constraint on registers.
    """
    threads, wholes = family.shared(task, machine)
    knobs = (
        Knob("columns", dividing(COLUMNS, sizes_of(task.nest)[1])),
        Knob("rows", rows),
        Knob("vectors", VECTOR_COUNTS),
        Knob("piece", pieces),
        *threads,
    )

    def divides(config: Config) -> bool:
        return int(config["columns"]) % (int(config["vectors"]) * lanes) == 0

    whole = Constraint("columns of a register tile divide those of a panel", divides)
    return Space(knobs, (registers, whole, *wholes))


WIDENED_BLOCKS = WidenedBlocks()
