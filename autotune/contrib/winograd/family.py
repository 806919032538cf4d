"""Families for Winograd convolutions, alone or with their element-wise consumers.

    for n: for h0 step block:   y[n, h0 to h0 + block] = convolution (`code.py`);  consumers of the same rows

They round like f32, but to other results: a tile's products are summed over channels before they are combined, and the
error of tiles of four outputs is about twice that of direct sums. They are used only where an error is allowed.
"""

from dataclasses import dataclass, replace

from autotune.contrib.winograd.marks import LANES, LINES, ROWS, WIDTH, WINOGRAD
from autotune.contrib.winograd.transform import TAPS, Filtering
from autotune.core.host.machine import Machine
from autotune.core.ops.op import Contraction, Op
from autotune.core.plugs.family import Family
from autotune.core.plugs.rewrites import Rewrites
from autotune.core.space import Config, Constraint, Knob, Space
from autotune.core.task import Task
from schedules.functions import function_defaults, function_knobs
from schedules.moves import Script
from schedules.row_blocks import (
    RowBlocks,
    RowBlockWriter,
    fastest_tile,
    is_beside,
    is_of_loops,
    starts_from_zero,
    tile_of,
)
from schedules.sliding_window import fits

REGISTER_ROWS = (2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16)
VECTORS = (1, 2, 3, 4, 6)
LOOPS = 6  # image rows and columns, filters, two of taps, channels; more with a batch
LEAST = 8  # channels, and filters: with fewer, transforms cost more than they save
BYTES = 4
UNIT = 2.0**-24  # unit roundoff of f32


@dataclass(frozen=True)
class Winograd(Family):
    """Family of Winograd convolutions with one tile size.

    Attributes:
        filtering: Tile size.
        fallback: Whether the family covers tasks that no other does; never.
    """

    filtering: Filtering
    fallback: bool = False

    @property
    def name(self) -> str:
        """Name of the tile size."""
        return self.filtering.name

    @property
    def summary(self) -> str:
        """Line in ``autotune list``."""
        outputs = self.filtering.outputs
        return f"3x3 convolutions by Winograd's F({outputs}x{outputs}, 3x3), within an error budget."

    @property
    def error(self) -> float:
        """Relative error: that of f32, enlarged by the magnitudes that outputs are combined from."""
        return UNIT * self.filtering.outputs

    @property
    def saving(self) -> float:
        """Ratio of the multiplications of a tile by direct sums to those by the transform."""
        return (self.filtering.outputs * TAPS / self.filtering.inputs) ** 2

    def covers(self, task: Task) -> bool:
        """Return whether the task is one such convolution, with element-wise ops on its result."""
        convolutions = [number for number, op in enumerate(task.ops) if self.takes(op)]
        if len(convolutions) != 1 or task.grows:
            return False
        feeds = any(number and op.reader == convolutions[0] for number, op in enumerate(task.ops))
        return not feeds and all(is_beside(op, task.ops[convolutions[0]]) for op in task.ops)

    def takes(self, op: Op) -> bool:
        """Return whether an op is ``y[.., h, w, f] += x[.., h + i, w + j, c] k[i, j, c, f]`` with 3 x 3 taps."""
        lanes, sizes = op.lanes, op.nest.sizes
        if lanes is None or not (lanes.products and lanes.constant_b and starts_from_zero(op)) or len(sizes) < LOOPS:
            return False
        *lead, h, w, f, i, j, c = range(len(sizes))
        x, kernel, y = (operand.terms for operand in op.operands)
        inputs = (*alone(*lead), ((h, 1), (i, 1)), ((w, 1), (j, 1)), *alone(c))
        if (x, kernel, y) != (inputs, alone(i, j, c, f), alone(*lead, h, w, f)):
            return False
        plain = all(each.dtype == "f32" and is_of_loops(each) for each in op.operands)
        many = min(sizes[h], sizes[w]) >= self.filtering.outputs and min(sizes[c], sizes[f]) >= LEAST
        return plain and many and sizes[i] == sizes[j] == TAPS

    def plane(self, task: Task) -> "Plane":
        """Return the iteration space of a task's convolution."""
        op = next(op for op in task.ops if self.takes(op))
        rows = op.nest.iterators.count("parallel") - 3
        return Plane(RowBlocks(op, rows, least=self.filtering.outputs), self.filtering)

    def space(self, task: Task, machine: Machine) -> Space:
        """Return the knobs: rows per block, rows of tiles transformed at once, tiles and filters of a register tile."""
        plane = self.plane(task)
        is_only_window = sum(op.lanes is not None for op in task.ops) == 1
        vectors = [
            count for count in VECTORS if is_only_window or count & count - 1 == 0
        ]  # LLVM scalarizes other vectors
        block, *shared = plane.blocks.knobs(machine)
        knobs = [
            block,
            Knob("lines", plane.lines),
            Knob("rows", REGISTER_ROWS),
            Knob("width", tuple(count * machine.lanes for count in vectors)),
            *shared,
        ]

        def registers(config: Config) -> bool:
            return fits(tile_of(config["rows"], config["width"], machine), machine)

        def inside(config: Config) -> bool:
            return int(config["lines"]) <= plane.down(int(config["block"]))

        constraints = (
            Constraint(f"products, filters and an input fit {machine.vector_registers} registers", registers),
            plane.blocks.constraint,
            Constraint("rows of tiles transformed at a time are those of a block at most", inside),
        )
        return Space((*knobs, *function_knobs(task)), constraints)

    def default(self, task: Task, machine: Machine) -> Config:
        """Return the most rows whose transformed inputs stay in L2, with the fastest register tile for their products.

        If no divisor of the image's rows fits L2, the image is one block, whose tiles are computed a few rows at a
        time.
        """
        plane = self.plane(task)
        shared = plane.blocks.shared(machine)
        most = max(1, machine.l2_bytes // (BYTES * self.filtering.inputs**2 * plane.across * plane.channels))

        def of_block(block: int) -> tuple[float, bool, int]:
            return -plane.down(block) / block, plane.down(block) <= most, block

        block = max(plane.blocks.blocks_of(shared), key=of_block)
        parts = -(-plane.down(block) // most)
        lines = min(line for line in plane.lines if line >= -(-plane.down(block) // parts))
        like = Contraction(lines * plane.across, plane.filters, plane.channels, constant_b=True)
        best = fastest_tile(self.space(task, machine), like, machine)
        return {
            "block": block,
            "lines": lines,
            "rows": best.rows,
            "width": best.columns,
            **shared,
            **function_defaults(task),
        }

    def build(self, task: Task, config: Config, machine: Machine) -> str:
        """Write the script: loops over images and row blocks around the marked convolution and its consumers."""
        space, plane = self.space(task, machine), self.plane(task)
        space.check(config)
        script = Script(space.knobs, config)
        marks = {ROWS: int(config["rows"]), WIDTH: int(config["width"]), LINES: int(config["lines"])}
        members = [replace(op, filled=None) if op is plane.op else op for op in task.ops]  # the lowering needs no fill
        RowBlockWriter(plane.blocks, script, config, machine).write(members, {**marks, LANES: machine.lanes})
        return script.text

    def rewrites(self, task: Task, config: Config) -> Rewrites:
        """Return the packing of transformed filters in panels as wide as the register tile."""
        return Rewrites(int(config["width"]), precision=self.name, needed=(WINOGRAD,))


@dataclass(frozen=True)
class Plane:
    """Iteration space of a convolution: images, rows, columns and filters, with a reduction over channels.

    Attributes:
        blocks: Blocks of rows.
        filtering: Tile size.
    """

    blocks: RowBlocks
    filtering: Filtering

    @property
    def op(self) -> Op:
        """Convolution op."""
        return self.blocks.op

    @property
    def filters(self) -> int:
        """Number of filters."""
        return self.blocks.sizes[-1]

    @property
    def channels(self) -> int:
        """Number of channels."""
        return self.op.nest.sizes[-1]

    @property
    def lines(self) -> tuple[int, ...]:
        """Candidate numbers of rows of tiles transformed together: those that split all rows of tiles evenly."""
        most = self.down(self.blocks.sizes[-3])
        return tuple(sorted({-(-most // parts) for parts in range(1, most + 1)}))

    @property
    def across(self) -> int:
        """Number of tiles along a row."""
        return -(-self.blocks.sizes[-2] // self.filtering.outputs)

    def down(self, rows: int) -> int:
        """Return the number of rows of tiles for a number of rows."""
        return -(-rows // self.filtering.outputs)


def alone(*loops: int) -> tuple[tuple[tuple[int, int], ...], ...]:
    """Return indices that are one loop each."""
    return tuple(((loop, 1),) for loop in loops)


WINOGRAD_F2, WINOGRAD_F4 = Winograd(Filtering(2)), Winograd(Filtering(4))
