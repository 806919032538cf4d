"""Schedules for many rows by a weight in blocks, in f32: a panel of columns is widened once for all rows.

Upstream's vectors would widen it anew for every register tile; code of ours (`widened_product.py`) keeps the panel in a
cache, and multiplies as any product of f32 does.
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
SPARE = 4  # registers, for numbers that are spread


@dataclass(frozen=True)
class WidenedBlocks(ByOwnCode):
    """The family of sums over blocks for many rows."""

    name: str = "blocks_widened"

    @property
    def specific(self) -> int:
        """Before ``blocks``."""
        return 2

    def covers(self, task: Task) -> bool:
        """What family ``blocks`` does, of some rows and whole vectors of columns."""
        if not BLOCKS.covers(task):
            return False
        rows, columns, _ = sizes_of(task.nest)
        return rows >= LEAST_ROWS and columns % WIDTH == 0

    def space(self, task: Task, machine: Machine) -> Space:
        """Columns and blocks of a panel, rows and vectors of a register tile."""

        def fits(config: Config) -> bool:
            vectors = int(config["vectors"])
            return (int(config["rows"]) + 1) * vectors + 1 <= machine.vector_registers

        held = Constraint("a register tile fits the registers", fits)
        return panel_space(self, task, machine, ROWS, PIECES, machine.lanes, held)

    def default(self, task: Task, machine: Machine) -> Config:
        """The most sums that registers hold beside operands, and the largest panel that takes half of L2."""
        space, shared = self.space(task, machine), self.default_pieces(task, machine)

        def preference(config: Config) -> tuple[int, ...]:
            rows, vectors, columns, piece = (int(config[name]) for name in ("rows", "vectors", "columns", "piece"))
            held = (rows + 1) * vectors + SPARE <= machine.vector_registers
            small = columns * piece * LONGEST_BLOCK * BYTES <= machine.l2_bytes // 2
            asked = all(config[name] == count for name, count in shared.items())
            return asked, held, small, rows * vectors * held, vectors, min(columns, 128), min(piece, 32)

        return max(space.configs(), key=preference)

    def marks(self, config: Config, machine: Machine) -> dict[str, int | None]:
        """Many rows, in f32."""
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
    held: Constraint,
) -> Space:
    """The space of a family that keeps panels: columns and pieces of those, rows and vectors of a register tile.

    Args:
        family: Family.
        task: Product.
        machine: Host.
        rows: Rows that a register tile may have.
        pieces: Pieces of k that a panel may have.
        lanes: Columns of a vector.
        held: Constraint of what registers hold.
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
    return Space(knobs, (held, whole, *wholes))


WIDENED_BLOCKS = WidenedBlocks()
