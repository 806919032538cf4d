"""Families for convolutions by dot products of rounded values, alone or with their element-wise consumers.

    v = words of x;   for n: for h0 step block:   y[n, h0 to h0 + block] = convolution (`code.py`);   its consumers

They are used where an error is allowed, like int16 and bf16 products of matrices (`schedules/narrow.py`). Those of i8
are exact, and the default of quantized models.
"""

from dataclasses import dataclass, replace
from math import prod

from autotune.contrib.narrow_windows.marks import NARROW_WINDOWS, ROWS, WIDTH
from autotune.core.errors import ScheduleError
from autotune.core.host.machine import Machine
from autotune.core.host.matrix_unit import ROWS as ROWS_OF_TILE
from autotune.core.ops.op import Contraction, Op
from autotune.core.ops.traversal import WIDENED, is_of_bytes
from autotune.core.plugs.rewrites import Rewrites
from autotune.core.precision import BF16, BYTES, INT16, TILE_BF16, TILE_BF16X2, TILE_BYTES
from autotune.core.space import Config, Constraint, Knob, Space, largest_up_to
from autotune.core.task import Task
from schedules.functions import function_defaults, function_knobs
from schedules.moves import Script
from schedules.narrow import OfPrecision
from schedules.row_blocks import (
    RowBlocks,
    RowBlockWriter,
    fastest_tile,
    is_beside,
    is_of_loops,
    starts_from_zero,
    tile_of,
)
from schedules.sliding_window import fits, row_tiles

VECTORS = (1, 2, 3, 4, 6)
LEAST = 8  # channels: with fewer, rounding costs more than it saves
LEAST_ROWS = 4  # of the 16 rows of a tile
TWO_TILES = 2 * ROWS_OF_TILE
TILES_OF_ROWS, MOST_SUMS = (ROWS_OF_TILE, TWO_TILES, 4 * ROWS_OF_TILE), 4 * ROWS_OF_TILE**2
WORD = 4  # bytes


@dataclass(frozen=True)
class NarrowWindow(OfPrecision):
    """Family of convolutions in one precision."""

    @property
    def name(self) -> str:
        """Name of the precision, with a prefix for windows."""
        return f"window_{self.precision.name}"

    @property
    def summary(self) -> str:
        """Line in ``autotune list``."""
        return f"Convolutions, channels last, with {self.precision.summary}."

    def covers(self, task: Task) -> bool:
        """Return whether the task is such convolutions of many channels, channels last, with element-wise consumers."""
        convolutions = [number for number, op in enumerate(task.ops) if ChannelSums.of(op) is not None]
        if not convolutions or task.grows or not self.takes(task) or (self.precision.exact and self.lacking):
            return False
        feeds = any(number and op.reader in convolutions for number, op in enumerate(task.ops))
        return not feeds and all(is_beside(op, task.ops[convolutions[0]]) for op in task.ops)

    def takes(self, task: Task) -> bool:
        """Return whether a task's kernels can be packed into words, and its rows and channels make that worthwhile."""
        convolutions = [sums for sums in map(ChannelSums.of, task.ops) if sums is not None]
        rows, channels = (LEAST_ROWS, self.precision.worth[1]) if self.precision.by_tiles else (1, LEAST)
        worth = all(sums.rows >= rows and sums.channels >= channels for sums in convolutions)
        worth &= not self.precision.by_tiles or all(sums.moves_once for sums in convolutions)
        if self.precision.exact or any(sums.is_exact for sums in convolutions):
            return worth and self.precision.exact and all(sums.is_exact for sums in convolutions)
        return worth and all(sums.stored == "f32" or self.precision.reads_stored(sums.stored) for sums in convolutions)

    def space(self, task: Task, machine: Machine) -> Space:
        """Return the knobs: rows per block, rows and filters of a register tile."""
        sums, blocks = channel_sums_of(task), channel_sums_of(task).blocks
        plain = all(op.lanes is None or ChannelSums.of(op) is not None for op in task.ops)
        most = -(-blocks.sizes[-1] // machine.lanes)
        vectors = [count for count in VECTORS if count <= most and (plain or count & count - 1 == 0)]
        block, *shared = blocks.knobs(machine)
        widths = tuple(count * machine.lanes for count in vectors)
        rows = sums.tiles_of_rows if self.precision.by_tiles else ()
        knobs = (block, Knob("rows", rows or row_tiles(sums.rows)), Knob("width", widths), *shared)

        def registers(config: Config) -> bool:
            if self.precision.by_tiles:
                return int(config["rows"]) * int(config["width"]) <= MOST_SUMS
            return fits(tile_of(config["rows"], config["width"], machine), machine)

        capacity = "six tiles" if self.precision.by_tiles else f"{machine.vector_registers} registers"
        fit = f"sums, words of the kernel and of an input fit {capacity}"
        return Space((*knobs, *function_knobs(task)), (Constraint(fit, registers), blocks.constraint))

    def default(self, task: Task, machine: Machine) -> Config:
        """Return the most rows whose words and results take half of L2, with the fastest register tile."""
        sums, blocks = channel_sums_of(task), channel_sums_of(task).blocks
        shared = blocks.shared(machine)
        across = prod(blocks.sizes[blocks.rows + 1 : -1])
        of_row = WORD * across * (self.precision.words(sums.channels) + blocks.sizes[-1])
        counts = blocks.blocks_of(shared)
        block = max((rows for rows in counts if rows * of_row <= machine.l2_bytes // 2), default=counts[0])
        rows, width = self.register_tile(task, sums, machine)
        return {"block": block, "rows": rows, "width": width, **shared, **function_defaults(task)}

    def register_tile(self, task: Task, sums: "ChannelSums", machine: Machine) -> tuple[int, int]:
        """Return rows and filters of the fastest register tile; with a matrix unit, two by two tiles if possible."""
        space = self.space(task, machine)
        if self.precision.by_tiles:
            values = {knob.name: knob.values for knob in space.knobs}
            rows = largest_up_to(TWO_TILES, values["rows"])
            return rows, largest_up_to(MOST_SUMS // rows, values["width"])
        summed = -(-prod(sums.op.nest.reduced) // self.precision.values)
        like = Contraction(sums.rows, sums.blocks.sizes[-1], summed, constant_b=True)
        best = fastest_tile(space, like, machine)
        return best.rows, best.columns

    def build(self, task: Task, config: Config, machine: Machine) -> str:
        """Write the script: loops over row blocks around the marked convolution and its vectorized consumers."""
        space = self.space(task, machine)
        space.check(config)
        script = Script(space.knobs, config)
        marks = {ROWS: int(config["rows"]), WIDTH: int(config["width"])}
        windows = [ChannelSums.of(op) is not None for op in task.ops]
        members = [
            replace(op, filled=None) if is_window else op for op, is_window in zip(task.ops, windows, strict=True)
        ]
        RowBlockWriter(channel_sums_of(task).blocks, script, config, machine).write(members, marks)
        return script.text

    def rewrites(self, task: Task, config: Config) -> Rewrites:
        """Return the packing of kernel words in panels as wide as the register tile."""
        return Rewrites(int(config["width"]), precision=self.name, needed=(NARROW_WINDOWS,))


@dataclass(frozen=True)
class ChannelSums:
    """A convolution ``y[.., f] += x[.., c] k[.., c, f]`` with contiguous channels c and filters f.

    Attributes:
        op: Operation.
        row: Loop over the rows of a register tile: the innermost parallel loop that does not index the kernel.
        channel: Loop over channels.
    """

    op: Op
    row: int
    channel: int

    @classmethod
    def of(cls, op: Op) -> "ChannelSums | None":
        """Analyse an op; return `None` if it is not such a convolution of many channels with a constant kernel."""
        if op.lanes is None or not (op.lanes.products and op.lanes.constant_b and starts_from_zero(op)):
            return None
        x, kernel, y = op.operands
        parallel = range(op.nest.iterators.count("parallel"))
        rows = [loop for loop in parallel if loop not in kernel.loops]
        if not rows or len(kernel.loops) < 2 or None in kernel.loops or y.loops != list(parallel):
            return None
        channel, lane = kernel.loops[-2:]
        window_loops = [loop for terms in x.terms[:-1] for loop, _ in terms]
        if channel is None or channel in (*parallel, *window_loops) or lane != parallel[-1] or lane in window_loops:
            return None
        if x.loops[-1] != channel:
            return None
        sums = cls(op, rows[-1], channel)
        plain = sums.is_exact or (x.dtype == y.dtype == "f32" and kernel.dtype in WIDENED)
        return sums if plain and is_of_loops(x) and sums.channels >= LEAST else None

    @property
    def is_exact(self) -> bool:
        """Whether it multiplies i8 and accumulates in 32 bits."""
        return is_of_bytes(self.op)

    @property
    def stored(self) -> str:
        """Element type of the kernel, which is widened if it is not f32."""
        return self.op.operands[1].dtype

    @property
    def rows(self) -> int:
        """Number of rows that register tiles are taken from."""
        return self.op.nest.sizes[self.row]

    @property
    def moves_once(self) -> bool:
        """Whether rows index a single dimension of the inputs, so that those of a tile have a constant distance."""
        return sum(self.row in dict(terms) for terms in self.op.operands[0].terms[:-1]) == 1

    @property
    def tiles_of_rows(self) -> tuple[int, ...]:
        """Candidate rows of a matrix unit's register tile: of one line or, if a tile holds a whole line, of several."""
        kernel = self.op.operands[1].loops
        lines = [loop for loop in range(self.row) if loop not in kernel]
        return TILES_OF_ROWS if lines or self.rows > ROWS_OF_TILE else TILES_OF_ROWS[:1]

    @property
    def channels(self) -> int:
        """Number of channels."""
        return self.op.nest.sizes[self.channel]

    @property
    def blocks(self) -> RowBlocks:
        """Blocks of the loop around that over rows of a register tile; of the latter if there is none."""
        return RowBlocks(self.op, max(0, self.row - 1))


def channel_sums_of(task: Task) -> ChannelSums:
    """Return the convolution of a task; the one with the most work if there are several.

    Raises:
        ScheduleError: There is none.
    """
    convolutions = [sums for sums in map(ChannelSums.of, task.ops) if sums is not None]
    if not convolutions:
        raise ScheduleError(f"a schedule for rounded windows needs sums over channels side by side, got {task.tag}")
    return max(convolutions, key=lambda sums: prod(sums.op.nest.sizes))


WINDOW_INT16, WINDOW_BF16 = NarrowWindow(INT16), NarrowWindow(BF16)
WINDOW_TILE_BF16, WINDOW_TILE_BF16X2 = NarrowWindow(TILE_BF16), NarrowWindow(TILE_BF16X2)
WINDOW_BYTES, WINDOW_TILE_BYTES = NarrowWindow(BYTES), NarrowWindow(TILE_BYTES)
