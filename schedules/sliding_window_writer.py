"""The script of an op with a sliding window: loops with a step of one, register tiles, accumulators in registers."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from autotune.core.host.machine import Machine
from autotune.core.ops.op import Lanes, LoopNest, Op
from autotune.core.scripts import marks
from autotune.core.space import Config
from schedules import moves
from schedules.blocking import Piece, cut
from schedules.ends import lanes_of_ends
from schedules.functions import choose_functions
from schedules.group import find_members, fuse_members
from schedules.moves import Script
from schedules.shares import share_outer_loop
from schedules.vectorize import tile_and_vectorize


@dataclass(frozen=True)
class WindowTile:
    """A register tile that has been written.

    Attributes:
        op: Handle of the op in its innermost loop: one element of all loops but the lane.
        width: Elements of it along the lane.
        outermost: Handle of the loop around all that one part of the op became.
        positions: Handle of the loop over the tile's positions, to be unrolled; empty where there is one.
        count: Number of its positions.
        sums: Handle of the outermost loop that sums; empty where nothing is summed.
    """

    op: str
    width: int
    outermost: str
    positions: str
    count: int
    sums: str


@dataclass(frozen=True)
class SlidingWindowWriter:
    """Writes the loops around ops with a sliding window: one alone, or several with the element-wise ops that follow.

    Attributes:
        script: Script that ops are appended to.
        nest: Loops of the op, in a group the one with most to compute.
        lanes: Which of them become a register tile.
        config: Value of every knob.
        machine: Host that the script is written for.
        tiles: Register tiles written so far, to be vectorized when all loops are there.
    """

    script: Script
    nest: LoopNest
    lanes: Lanes
    config: Config
    machine: Machine
    tiles: list[WindowTile] = field(default_factory=list)

    def write_alone(self, filled: int | None) -> None:
        """Schedule ``%op``, whose operand `filled` is filled with a constant first."""
        choose_functions(self.script, self.config, "%op")
        zeros = moves.producer(self.script, "%op", filled) if filled is not None else ""
        op, sizes, loops = share_outer_loop(
            self.script, moves.generalize(self.script, "%op"), self.nest, self.lanes.lane, self.config
        )
        self.tile_loops(op, self.order, sizes, "".join(loops))
        self.start_from(zeros)
        self.finish()

    def write_group(self, members: Sequence[Op]) -> None:
        """Schedule the op inside loops over blocks of ``%op``, the last of the ops that follow it."""
        function = moves.enclosing_function(self.script, "%op")
        handles, fills = find_members(self.script, members, "%op")
        self.script.say("blocks of what comes last; what feeds them is computed where it is used")
        handles[0], _, loops = share_outer_loop(self.script, handles[0], members[0].nest, self.lanes.lane, self.config)
        for dim in self.order:
            handles[0], loop = moves.tile_loop(self.script, handles[0], self.rank_written, dim, self.block[dim])
            loops.append(loop)
            self.mark_ahead(loop, dim)
        fuse_members(self.script, handles, fills, loops)
        moves.shrink_empties(self.script, function)
        for handle, fill, member in reversed(list(zip(handles, fills, members, strict=True))):
            if member.lanes is None:
                self.write_follower(handle, member)
                continue
            inside = replace(self, nest=member.nest, lanes=member.lanes, tiles=[])
            sizes = tuple(self.block.get(dim, size) for dim, size in enumerate(member.nest.sizes))
            inside.tile_loops(
                moves.generalize(self.script, handle), [d for d in self.order if sizes[d] > 1], sizes, loops[0]
            )
            inside.start_from(fill)
            self.tiles.extend(inside.tiles)
        self.finish()

    @property
    def prefetches(self) -> bool:
        """Whether the next panel of the kernel is fetched while one is worked on."""
        return bool(self.config.get("prefetch", False))

    def mark_ahead(self, loop: str, dim: int) -> None:
        """Say what a loop goes over, if the next panel is fetched ahead: panels, or what shares that work."""
        if not self.prefetches:
            return
        lane, *others = self.order
        if dim == lane:
            moves.annotate(self.script, loop, marks.BLOCKS_OF_N)
        elif dim == others[0]:
            moves.annotate(self.script, loop, marks.STRIPS_OF_M)

    @property
    def rank_written(self) -> int:
        """Number of loops that are parallel."""
        return self.nest.iterators.count("parallel")

    @property
    def order(self) -> list[int]:
        """The parallel loops, outermost first."""
        lane, row = self.lanes.lane, self.lanes.row
        if self.config["outside"] == "rows":
            return [d for d, kind in enumerate(self.nest.iterators) if kind == "parallel"]
        others = [d for d, kind in enumerate(self.nest.iterators) if kind == "parallel" and d not in (lane, row)]
        outer = [*others, lane] if self.config["outside"] == "places" else [lane, *others]
        return outer if row is None else [*outer, row]

    @property
    def block(self) -> dict[int, int]:
        """Elements of a block along every parallel loop: a register tile where that divides it, else all."""
        sizes = self.nest.sizes
        wanted = {self.lanes.lane: int(self.config["width"]), self.lanes.row: int(self.config["rows"])}
        steps = {dim: wanted.get(dim, 1) for dim in self.order}
        return {dim: step if sizes[dim] % step == 0 else sizes[dim] for dim, step in steps.items()}

    def tiles_along(self, dim: int, size: int) -> tuple[Piece, ...]:
        """Tiles of a parallel loop: register tiles, and smaller ones for the remainder."""
        if dim == self.lanes.lane:
            masked = lanes_of_ends(self.config, self.machine)
            return cut(size, 0, int(self.config["width"]), powers_of_two=True, masked=masked)
        return cut(size, 0, int(self.config["rows"]) if dim == self.lanes.row else 1)

    def tile_loops(self, op: str, dims: Sequence[int], sizes: Sequence[int], outermost: str, count: int = 1) -> None:
        """Tile the first of `dims`, and in each tile the others; consumes `op`."""
        if not dims:
            self.sum_up(op, sizes, outermost, count)
            return
        dim, *rest = dims
        found = self.tiles_along(dim, sizes[dim])
        parts = moves.split_into(self.script, op, dim, [piece.size for piece in found])
        for piece, part in zip(found, parts, strict=True):
            inside, around = part, outermost
            if piece.register < piece.size or not outermost:
                inside, loop = moves.tile_loop(self.script, part, len(sizes), dim, piece.register)
                around = around or loop
                self.mark_ahead(loop, dim)
            within = [piece.register if d == dim else size for d, size in enumerate(sizes)]
            self.tile_loops(inside, rest, within, around, piece.register if dim == self.lanes.row else count)

    def sum_up(self, op: str, sizes: Sequence[int], outermost: str, count: int) -> None:
        """Loops that sum, and in them one position of the register tile after the other; consumes `op`."""
        sums, positions = "", ""
        for dim, kind in enumerate(self.nest.iterators):
            if kind == "reduction" and sizes[dim] > 1:
                op, loop = moves.tile_loop(self.script, op, len(sizes), dim, 1)
                moves.annotate(self.script, loop, marks.SUMS)
                sums, innermost = sums or loop, loop
        if self.prefetches and sums:
            moves.annotate(self.script, innermost, marks.PREFETCHING)
        if count > 1 and self.lanes.row is not None:
            op, positions = moves.tile_loop(self.script, op, len(sizes), self.lanes.row, 1)
        self.tiles.append(WindowTile(op, sizes[self.lanes.lane], outermost, positions, count, sums))

    def start_from(self, zeros: str) -> None:
        """Let accumulators start from zero, where a handle `zeros` to what fills them so is not empty."""
        if zeros and all(tile.sums for tile in self.tiles):
            moves.annotate(self.script, zeros, marks.ZEROS, len(self.tiles))
            for tile in self.tiles:
                moves.annotate(self.script, tile.sums, marks.FROM_ZERO)

    def finish(self) -> None:
        """Vectorize, and unroll loops over positions."""
        for outermost in dict.fromkeys(tile.outermost for tile in self.tiles):
            tiles = [tile for tile in self.tiles if tile.outermost == outermost]
            moves.vectorize(self.script, moves.drop_unit_loops(self.script, outermost))
            for tile in tiles:
                if inner := tile.sums or tile.positions:
                    write_slices(self.script, inner)
                if tile.positions:
                    moves.unroll_loop(self.script, tile.positions, tile.count)

    def write_follower(self, op: str, member: Op) -> None:
        """Vectors of one block of an element-wise op; consumes `op`."""
        choose_functions(self.script, self.config, op)
        sizes = tuple(self.block[dim] for dim in range(len(member.nest.sizes)))
        lane = len(sizes) - 1
        if lane != self.lanes.lane:
            tile_and_vectorize(self.script, op, sizes, 1, sizes[-1] & -sizes[-1])
            return
        found = self.tiles_along(lane, sizes[lane])
        parts = moves.split_into(self.script, op, lane, [piece.size for piece in found])
        for piece, part in zip(found, parts, strict=True):
            tile_and_vectorize(self.script, part, (*sizes[:lane], piece.size), 1, piece.register)


def write_slices(script: Script, loop: str) -> None:
    """Let vectors inside a loop be read from, and written to, the tensor that they are a slice of.

    Unrolled later, positions of a tile are then separate elements of one tensor, and move out of loops on their own.
    Only of those slices that lie inside: one that is written back outside the loop, cut otherwise, would be copied.
    """
    patterns = ("merge_consecutive_insert_extract_slice", "fold_tensor_subset_ops_into_vector_transfers")
    held = " ".join(f"transform.apply_patterns.tensor.{name}" for name in patterns)
    script.emit(f"transform.apply_patterns to {loop} {{ {held} }} : {moves.ANY}")
