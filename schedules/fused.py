"""Family for fusion groups, in one loop over row blocks: softmax, layer norm, contraction with epilogue, attention.

The root's rows are tiled and all producers are fused into the loop. Each op is then scheduled in place: contractions as
in `schedules.matmul`, other ops in vectors along the row. With ``fuse=False`` each op keeps a loop of its own.
"""

from dataclasses import dataclass, replace

from autotune.core.errors import ScheduleError
from autotune.core.host.machine import Machine
from autotune.core.ops.op import Op
from autotune.core.plugs.family import Family
from autotune.core.plugs.rewrites import Blocks, Rewrites
from autotune.core.scripts.marks import HIDDEN, NEXT_ROWS, PIECES_OF_M, ROW_BLOCKS, WRITTEN_ROWS
from autotune.core.space import Config, Space
from autotune.core.task import Task
from schedules import moves
from schedules.blocking import DIMS, Loop
from schedules.ends import mark_ends, needed_for, seen_by
from schedules.features import group_features
from schedules.functions import function_defaults, function_knobs
from schedules.fused_model import default_config
from schedules.fused_shape import (
    block_columns,
    contraction_config,
    online_columns,
    piece_of_group,
    shape_of,
    tile_of,
)
from schedules.fused_space import fused_space
from schedules.group import ROUNDING, GroupWriter, find_members, fuse_members
from schedules.matmul import MatmulWriter, OpenLoop
from schedules.matmul_space import columns_of
from schedules.moves import Script
from schedules.online import OnlineWriter
from schedules.predicted import group_cycles
from schedules.shares import pieces, tile_parallel

SHARED = "shared"  # level of a parallel loop


@dataclass(frozen=True)
class Fused(Family):
    """Fusion groups: several ops, such as attention, softmax or a contraction with its consumers."""

    name: str = "fused"
    fallback: bool = False

    @property
    def writer(self) -> type["FusedWriter"]:
        """Writer of its scripts, but for an online softmax."""
        return FusedWriter

    def covers(self, task: Task) -> bool:
        """Return whether the task is a group of rows; a batch must have no other unit dimension, as all are dropped."""
        if not task.is_group or task.grows or any(op.lanes for op in task.ops):
            return False
        lead = shape_of(task).rows - 1
        if not all(op.contraction or len(op.nest.sizes) <= lead + 2 for op in task.ops):
            return False
        return lead < 1 or all(1 not in op.nest.sizes[lead:] for op in task.ops)

    def space(self, task: Task, machine: Machine) -> Space:
        """Return the knobs for blocks of rows and columns, for vectors, and of each contraction."""
        space = fused_space(shape_of(task), seen_by(task, machine))
        return replace(space, knobs=(*space.knobs, *function_knobs(task)))

    def default(self, task: Task, machine: Machine) -> Config:
        """Return the default: fused, with blocks that stay in the caches."""
        shape = shape_of(task)
        machine = seen_by(task, machine)
        return {**default_config(shape, fused_space(shape, machine), machine), **function_defaults(task)}

    def features(self, task: Task, config: Config, machine: Machine) -> dict[str, float]:
        """Return the features that determine a config's speed."""
        return group_features(shape_of(task), config, seen_by(task, machine))

    def predicted_cycles(self, task: Task, config: Config, machine: Machine, in_l1: float) -> float:
        """Return the cycles of a call's contractions from those of a multiply-add in the hot loop; 0 if it has none."""
        return group_cycles(shape_of(task), config, seen_by(task, machine), in_l1)

    def rewrites(self, task: Task, config: Config) -> Rewrites:
        """Return the rewrites: blocks of an online softmax, or panels as wide as the register tile if packed before."""
        shape, needed = piece_of_group(shape_of(task), config), needed_for(config)
        if columns := online_columns(config):
            blocks = Blocks(int(config["rows"]), columns, config.get("hidden") == "skipped")
            return Rewrites(blocks=blocks, needed=needed)
        for index in range(len(shape.contractions)):
            inner_config = contraction_config(shape, config, index)
            if inner_config["pack_b"] == "beforehand":
                return Rewrites(columns_of(inner_config), needed=needed)
        return Rewrites(needed=needed)

    def build(self, task: Task, config: Config, machine: Machine) -> str:
        """Write the script: find the ops of the group, fuse them into the loops of ``%op``, and schedule each."""
        if not task.is_group:
            raise ScheduleError(
                f"schedule 'fused' needs a task of several ops, got {task.tag}; try schedule 'vectorize'"
            )
        space = self.space(task, machine)
        space.check(config)
        writer_class = OnlineWriter if online_columns(config) else self.writer
        shape = piece_of_group(shape_of(task), config)
        writer = writer_class(Script(space.knobs, config), task.ops, shape, config, seen_by(task, machine))
        mark_ends(writer.script, config)
        writer.write()
        return writer.script.text


@dataclass(frozen=True)
class FusedWriter(GroupWriter):
    """Writer that fuses the ops of a group into loops over the root's rows and schedules each in place."""

    def write(self) -> None:
        """Schedule the whole group."""
        function = moves.enclosing_function(self.script, "%op")
        root, scope = ("%op", "") if self.shape.rows == 1 else self.open_batch(function)
        handles, fills = self.find_members(root, not scope)
        loops: list[OpenLoop] = []
        if self.config["fuse"]:
            handles[0], loops = self.tile_root(root)
            if loops:
                self.fuse_members(handles, fills, loops)
            if pieces(self.config, "m") > 1:
                moves.annotate(self.script, loops[0].handle, PIECES_OF_M, self.shape.most_rows)
            loops = [loop for loop in loops if loop.loop.level != SHARED]
            moves.shrink_empties(self.script, function)
            if self.skips:
                moves.annotate(self.script, loops[0].handle, ROW_BLOCKS, self.shape.period or None)
            if self.config.get("prefetch_rows"):
                moves.annotate(self.script, loops[0].handle, NEXT_ROWS)
            if self.config.get("prefetch_written"):
                moves.annotate(self.script, loops[0].handle, WRITTEN_ROWS)
        contractions = self.open_contractions(handles, fills, loops, function, scope)
        for member, handle in reversed(list(zip(self.members, handles, strict=True))):
            if member.kind == ROUNDING:
                if self.skips and member.masked_loop is not None:
                    moves.annotate(self.script, handle, HIDDEN)
            elif not member.contraction:
                self.write_member(handle, member)
        for writer in contractions:
            writer.vectorize()

    def open_batch(self, function: str) -> tuple[str, str]:
        """Tile every leading dimension by 1 around the whole group and drop the unit dimensions inside.

        Returns:
            Handle of the root, and that of the outermost loop.
        """
        self.script.say("one product of the batch at a time, with all that belongs to it")
        handles, fills = self.find_members("%op", True)
        rank = len(self.members[0].nest.sizes)
        op, loops = "%op", []
        if pieces(self.config, "b") > 1:
            op, handle = tile_parallel(self.script, op, [self.shape.sizes[0], *[0] * (rank - 1)])
            loops.append(OpenLoop(Loop("b", self.shape.sizes[0], SHARED), handle))
        for dim in range(self.lead):
            op, handle = moves.tile_loop(self.script, op, rank, dim, 1)
            loops.append(OpenLoop(Loop("b", 1, "cache"), handle))
        handles[0] = op
        self.fuse_members(handles, fills, loops)
        moves.shrink_empties(self.script, function)
        batch_ops = [*handles, *(fill for fill in fills[1:] if fill)]
        for handle in batch_ops:
            moves.generalize(self.script, handle)
        outermost = loops[0].handle
        return moves.drop_unit_dimensions(self.script, outermost, len(batch_ops))[-1], outermost

    def find_members(self, root: str, root_is_filled: bool) -> tuple[list[str], list[str]]:
        """Return handles of the ops and of the fills of their destinations (empty where there is none)."""
        number = self.members[0].filled if root_is_filled else None
        first = moves.producer(self.script, root, number) if number is not None else ""
        handles, fills = find_members(self.script, self.members, root)
        return handles, [first, *fills[1:]]

    def tile_root(self, op: str) -> tuple[str, list[OpenLoop]]:
        """Tile the root into blocks of rows and columns, and into pieces for threads; consumes `op`."""
        self.script.say("blocks of rows; what feeds them is computed where it is used")
        rank, loops = len(self.members[0].nest.sizes) - self.lead, []
        is_split = [pieces(self.config, dim) > 1 for dim in "mn"[: len(self.shape.sizes) - self.lead]]
        if any(is_split):
            sizes = zip(self.shape.sizes[self.lead :], is_split, strict=True)
            steps = [size if split else 0 for size, split in sizes]
            op, handle = tile_parallel(self.script, op, [*steps, *[0] * (rank - len(steps))])
            loops.append(OpenLoop(Loop("m", self.shape.most_rows, SHARED), handle))
        for dim, (size, step) in enumerate(zip(self.shape.sizes[self.lead :], self.steps, strict=True)):
            if step < size:
                op, handle = moves.tile_loop(self.script, op, rank, dim, step, knob=("rows", "columns")[dim])
                loops.append(OpenLoop(Loop("mn"[dim], step, "cache"), handle))
        return op, loops

    @property
    def lead(self) -> int:
        """Number of leading (batch) dimensions, which are tiled by 1."""
        return self.shape.rows - 1

    @property
    def steps(self) -> tuple[int, ...]:
        """Steps of the loops over rows and, if they can be tiled, columns."""
        if not self.config["fuse"]:
            return self.shape.sizes[self.lead :]
        columns = (block_columns(self.config) or self.shape.columns,) if self.shape.columns else ()
        return (int(self.config["rows"]), *columns)

    def fuse_members(self, handles: list[str], fills: list[str], loops: list[OpenLoop]) -> None:
        """Fuse all ops but the root into the loops; updates the handles of ops, fills and loops in place.

        The root's own destination is filled before the loops, which carry it as an iteration argument.
        """
        loop_handles = [loop.handle for loop in loops]
        fuse_members(self.script, handles, fills, loop_handles)
        loops[:] = [replace(loop, handle=handle) for loop, handle in zip(loops, loop_handles, strict=True)]

    def sizes_of(self, member: Op) -> tuple[int, ...]:
        """Return the trip counts of an op inside the fused loops, without leading dimensions."""
        steps, sizes = self.steps, member.nest.sizes[self.lead :]
        return (*steps, *sizes[len(steps) :])[: len(sizes)]

    @property
    def skips(self) -> bool:
        """Whether columns hidden by a causal mask are skipped instead of computed."""
        return self.config.get("hidden") == "skipped"

    def write_member(self, op: str, member: Op) -> None:
        """Schedule an op that is not a contraction; consumes `op`."""
        self.choose_functions(op)
        mark = HIDDEN if self.skips and member.masked_loop is not None else ""
        # scores pass between ops by whole rows: with parts of all rows, bufferization copies what the next op changes
        whole = len(self.shape.contractions) > 1
        self.write_rows(op, self.sizes_of(member), reduced=member.can_split_reduction, mark=mark, whole=whole)

    def open_contractions(
        self, handles: list[str], fills: list[str], loops: list[OpenLoop], function: str, scope: str
    ) -> list[MatmulWriter]:
        """Tile and pack all contractions in program order; they are vectorized after that."""
        contractions = [entry for entry in zip(self.members, handles, fills, strict=True) if entry[0].contraction]
        writers = []
        for index, (member, handle, fill) in enumerate(reversed(contractions)):
            inner_config = contraction_config(self.shape, self.config, index)
            contraction = tile_of(self.shape, self.config, index)
            if inner_config["pack_b"] == "beforehand":
                contraction = replace(contraction, transposed_b=False)
            masked = member.masked_loop
            hidden = DIMS[masked - self.lead] if self.skips and masked is not None else ""
            zeros = fill if contraction.zeroed and member is not self.members[0] else ""
            writer = MatmulWriter(self.script, function, contraction, inner_config, tuple(loops), zeros, hidden, scope)
            writer.tile_and_pack(handle)
            writers.append(writer)
        return writers


FUSED = Fused()
