"""Schedules for convolutions by dot products of rounded values, alone or with the element-wise ops that follow.

    v = words of x;   for n: for h0 step block:   y[n, h0 to h0 + block] = code of ours (`code.py`);   what follows

They compete where an error is allowed, as products of matrices in int16 and bf16 do (`schedules/narrow.py`). Those of
bytes are exact, and the default of quantised models.
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
LEAST = 8  # channels: of fewer, rounding takes longer than it saves
LEAST_ROWS = 4  # of a tile's 16
TWO_TILES = 2 * ROWS_OF_TILE
TILES_OF_ROWS, MOST_SUMS = (ROWS_OF_TILE, TWO_TILES, 4 * ROWS_OF_TILE), 4 * ROWS_OF_TILE**2
WORD = 4  # bytes


@dataclass(frozen=True)
class NarrowWindow(OfPrecision):
    """The family for one precision."""

    @property
    def name(self) -> str:
        """That of the precision, and that it is for windows."""
        return f"window_{self.precision.name}"

    def covers(self, task: Task) -> bool:
        """Convolutions of many channels, channels last, and what their results are combined with."""
        found = [number for number, op in enumerate(task.ops) if ChannelSums.of(op) is not None]
        if not found or task.grows or not self.takes(task) or (self.precision.exact and self.lacking):
            return False
        feeds = any(number and op.reader in found for number, op in enumerate(task.ops))
        return not feeds and all(is_beside(op, task.ops[found[0]]) for op in task.ops)

    def takes(self, task: Task) -> bool:
        """Tell whether words can be made of a task's kernels, and its rows and channels are worth it."""
        found = [sums for sums in map(ChannelSums.of, task.ops) if sums is not None]
        rows, channels = (LEAST_ROWS, self.precision.worth[1]) if self.precision.by_tiles else (1, LEAST)
        worth = all(sums.rows >= rows and sums.channels >= channels for sums in found)
        worth &= not self.precision.by_tiles or all(sums.moves_once for sums in found)
        if self.precision.exact or any(sums.is_exact for sums in found):
            return worth and self.precision.exact and all(sums.is_exact for sums in found)
        return worth and all(sums.stored == "f32" or self.precision.reads_stored(sums.stored) for sums in found)

    def space(self, task: Task, machine: Machine) -> Space:
        """Rows of a block, rows and filters of a register tile."""
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

        held = "six tiles" if self.precision.by_tiles else f"{machine.vector_registers} registers"
        fit = f"sums, words of the kernel and of an input fit {held}"
        return Space((*knobs, *function_knobs(task)), (Constraint(fit, registers), blocks.constraint))

    def default(self, task: Task, machine: Machine) -> Config:
        """The most rows whose words and results take half of L2, and the register tile that is done first."""
        sums, blocks = channel_sums_of(task), channel_sums_of(task).blocks
        shared = blocks.shared(machine)
        across = prod(blocks.sizes[blocks.rows + 1 : -1])
        of_row = WORD * across * (self.precision.words(sums.channels) + blocks.sizes[-1])
        found = blocks.blocks_of(shared)
        block = max((rows for rows in found if rows * of_row <= machine.l2_bytes // 2), default=found[0])
        rows, width = self.register_tile(task, sums, machine)
        return {"block": block, "rows": rows, "width": width, **shared, **function_defaults(task)}

    def register_tile(self, task: Task, sums: "ChannelSums", machine: Machine) -> tuple[int, int]:
        """Rows and filters of the register tile that is done first; of tiles, two by two where there are as many."""
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
        """Loops over blocks of rows; in them the marked convolution, and vectors of what follows."""
        space = self.space(task, machine)
        space.check(config)
        script = Script(space.knobs, config)
        marks = {ROWS: int(config["rows"]), WIDTH: int(config["width"])}
        windows = [ChannelSums.of(op) is not None for op in task.ops]
        members = [replace(op, filled=None) if mine else op for op, mine in zip(task.ops, windows, strict=True)]
        RowBlockWriter(channel_sums_of(task).blocks, script, config, machine).write(members, marks)
        return script.text

    def rewrites(self, task: Task, config: Config) -> Rewrites:
        """Words of kernels, in panels as wide as the register tile."""
        return Rewrites(int(config["width"]), precision=self.name, needed=(NARROW_WINDOWS,))


@dataclass(frozen=True)
class ChannelSums:
    """A convolution ``y[.., f] += x[.., c] k[.., c, f]`` whose channels c and filters f lie side by side.

    Attributes:
        op: The op.
        row: Loop over rows of a register tile: the innermost one that the kernel does not go along.
        channel: Loop over channels.
    """

    op: Op
    row: int
    channel: int

    @classmethod
    def of(cls, op: Op) -> "ChannelSums | None":
        """An op as one; `None` if it is none, or not one of many channels whose kernel is a weight."""
        if op.lanes is None or not (op.lanes.products and op.lanes.constant_b and starts_from_zero(op)):
            return None
        x, kernel, y = op.operands
        parallel = range(op.nest.iterators.count("parallel"))
        rows = [loop for loop in parallel if loop not in kernel.loops]
        if not rows or len(kernel.loops) < 2 or None in kernel.loops or y.loops != list(parallel):
            return None
        channel, lane = kernel.loops[-2:]
        elsewhere = [loop for terms in x.terms[:-1] for loop, _ in terms]
        if channel is None or channel in (*parallel, *elsewhere) or lane != parallel[-1] or lane in elsewhere:
            return None
        if x.loops[-1] != channel:
            return None
        found = cls(op, rows[-1], channel)
        plain = found.is_exact or (x.dtype == y.dtype == "f32" and kernel.dtype in WIDENED)
        return found if plain and is_of_loops(x) and found.channels >= LEAST else None

    @property
    def is_exact(self) -> bool:
        """Whether it is of bytes, summed in 32 bits."""
        return is_of_bytes(self.op)

    @property
    def stored(self) -> str:
        """Element type of the kernel, which is widened where it is not f32."""
        return self.op.operands[1].dtype

    @property
    def rows(self) -> int:
        """Number of rows that register tiles are cut from."""
        return self.op.nest.sizes[self.row]

    @property
    def moves_once(self) -> bool:
        """Whether rows read different inputs along one dimension, so that those of a tile are equally far apart."""
        return sum(self.row in dict(terms) for terms in self.op.operands[0].terms[:-1]) == 1

    @property
    def tiles_of_rows(self) -> tuple[int, ...]:
        """Rows that register tiles of a matrix unit may have: of one line, or where one tile holds that, of several."""
        kernel = self.op.operands[1].loops
        lines = [loop for loop in range(self.row) if loop not in kernel]
        return TILES_OF_ROWS if lines or self.rows > ROWS_OF_TILE else TILES_OF_ROWS[:1]

    @property
    def channels(self) -> int:
        """Number of channels."""
        return self.op.nest.sizes[self.channel]

    @property
    def blocks(self) -> RowBlocks:
        """Blocks of the loop around that over rows of a register tile; of the latter where there is none."""
        return RowBlocks(self.op, max(0, self.row - 1))


def channel_sums_of(task: Task) -> ChannelSums:
    """The convolution of a task; of several, that with the most work.

    Raises:
        ScheduleError: There is none.
    """
    found = [sums for sums in map(ChannelSums.of, task.ops) if sums is not None]
    if not found:
        raise ScheduleError(f"a schedule for rounded windows needs sums over channels side by side, got {task.tag}")
    return max(found, key=lambda sums: prod(sums.op.nest.sizes))


WINDOW_INT16, WINDOW_BF16 = NarrowWindow(INT16), NarrowWindow(BF16)
WINDOW_TILE_BF16, WINDOW_TILE_BF16X2 = NarrowWindow(TILE_BF16), NarrowWindow(TILE_BF16X2)
WINDOW_BYTES, WINDOW_TILE_BYTES = NarrowWindow(BYTES), NarrowWindow(TILE_BYTES)
