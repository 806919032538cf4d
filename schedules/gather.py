"""Family for gathers of rows by index, such as token embeddings: one index is read per row, and the row is copied.

A row is copied in vectors or, if it is long, as one block of memory.
"""

from dataclasses import dataclass

from autotune.core.host.machine import Machine
from autotune.core.ops.op import Op
from autotune.core.scripts.marks import ROW_COPY
from autotune.core.space import Config, Knob
from autotune.core.task import Task
from schedules import moves
from schedules.blocking import cut, fitting_vectors
from schedules.moves import Script, split_into
from schedules.single_op import SingleOp
from schedules.vectorize import in_rows, tile_and_vectorize

AT_ONCE = "at_once"  # knob
LEAST_BYTES = 2048  # rows of at least this size are copied as one block by default
READ, COUNT = "tensor.extract", "linalg.index"


@dataclass(frozen=True)
class Gather(SingleOp):
    """Ops that gather elements at indices from a tensor."""

    name: str = "gather"

    def covers(self, task: Task) -> bool:
        """Return whether the task is a gather; elements of a row that are not contiguous are gathered one by one."""
        return task.root.gathers and not task.grows

    def knobs(self, task: Task, machine: Machine) -> tuple[Knob, ...]:
        """Return the knobs: vectors per access and, if rows are plain copies, whether each is copied as one block."""
        vectors = Knob("vectors", fitting_vectors(task.nest.sizes[-1], machine.lanes))
        return (vectors, Knob(AT_ONCE, (False, True))) if copies_rows(task.root) else (vectors,)

    def values(self, task: Task, machine: Machine) -> Config:
        """Return one vector, as stores of several do not follow cache line order; long rows are copied as a block."""
        if not copies_rows(task.root):
            return {"vectors": 1}
        long = task.nest.sizes[-1] * task.root.outputs[0].element_bytes >= LEAST_BYTES
        return {"vectors": 1, AT_ONCE: long}

    def write(self, script: Script, op: str, sizes: tuple[int, ...], task: Task, config: Config, *, lanes: int) -> None:
        """Loop over rows; copy each as one block, or split it into pieces that vectors divide and vectorize these."""
        op, (*row, _) = in_rows(script, op, sizes, 1)  # separate row loops for the pieces would write cache lines twice
        if config.get(AT_ONCE):
            moves.annotate(script, op, ROW_COPY)
            return
        pieces = cut(sizes[-1], 0, int(config["vectors"]) * lanes, powers_of_two=True)
        parts = split_into(script, op, len(row), [piece.size for piece in pieces])
        for piece, part in zip(pieces, parts, strict=True):
            if piece.register > 1:  # a single leftover column stays scalar
                tile_and_vectorize(script, part, (*row, piece.size), 1, piece.register, gathers=True)


def copies_rows(op: Op) -> bool:
    """Return whether each row of the result is a row of a tensor: only the last index depends on the last loop."""
    first = len(op.operands) + len(op.captured)
    if len(op.gives) != 1 or not first <= op.gives[0] or op.outputs[0].element_bytes < 1:
        return False
    read = op.body[op.gives[0] - first]
    if read.name != READ or any(step.nested for step in op.body):
        return False
    _, *indices, column = read.operands
    return is_column(op, column - first) and not any(is_of_column(op, index) for index in indices)


def is_column(op: Op, step: int) -> bool:
    """Return whether a step of the body is the induction variable of the last loop."""
    return step >= 0 and op.body[step].name == COUNT and op.body[step].value == len(op.sizes) - 1


def is_of_column(op: Op, value: int) -> bool:
    """Return whether a value may differ between columns."""
    first = len(op.operands) + len(op.captured)
    if value < 0:
        return True
    if value < len(op.operands):
        last = len(op.sizes) - 1
        return any(loop == last for terms in op.operands[value].terms for loop, _ in terms)
    if value < first:
        return False
    return is_column(op, value - first) or any(is_of_column(op, operand) for operand in op.body[value - first].operands)


GATHER = Gather()
