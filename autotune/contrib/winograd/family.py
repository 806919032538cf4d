"""Schedules for convolutions by Winograd's transform, alone or with the element-wise ops that follow.

    for n: for h0 step block:   y[n, h0 to h0 + block] = code of ours (`code.py`);  what follows, on the same rows

They round as f32 does, but in other places: a tile's products are summed over channels before they are combined, and
four outputs a tile are off by about twice as much as direct sums. So they compete where an error is allowed.
"""

from dataclasses import dataclass, replace
from itertools import product
from math import prod

from autotune.contrib.winograd.marks import LANES, LINES, ROWS, WIDTH, WINOGRAD
from autotune.contrib.winograd.transform import TAPS, Filtering
from autotune.core.errors import ScheduleError
from autotune.core.host.machine import Machine
from autotune.core.ops.op import Contraction, Op
from autotune.core.plugs.family import Family
from autotune.core.plugs.rewrites import Rewrites
from autotune.core.space import Config, Constraint, Knob, Space
from autotune.core.task import Task
from schedules import moves
from schedules.blocking import cut
from schedules.functions import choose_functions, function_defaults, function_knobs
from schedules.group import find_members, fuse_members
from schedules.matmul_model import RegisterTile
from schedules.moves import Script
from schedules.shares import knobs_for, outer_counts, outer_default, outer_loop, pieces, share_outer_loop
from schedules.sliding_window import ORDERS, fastest, fits, row_tiles
from schedules.sliding_window_writer import SlidingWindowWriter
from schedules.vectorize import tile_and_vectorize

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
        if lanes is None or not (lanes.products and lanes.constant_b) or op.filled is None or len(sizes) < LOOPS:
            return False
        *lead, h, w, f, i, j, c = range(len(sizes))
        x, kernel, y = (each.terms for each in op.operands)
        inputs = (*alone(*lead), ((h, 1), (i, 1)), ((w, 1), (j, 1)), *alone(c))
        if (x, kernel, y) != (inputs, alone(i, j, c, f), alone(*lead, h, w, f)):
            return False
        plain = all(each.dtype == "f32" for each in op.operands)
        many = min(sizes[h], sizes[w]) >= self.filtering.outputs and min(sizes[c], sizes[f]) >= LEAST
        return plain and many and sizes[i] == sizes[j] == TAPS

    def plane(self, task: Task) -> "Plane":
        """What the convolution of a task goes over."""
        return Plane(next(op for op in task.ops if self.takes(op)), self.filtering)

    def space(self, task: Task, machine: Machine) -> Space:
        """Rows of a block, rows of tiles transformed at a time, tiles and filters of a register tile."""
        plane = self.plane(task)
        alone = sum(op.lanes is not None for op in task.ops) == 1
        vectors = [count for count in VECTORS if alone or count & count - 1 == 0]  # LLVM makes other vectors scalar
        knobs = [
            Knob("block", plane.blocks),
            Knob("lines", plane.lines),
            Knob("rows", REGISTER_ROWS),
            Knob("width", tuple(count * machine.lanes for count in vectors)),
            *knobs_for({"m": plane.counts(machine)}),
        ]

        def registers(config: Config) -> bool:
            tile = RegisterTile(int(config["rows"]), int(config["width"]) // machine.lanes, machine.lanes)
            return fits(tile, machine)

        def divides(config: Config) -> bool:
            return plane.rows_of_piece(config) % int(config["block"]) == 0

        def inside(config: Config) -> bool:
            return int(config["lines"]) <= plane.down(int(config["block"]))

        constraints = (
            Constraint(f"products, filters and an input fit {machine.vector_registers} registers", registers),
            Constraint("rows of a block divide those of a piece", divides),
            Constraint("rows of tiles transformed at a time are those of a block at most", inside),
        )
        return Space((*knobs, *function_knobs(task)), constraints)

    def default(self, task: Task, machine: Machine) -> Config:
        """The most rows whose transformed inputs stay in L2, and the register tile that does their products first.

        Where no such number of rows divides those of a plane, the plane is one block, and its tiles come a few rows at
        a time.
        """
        plane = self.plane(task)
        wanted = pieces(outer_default(plane.op.nest, plane.lane, machine), "m")
        counts = plane.counts(machine)
        shared = {"pieces_m": max(count for count in counts if count <= wanted)} if len(counts) > 1 else {}
        rest = plane.rows_of_piece(shared)

        most = max(1, machine.l2_bytes // (BYTES * self.filtering.inputs**2 * plane.across * plane.channels))

        def of_block(block: int) -> tuple[float, bool, int]:
            return -plane.down(block) / block, plane.down(block) <= most, block

        block = max((block for block in plane.blocks if rest % block == 0), key=of_block)
        parts = -(-plane.down(block) // most)
        lines = min(line for line in plane.lines if line >= -(-plane.down(block) // parts))
        like = Contraction(lines * plane.across, plane.filters, plane.channels, constant_b=True)
        values = {knob.name: knob.values for knob in self.space(task, machine).knobs}
        pairs = product(values["rows"], values["width"])
        tiles = [RegisterTile(int(rows), int(width) // machine.lanes, machine.lanes) for rows, width in pairs]
        best = fastest(like, tiles, machine, is_masked=True)
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
        function = moves.enclosing_function(script, "%op")
        members = [replace(op, filled=None) if op is plane.op else op for op in task.ops]  # code of ours fills nothing
        handles, fills = find_members(script, members, "%op")
        handles[0], sizes, loops = share_outer_loop(script, handles[0], task.nest, plane.lane, config)
        for dim, step in enumerate(plane.block(config)):
            if step < sizes[dim]:
                handles[0], loop = moves.tile_loop(script, handles[0], len(sizes), dim, step)
                loops.append(loop)
        if task.is_group and loops:
            fuse_members(script, handles, fills, loops)
            moves.shrink_empties(script, function)
        for handle, fill, op in reversed(list(zip(handles, fills, task.ops, strict=True))):
            if op is plane.op:
                values = {ROWS: "rows", WIDTH: "width", LINES: "lines"}
                for mark, value in {
                    **{mark: config[name] for mark, name in values.items()},
                    LANES: machine.lanes,
                }.items():
                    moves.annotate(script, handle, mark, int(value))
            elif op.lanes is not None:
                write_window(script, handle, fill, op, plane.block(config), int(config["width"]), machine)
            else:
                choose_functions(script, config, handle)
                width = int(config["width"])
                found = cut(plane.filters, 0, width & -width, powers_of_two=True)
                parts = moves.split_into(script, handle, plane.lane, [piece.size for piece in found])
                for piece, part in zip(found, parts, strict=True):
                    tile_and_vectorize(script, part, (*plane.block(config)[:-1], piece.size), 1, piece.register)
        return script.text

    def rewrites(self, task: Task, config: Config) -> Rewrites:
        """Transformed filters, in panels as wide as the register tile."""
        return Rewrites(int(config["width"]), precision=self.name, needed=(WINOGRAD,))


@dataclass(frozen=True)
class Plane:
    """What a convolution goes over: images, rows, columns and filters, with channels summed.

    Attributes:
        op: The convolution.
        filtering: Size of a tile.
    """

    op: Op
    filtering: Filtering

    @property
    def sizes(self) -> tuple[int, ...]:
        """Images, rows, columns, filters."""
        return self.op.nest.sizes[: self.lane + 1]

    @property
    def lane(self) -> int:
        """The loop over filters."""
        return self.op.nest.iterators.count("parallel") - 1

    @property
    def filters(self) -> int:
        """Number of filters."""
        return self.sizes[-1]

    @property
    def channels(self) -> int:
        """Number of channels."""
        return self.op.nest.sizes[-1]

    @property
    def blocks(self) -> tuple[int, ...]:
        """Rows that a block may have: they divide those of the plane, and are those of a tile or more."""
        rows = self.sizes[-3]
        return tuple(each for each in range(self.filtering.outputs, rows + 1) if rows % each == 0)

    def counts(self, machine: Machine) -> tuple[int, ...]:
        """Numbers of pieces that threads may share, each of a tile or more."""
        found = outer_counts(self.op.nest, self.lane, machine)
        return tuple(count for count in found if self.rows_of_piece({"pieces_m": count}) >= self.filtering.outputs)

    def rows_of_piece(self, config: Config) -> int:
        """Rows of a plane that one thread computes at a time."""
        rows = self.sizes[-3]
        return rows // pieces(config, "m") if outer_loop(self.op.nest, self.lane) == self.lane - 2 else rows

    def block(self, config: Config) -> tuple[int, ...]:
        """Trip counts of loops in a block: one image, some rows."""
        return (*(1 for _ in self.sizes[:-3]), int(config["block"]), *self.sizes[-2:])

    @property
    def lines(self) -> tuple[int, ...]:
        """Rows of tiles that may be transformed at a time: few, and such as cut those of a plane in equal parts."""
        most = self.down(self.sizes[-3])
        return tuple(sorted({-(-most // parts) for parts in range(1, most + 1)}))

    @property
    def across(self) -> int:
        """Tiles along a row."""
        return -(-self.sizes[-2] // self.filtering.outputs)

    def down(self, rows: int) -> int:
        """Rows of tiles of so many rows."""
        return -(-rows // self.filtering.outputs)


def write_window(
    script: Script, op: str, fill: str, window: Op, block: tuple[int, ...], width: int, machine: Machine
) -> None:
    """Register tiles of another op with windows, on a block of what it writes; consumes `op`.

    They are as wide as those of the convolution: its kernel lies in panels of that width, too.
    """
    lanes = window.lanes
    if lanes is None:
        raise ScheduleError("an op with windows must have lanes, this one has none")
    nest = replace(window.nest, sizes=(*block, *window.nest.sizes[len(block) :]))
    rows = row_tiles(nest.sizes[lanes.row]) if lanes.row is not None else (1,)
    tiles = [RegisterTile(row, width // machine.lanes, machine.lanes) for row in rows]
    like = Contraction(rows[-1], nest.sizes[lanes.lane], prod(nest.reduced), constant_b=True)
    best = fastest(like, tiles, machine, is_masked=False)
    writer = SlidingWindowWriter(
        script, nest, lanes, {"rows": best.rows, "width": width, "outside": ORDERS[0]}, machine
    )
    writer.tile_loops(moves.generalize(script, op), [d for d in writer.order if nest.sizes[d] > 1], nest.sizes, "")
    writer.start_from(fill)
    writer.finish()


def alone(*loops: int) -> tuple[tuple[tuple[int, int], ...], ...]:
    """Indices that are a loop each."""
    return tuple(((loop, 1),) for loop in loops)


def is_beside(op: Op, convolution: Op) -> bool:
    """Whether an op writes what a convolution does: element by element, or by windows along the same lanes."""
    count = convolution.nest.iterators.count("parallel")
    if op.nest.sizes[:count] != convolution.nest.sizes[:count] or op.nest.iterators.count("parallel") != count:
        return False
    if op.lanes is None:
        return len(op.nest.sizes) == count
    return op.lanes.lane == count - 1 and (op is convolution or op.filled is not None)


WINOGRAD_F2, WINOGRAD_F4 = Winograd(Filtering(2)), Winograd(Filtering(4))
