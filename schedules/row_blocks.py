"""Blocks of rows of an image: in each, a window op lowered by a custom pass, then its consumers in vectors.

for n: for h0 step block:   y[n, h0 to h0 + block] = window op;  consumers of the same rows
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod

from autotune.core.host.machine import Machine
from autotune.core.ops.op import Contraction, Lanes, Op, Operand
from autotune.core.space import Config, Constraint, Knob, Space, Value, largest_up_to
from schedules import moves
from schedules.blocking import cut
from schedules.functions import choose_functions
from schedules.group import find_members, fuse_members
from schedules.matmul_model import RegisterTile
from schedules.moves import Script
from schedules.shares import knobs_for, outer_counts, outer_default, outer_loop, pieces, share_outer_loop
from schedules.sliding_window import ORDERS, fastest, row_tiles
from schedules.sliding_window_writer import SlidingWindowWriter
from schedules.vectorize import tile_and_vectorize


@dataclass(frozen=True)
class RowBlocks:
    """Iteration space of a group with window ops that a custom pass lowers.

    Attributes:
        op: Window op with the most work.
        rows: Index of the row loop: the loops before it are tiled by 1, those after it are whole in a block.
        least: Minimum of rows per block.
    """

    op: Op
    rows: int
    least: int = 1

    @property
    def lane(self) -> int:
        """Index of the loop that is vectorized, the last parallel one."""
        return self.op.nest.iterators.count("parallel") - 1

    @property
    def sizes(self) -> tuple[int, ...]:
        """Trip counts of the parallel loops."""
        return self.op.nest.sizes[: self.lane + 1]

    @property
    def counts_of_rows(self) -> tuple[int, ...]:
        """Rows that a block may have: divisors of the rows of the image."""
        rows = self.sizes[self.rows]
        return tuple(count for count in range(self.least, rows + 1) if rows % count == 0)

    def counts(self, machine: Machine) -> tuple[int, ...]:
        """Return the numbers of pieces for threads whose rows suffice for a block."""
        counts = outer_counts(self.op.nest, self.lane, machine)
        return tuple(count for count in counts if self.rows_of_piece({"pieces_m": count}) >= self.least)

    def rows_of_piece(self, config: Config) -> int:
        """Return the rows of an image that one thread computes per piece."""
        rows = self.sizes[self.rows]
        return rows // pieces(config, "m") if outer_loop(self.op.nest, self.lane) == self.rows else rows

    def block(self, config: Config) -> tuple[int, ...]:
        """Return the trip counts of the parallel loops inside a block."""
        inner_sizes = self.sizes[self.rows + 1 :]
        return (*(1 for _ in self.sizes[: self.rows]), int(config["block"]), *inner_sizes)

    def knobs(self, machine: Machine) -> tuple[Knob, ...]:
        """Return the knobs for rows per block and pieces for threads."""
        return Knob("block", self.counts_of_rows), *knobs_for({"m": self.counts(machine)})

    @property
    def constraint(self) -> Constraint:
        """Constraint that blocks divide pieces."""
        return Constraint(
            "rows of a block divide those of a piece",
            lambda config: self.rows_of_piece(config) % int(config["block"]) == 0,
        )

    def shared(self, machine: Machine) -> Config:
        """Return the default number of pieces for threads; empty without a choice."""
        counts = self.counts(machine)
        if len(counts) == 1:
            return {}
        preferred = pieces(outer_default(self.op.nest, self.lane, machine), "m")
        return {"pieces_m": largest_up_to(preferred, counts)}

    def blocks_of(self, config: Config) -> list[int]:
        """Return the rows per block that divide the pieces of a config."""
        return [block for block in self.counts_of_rows if self.rows_of_piece(config) % block == 0]


@dataclass(frozen=True)
class RowBlockWriter:
    """Writer of loops over blocks, with all ops of a group inside.

    Attributes:
        blocks: Iteration space of the group.
        script: Script that ops are appended to.
        config: Rows per block, elements of a register tile along the lane ("width"), pieces for threads.
        machine: Host that the script is written for.
    """

    blocks: RowBlocks
    script: Script
    config: Config
    machine: Machine

    @property
    def width(self) -> int:
        """Length of a register tile along the lane, in elements."""
        return int(self.config["width"])

    def write(self, members: Sequence[Op], marks: Mapping[str, int]) -> None:
        """Schedule the whole group.

        Args:
            members: The group's ops, the root first. Window ops without a fill of their destination are lowered by a
                custom pass; the other window ops are written as register tiles.
            marks: Attributes of the former, by name.
        """
        function = moves.enclosing_function(self.script, "%op")
        handles, fills = find_members(self.script, members, "%op")
        nest, lane = members[0].nest, self.blocks.lane
        handles[0], sizes, loops = share_outer_loop(self.script, handles[0], nest, lane, self.config)
        for dim, step in enumerate(self.blocks.block(self.config)):
            if step < sizes[dim]:
                handles[0], loop = moves.tile_loop(self.script, handles[0], len(sizes), dim, step)
                loops.append(loop)
        if len(members) > 1 and loops:
            fuse_members(self.script, handles, fills, loops)
            moves.shrink_empties(self.script, function)
        for handle, fill, op in reversed(list(zip(handles, fills, members, strict=True))):
            if op.lanes is None:
                self.write_follower(handle)
            elif op.filled is None:
                for name, value in marks.items():
                    moves.annotate(self.script, handle, name, value)
            else:
                self.write_window(handle, fill, op, op.lanes)

    def write_follower(self, op: str) -> None:
        """Vectorize an element-wise op on a block; consumes `op`."""
        choose_functions(self.script, self.config, op)
        *outer_sizes, size = self.blocks.block(self.config)
        pieces = cut(size, 0, self.width & -self.width, powers_of_two=True)
        parts = moves.split_into(self.script, op, self.blocks.lane, [piece.size for piece in pieces])
        for piece, part in zip(pieces, parts, strict=True):
            tile_and_vectorize(self.script, part, (*outer_sizes, piece.size), 1, piece.register)

    def write_window(self, handle: str, fill: str, op: Op, lanes: Lanes) -> None:
        """Write register tiles for another window op, on a block of its result; consumes `handle`.

        They are as wide as those of the marked ops, since its kernel is packed in panels of that width, too.
        """
        block = self.blocks.block(self.config)
        nest = replace(op.nest, sizes=(*block, *op.nest.sizes[len(block) :]))
        rows = row_tiles(nest.sizes[lanes.row]) if lanes.row is not None else (1,)
        tiles = [tile_of(row, self.width, self.machine) for row in rows]
        like = Contraction(rows[-1], nest.sizes[lanes.lane], prod(nest.reduced), constant_b=True)
        best = fastest(like, tiles, self.machine, is_masked=False)
        config: Config = {"rows": best.rows, "width": self.width, "outside": ORDERS[0]}
        writer = SlidingWindowWriter(self.script, nest, lanes, config, self.machine)
        tiled = [d for d in writer.order if nest.sizes[d] > 1]
        writer.tile_loops(moves.generalize(self.script, handle), tiled, nest.sizes, "")
        writer.start_from(fill)
        writer.finish()


def tile_of(rows: Value, width: Value, machine: Machine) -> RegisterTile:
    """Return the register tile for these values of the knobs."""
    return RegisterTile(int(rows), int(width) // machine.lanes, machine.lanes)


def fastest_tile(space: Space, like: Contraction, machine: Machine) -> RegisterTile:
    """Return the fastest register tile for a product, among those that the knobs allow."""
    values = {knob.name: knob.values for knob in space.knobs}
    tiles = [tile_of(rows, width, machine) for rows, width in product(values["rows"], values["width"])]
    return fastest(like, tiles, machine, is_masked=True)


def is_beside(op: Op, window: Op) -> bool:
    """Return whether an op writes the elements that a window op does: element-wise, or by windows of the same lane."""
    count = window.nest.iterators.count("parallel")
    if op.nest.sizes[:count] != window.nest.sizes[:count] or op.nest.iterators.count("parallel") != count:
        return False
    if op.lanes is None:
        return len(op.nest.sizes) == count
    return op.lanes.lane == count - 1 and (op is window or op.filled is not None)


def starts_from_zero(op: Op) -> bool:
    """Return whether an op's sums start from zero; a custom pass then overwrites its destination without a read."""
    return op.filled is not None and op.operands[op.filled].start == 0


def is_of_loops(operand: Operand) -> bool:
    """Return whether every index is a sum of multiples of loops, without constants or divisions."""
    return not any(index.constant or index.parts for index in operand.indices)
