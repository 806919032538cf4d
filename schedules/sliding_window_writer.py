"""Writer for ops with a sliding window: loops with a step of one, register tiles, accumulators in registers."""

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
    """Handles of a register tile that has been emitted.

    Attributes:
        op: Handle of the op in its innermost loop, of size 1 along all loops but the lane.
        width: Number of its elements along the lane.
        outermost: Handle of the outermost loop around one part of the op.
        positions: Handle of the loop over the tile's positions, to be unrolled; empty if there is a single one.
        count: Number of positions.
        sums: Handle of the outermost reduction loop; empty if nothing is summed.
    """

    op: str
    width: int
    outermost: str
    positions: str
    count: int
    sums: str


@dataclass(frozen=True)
class SlidingWindowWriter:
    """Writer of the loops around ops with a sliding window: one op, or several with their element-wise consumers.

    Attributes:
        script: Script that ops are appended to.
        nest: Loops of the op; in a group those of the op with the most work.
        lanes: Loops that form a register tile.
        config: Value of every knob.
        machine: Host that the script is written for.
        tiles: Register tiles emitted so far, vectorized once all loops exist.
    """

    script: Script
    nest: LoopNest
    lanes: Lanes
    config: Config
    machine: Machine
    tiles: list[WindowTile] = field(default_factory=list)

    def write_alone(self, filled: int | None) -> None:
        """Schedule ``%op``; `filled` is the index of its operand that is filled with a constant first."""
        choose_functions(self.script, self.config, "%op")
        zeros = moves.producer(self.script, "%op", filled) if filled is not None else ""
        op, sizes, loops = share_outer_loop(
            self.script, moves.generalize(self.script, "%op"), self.nest, self.lanes.lane, self.config
        )
        self.tile_loops(op, self.order, sizes, "".join(loops))
        self.start_from(zeros)
        self.finish()

    def write_group(self, members: Sequence[Op]) -> None:
        """Schedule the group of ``%op``, the root: tile the root into blocks and compute its producers per block."""
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
            member_writer = replace(self, nest=member.nest, lanes=member.lanes, tiles=[])
            sizes = tuple(self.block.get(dim, size) for dim, size in enumerate(member.nest.sizes))
            member_writer.tile_loops(
                moves.generalize(self.script, handle), [d for d in self.order if sizes[d] > 1], sizes, loops[0]
            )
            member_writer.start_from(fill)
            self.tiles.extend(member_writer.tiles)
        self.finish()

    @property
    def prefetches(self) -> bool:
        """Whether the next panel of the kernel is prefetched while the current one is used."""
        return bool(self.config.get("prefetch", False))

    def mark_ahead(self, loop: str, dim: int) -> None:
        """Mark a loop for prefetching as a loop over panels, or over strips that share a panel."""
        if not self.prefetches:
            return
        lane, *outer_dims = self.order
        if dim == lane:
            moves.annotate(self.script, loop, marks.BLOCKS_OF_N)
        elif dim == outer_dims[0]:
            moves.annotate(self.script, loop, marks.STRIPS_OF_M)

    @property
    def rank_written(self) -> int:
        """Number of parallel loops."""
        return self.nest.iterators.count("parallel")

    @property
    def order(self) -> list[int]:
        """Parallel loops, outermost first."""
        lane, row = self.lanes.lane, self.lanes.row
        if self.config["outside"] == "rows":
            return [d for d, iterator in enumerate(self.nest.iterators) if iterator == "parallel"]
        rest = [d for d, iterator in enumerate(self.nest.iterators) if iterator == "parallel" and d not in (lane, row)]
        outer = [*rest, lane] if self.config["outside"] == "places" else [lane, *rest]
        return outer if row is None else [*outer, row]

    @property
    def block(self) -> dict[int, int]:
        """Block size along every parallel loop: the register tile if that divides the trip count, else all of it."""
        sizes = self.nest.sizes
        tile_sizes = {self.lanes.lane: int(self.config["width"]), self.lanes.row: int(self.config["rows"])}
        steps = {dim: tile_sizes.get(dim, 1) for dim in self.order}
        return {dim: step if sizes[dim] % step == 0 else sizes[dim] for dim, step in steps.items()}

    def tiles_along(self, dim: int, size: int) -> tuple[Piece, ...]:
        """Return the tiles of a parallel loop: register tiles, and smaller ones for the remainder."""
        if dim == self.lanes.lane:
            masked = lanes_of_ends(self.config, self.machine)
            return cut(size, 0, int(self.config["width"]), powers_of_two=True, masked=masked)
        return cut(size, 0, int(self.config["rows"]) if dim == self.lanes.row else 1)

    def tile_loops(self, op: str, dims: Sequence[int], sizes: Sequence[int], outermost: str, count: int = 1) -> None:
        """Tile the first of `dims`, then the others inside each tile; consumes `op`."""
        if not dims:
            self.sum_up(op, sizes, outermost, count)
            return
        dim, *rest = dims
        pieces = self.tiles_along(dim, sizes[dim])
        parts = moves.split_into(self.script, op, dim, [piece.size for piece in pieces])
        for piece, part in zip(pieces, parts, strict=True):
            inner_op, nest_root = part, outermost
            if piece.register < piece.size or not outermost:
                inner_op, loop = moves.tile_loop(self.script, part, len(sizes), dim, piece.register)
                nest_root = nest_root or loop
                self.mark_ahead(loop, dim)
            within = [piece.register if d == dim else size for d, size in enumerate(sizes)]
            self.tile_loops(inner_op, rest, within, nest_root, piece.register if dim == self.lanes.row else count)

    def sum_up(self, op: str, sizes: Sequence[int], outermost: str, count: int) -> None:
        """Emit the reduction loops and, inside them, the loop over the register tile's positions; consumes `op`."""
        sums, positions = "", ""
        for dim, iterator in enumerate(self.nest.iterators):
            if iterator == "reduction" and sizes[dim] > 1:
                op, loop = moves.tile_loop(self.script, op, len(sizes), dim, 1)
                moves.annotate(self.script, loop, marks.SUMS)
                sums, innermost = sums or loop, loop
        if self.prefetches and sums:
            moves.annotate(self.script, innermost, marks.PREFETCHING)
        if count > 1 and self.lanes.row is not None:
            op, positions = moves.tile_loop(self.script, op, len(sizes), self.lanes.row, 1)
        self.tiles.append(WindowTile(op, sizes[self.lanes.lane], outermost, positions, count, sums))

    def start_from(self, zeros: str) -> None:
        """Mark accumulators to start from zero, given the handle of their destination's fill (empty if none)."""
        if zeros and all(tile.sums for tile in self.tiles):
            moves.annotate(self.script, zeros, marks.ZEROS, len(self.tiles))
            for tile in self.tiles:
                moves.annotate(self.script, tile.sums, marks.FROM_ZERO)

    def finish(self) -> None:
        """Vectorize all tiles and unroll their loops over positions."""
        for outermost in dict.fromkeys(tile.outermost for tile in self.tiles):
            tiles = [tile for tile in self.tiles if tile.outermost == outermost]
            moves.vectorize(self.script, moves.drop_unit_loops(self.script, outermost))
            for tile in tiles:
                if inner := tile.sums or tile.positions:
                    write_slices(self.script, inner)
                if tile.positions:
                    moves.unroll_loop(self.script, tile.positions, tile.count)

    def write_follower(self, op: str, member: Op) -> None:
        """Vectorize one block of an element-wise op; consumes `op`."""
        choose_functions(self.script, self.config, op)
        sizes = tuple(self.block[dim] for dim in range(len(member.nest.sizes)))
        lane = len(sizes) - 1
        if lane != self.lanes.lane:
            tile_and_vectorize(self.script, op, sizes, 1, sizes[-1] & -sizes[-1])
            return
        pieces = self.tiles_along(lane, sizes[lane])
        parts = moves.split_into(self.script, op, lane, [piece.size for piece in pieces])
        for piece, part in zip(pieces, parts, strict=True):
            tile_and_vectorize(self.script, part, (*sizes[:lane], piece.size), 1, piece.register)


def write_slices(script: Script, loop: str) -> None:
    """Fold slices into the vector transfers inside a loop, so that they access the sliced tensor directly.

    After unrolling, the positions of a tile are then distinct elements of one tensor and can be hoisted from loops
    separately. Only slices inside the loop are folded: one written back outside it, split differently, would be copied.
    """
    patterns = ("merge_consecutive_insert_extract_slice", "fold_tensor_subset_ops_into_vector_transfers")
    patterns_text = " ".join(f"transform.apply_patterns.tensor.{name}" for name in patterns)
    script.emit(f"transform.apply_patterns to {loop} {{ {patterns_text} }} : {moves.ANY}")
