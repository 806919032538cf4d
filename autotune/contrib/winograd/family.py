"""Schedules for convolutions by Winograd's transform, alone or with the element-wise ops that follow.

    for n: for h0 step block:   y[n, h0 to h0 + block] = code of ours (`code.py`);  what follows, on the same rows

They round as f32 does, but in other places: a tile's products are summed over channels before they are combined, and
four outputs a tile are off by about twice as much as direct sums. So they compete where an error is allowed.
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
LOOPS = 6  # over a plane, filters, taps and channels; more over images
LEAST = 8  # channels, and filters: of fewer, transforms take longer than they save
BYTES = 4
UNIT = 2.0**-24  # half the distance from 1 to the next value


@dataclass(frozen=True)
class Winograd(Family):
    """The family for one size of tiles.

    Attributes:
        filtering: Size of a tile.
        fallback: Steps in where nothing else covers a task; never.
    """

    filtering: Filtering
    fallback: bool = False

    @property
    def name(self) -> str:
        """That of the size of a tile."""
        return self.filtering.name

    @property
    def error(self) -> float:
        """How much tiles enlarge the error of f32: by magnitudes of what outputs are combined of."""
        return UNIT * self.filtering.outputs

    @property
    def saving(self) -> float:
        """Products of a tile by direct sums, over those by the transform."""
        return (self.filtering.outputs * TAPS / self.filtering.inputs) ** 2

    def covers(self, task: Task) -> bool:
        """A 3 x 3 convolution of many channels in steps of 1, channels last, and what its results are combined with."""
        found = [number for number, op in enumerate(task.ops) if self.takes(op)]
        if len(found) != 1 or task.grows:
            return False
        feeds = any(number and op.reader == found[0] for number, op in enumerate(task.ops))
        return not feeds and all(is_beside(op, task.ops[found[0]]) for op in task.ops)

    def takes(self, op: Op) -> bool:
        """Whether an op is such a convolution: ``y[.., h, w, f] += x[.., h + i, w + j, c] k[i, j, c, f]``."""
        lanes, sizes = op.lanes, op.nest.sizes
        if lanes is None or not (lanes.products and lanes.constant_b and starts_from_zero(op)) or len(sizes) < LOOPS:
            return False
        *lead, h, w, f, i, j, c = range(len(sizes))
        x, kernel, y = (each.terms for each in op.operands)
        inputs = (*alone(*lead), ((h, 1), (i, 1)), ((w, 1), (j, 1)), *alone(c))
        if (x, kernel, y) != (inputs, alone(i, j, c, f), alone(*lead, h, w, f)):
            return False
        plain = all(each.dtype == "f32" and is_of_loops(each) for each in op.operands)
        many = min(sizes[h], sizes[w]) >= self.filtering.outputs and min(sizes[c], sizes[f]) >= LEAST
        return plain and many and sizes[i] == sizes[j] == TAPS

    def plane(self, task: Task) -> "Plane":
        """What the convolution of a task goes over."""
        op = next(op for op in task.ops if self.takes(op))
        rows = op.nest.iterators.count("parallel") - 3
        return Plane(RowBlocks(op, rows, least=self.filtering.outputs), self.filtering)

    def space(self, task: Task, machine: Machine) -> Space:
        """Rows of a block, rows of tiles transformed at a time, tiles and filters of a register tile."""
        plane = self.plane(task)
        alone = sum(op.lanes is not None for op in task.ops) == 1
        vectors = [count for count in VECTORS if alone or count & count - 1 == 0]  # LLVM makes other vectors scalar
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
        """The most rows whose transformed inputs stay in L2, and the register tile that does their products first.

        Where no such number of rows divides those of a plane, the plane is one block, and its tiles come a few rows at
        a time.
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
        """Loops over images and blocks of rows; in them the marked convolution, and vectors of what follows."""
        space, plane = self.space(task, machine), self.plane(task)
        space.check(config)
        script = Script(space.knobs, config)
        marks = {ROWS: int(config["rows"]), WIDTH: int(config["width"]), LINES: int(config["lines"])}
        members = [replace(op, filled=None) if op is plane.op else op for op in task.ops]  # code of ours fills nothing
        RowBlockWriter(plane.blocks, script, config, machine).write(members, {**marks, LANES: machine.lanes})
        return script.text

    def rewrites(self, task: Task, config: Config) -> Rewrites:
        """Transformed filters, in panels as wide as the register tile."""
        return Rewrites(int(config["width"]), precision=self.name, needed=(WINOGRAD,))


@dataclass(frozen=True)
class Plane:
    """What a convolution goes over: images, rows, columns and filters, with channels summed.

    Attributes:
        blocks: Blocks of its rows.
        filtering: Size of a tile.
    """

    blocks: RowBlocks
    filtering: Filtering

    @property
    def op(self) -> Op:
        """The convolution."""
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
        """Rows of tiles that may be transformed at a time: few, and such as cut those of a plane in equal parts."""
        most = self.down(self.blocks.sizes[-3])
        return tuple(sorted({-(-most // parts) for parts in range(1, most + 1)}))

    @property
    def across(self) -> int:
        """Tiles along a row."""
        return -(-self.blocks.sizes[-2] // self.filtering.outputs)

    def down(self, rows: int) -> int:
        """Rows of tiles of so many rows."""
        return -(-rows // self.filtering.outputs)


def alone(*loops: int) -> tuple[tuple[tuple[int, int], ...], ...]:
    """Indices that are a loop each."""
    return tuple(((loop, 1),) for loop in loops)


WINOGRAD_F2, WINOGRAD_F4 = Winograd(Filtering(2)), Winograd(Filtering(4))
