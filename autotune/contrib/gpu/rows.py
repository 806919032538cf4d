"""Schedule family of row-wise operations on GPUs: softmax, layer norm, attention, elementwise operations.

    for block of rows:                                    intermediates are in workgroup memory
      m = max x      one thread a row
      e = exp x - m  threads along rows and columns       a barrier after each operation
      s = sum e      one thread a row
      y = e / s      threads along rows and columns

All operations are fused in one kernel, with some rows a block. A matrix product gets no special treatment: a thread
accumulates an element in memory, and its operands are not staged.
"""

from dataclasses import dataclass

from autotune.contrib.gpu.device import GRID, Device
from autotune.contrib.gpu.script import MARK, GpuScript
from autotune.contrib.gpu.tiles import F32_BYTES, divisors, nearest
from autotune.core.ops.op import LoopNest
from autotune.core.space import Config, Constraint, Knob, Space
from autotune.core.task import Task
from schedules import moves
from schedules.group import find_members, fuse, fuse_members

ROWS, ACROSS = (1, 2, 4, 8, 16, 32), (1, 2, 4, 8, 16, 32, 64, 128, 256)
MOST_RANK = 3  # dimensions of a grid


@dataclass(frozen=True)
class GpuRows:
    """The family of operations with common parallel row dimensions, whatever each computes along its columns."""

    name: str = "rows"

    def covers(self, task: Task) -> bool:
        """Return whether all operations have static sizes and the rows of the root; no windows or argmax in groups."""
        if task.grows or (task.is_group and any(op.lanes or op.counts for op in task.ops)):
            return False
        lead = rows_of(task)
        return 1 <= len(lead) <= MOST_RANK and all(is_along(op.nest, lead) for op in task.ops)

    def space(self, task: Task, device: Device) -> Space:
        """Return knobs for the rows of a block, the threads of a row, and whether columns are assigned cyclically."""
        rows, columns = rows_of(task)[-1], columns_of(task.nest, len(rows_of(task)))

        def fits_block(config: Config) -> bool:
            return int(config["rows"]) * int(config["across"]) <= device.threads

        def fits_memory(config: Config) -> bool:
            return workgroup_bytes(task, int(config["rows"])) <= device.workgroup_bytes

        def fits_grid(config: Config) -> bool:
            return max(rows // int(config["rows"]), *rows_of(task)[:-1], 1) <= GRID

        return Space(
            (
                Knob("rows", divisors(rows, ROWS)),
                Knob("across", divisors(columns, ACROSS)),
                Knob("strided", (True, False)),
            ),
            (
                Constraint(f"a block has at most {device.threads} threads", fits_block),
                Constraint(f"workgroup memory of a block is at most {device.workgroup_bytes} bytes", fits_memory),
                Constraint(f"a grid has at most {GRID} blocks along an axis", fits_grid),
            ),
        )

    def default(self, task: Task, device: Device) -> Config:
        """Return about 4 rows a block and 32 threads a row, as far as the sizes allow."""
        space = self.space(task, device)
        values = {knob.name: [int(value) for value in knob.values] for knob in space.knobs}
        config = {"rows": nearest(values["rows"], 4), "across": nearest(values["across"], 32), "strided": True}
        return config if space.broken_constraint(config) is None else next(space.configs())

    def build(self, task: Task, config: Config, device: Device) -> str:
        """Return the complete transform script of a config."""
        script, members = GpuScript(), task.ops
        rows, lead = int(config["rows"]), len(rows_of(task))
        op = script.match(task.tag)
        handles, fills = find_members(script, members, op)
        if members[0].filled is not None:
            fills[0] = moves.producer(script, op, members[0].filled)
        handles[0], blocks = script.tile_blocks(op, [*[1] * (lead - 1), rows])
        loops = [blocks]
        fuse_members(script, handles, fills, loops)
        if fills[0]:
            fills[0] = fuse(script, fills[0], loops)
        for number, (handle, fill) in enumerate(zip(handles, fills, strict=True)):
            moves.annotate(script, handle, MARK, number)
            if fill:
                moves.annotate(script, fill, MARK, number + len(members))
        script.keep_in_workgroup()
        script.bufferize(in_place=False)
        for number, member in enumerate(members):
            columns = columns_of(member.nest, lead)
            if fills[number]:
                share_columns(script, script.marked(MARK, number + len(members)), lead, columns, config)
            share_columns(script, script.marked(MARK, number), lead, columns, config)
        script.launch([rows * int(config["across"]), 1, 1])
        return script.text


def share_columns(script: GpuScript, op: str, lead: int, columns: int, config: Config) -> None:
    """Distribute an operation over threads: one a row, or several along each row if it has columns.

    Args:
        script: Script that operations are appended to.
        op: Handle of the operation, which is consumed.
        lead: Number of row dimensions.
        columns: Number of columns; 1 for none.
        config: Value of every knob.
    """
    a_row = [*[0] * (lead - 1), 1]
    if columns == 1:
        script.share(op, a_row)
        return
    across = max(step for step in range(1, int(config["across"]) + 1) if columns % step == 0)
    if config["strided"] and across < columns:
        op = script.tile_for(op, [*[0] * lead, across])
    script.share(op, [*a_row, 1 if config["strided"] else columns // across])


def rows_of(task: Task) -> tuple[int, ...]:
    """Return the sizes of the row dimensions: the parallel loops of the root, without the last if there are several."""
    parallel = parallel_sizes(task.nest)
    return parallel[:-1] if len(parallel) > 1 else parallel


def parallel_sizes(nest: LoopNest) -> tuple[int, ...]:
    """Return the trip counts of the parallel loops."""
    return tuple(size for size, kind in zip(nest.sizes, nest.iterators, strict=True) if kind == "parallel")


def is_along(nest: LoopNest, lead: tuple[int, ...]) -> bool:
    """Return whether the loops of an operation are the given rows, at most one column loop, then reductions."""
    parallel = parallel_sizes(nest)
    in_order = nest.iterators == ("parallel",) * len(parallel) + ("reduction",) * len(nest.reduced)
    return in_order and parallel[: len(lead)] == lead and len(parallel) <= len(lead) + 1


def columns_of(nest: LoopNest, lead: int) -> int:
    """Return the number of columns of an operation after its row dimensions; 1 if it has none."""
    parallel = parallel_sizes(nest)
    return parallel[lead] if len(parallel) > lead else 1


def workgroup_bytes(task: Task, rows: int) -> int:
    """Return the workgroup memory of the intermediates of a block, in bytes."""
    lead = len(rows_of(task))
    return F32_BYTES * rows * sum(columns_of(member.nest, lead) for member in task.ops[1:])
