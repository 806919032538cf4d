"""Schedules for sums of products of neighbours in rows of bytes: convolutions of few channels, channels first.

    y[c, h, w] = f(sum over i, j of k[c, i, j] x[c, h + i, w + j])   ->   a word of four neighbours by four weights

The code of that is ours (`windows_code.py`): it chooses the neighbours of 16 positions among the bytes of a vector, and
multiplies 64 bytes at once (AVX-512 VBMI and VNNI), where vectors of whole numbers multiply 32 at most.
"""

from dataclasses import dataclass

from autotune.contrib.byte_ops.family import ByteOps
from autotune.contrib.byte_ops.marks import CHOOSES, MULTIPLIES, WINDOWS
from autotune.core.host.machine import Machine
from autotune.core.ops.op import Op
from autotune.core.space import Config, Knob
from autotune.core.task import Task
from schedules import moves
from schedules.moves import Script

LEAST = 4  # products: of fewer, an instruction's four are mostly zeros
MOST_STRIDE = 4  # of columns: 16 of them are within a vector
LANES = (16, 32, 64)
WIDEN, MULTIPLY = "arith.extsi", "arith.muli"


@dataclass(frozen=True)
class ByteWindows(ByteOps):
    """The family of element-wise ops that sum products of rows of bytes by weights that stay along a row."""

    name: str = "byte_windows"
    flags: frozenset[str] = frozenset({CHOOSES, MULTIPLIES})

    def covers(self, task: Task) -> bool:
        """An op alone, with some such products, whose other operands move along rows as its result does."""
        op = task.root
        if not self.takes(task):
            return False
        pairs = [pair for step in op.body if step.name == MULTIPLY and (pair := factors(op, step.operands))]
        strides = [along_rows(op, number) for number in range(len(op.operands))]
        if len(pairs) < LEAST or None in strides:
            return False
        moving = {number for pair in pairs for number in pair if strides[number]}
        once = all(sorted(bool(strides[number]) for number in pair) == [False, True] for pair in pairs)
        near = all(1 <= (strides[number] or 0) <= MOST_STRIDE for number in moving)
        others = {strides[number] for number in range(len(op.operands)) if number not in moving}
        return once and near and others <= {0, 1} and strides[-1] == 1

    def knobs(self, task: Task, machine: Machine) -> tuple[Knob, ...]:
        """Elements of a step."""
        return (Knob("lanes", LANES),)

    def values(self, task: Task, machine: Machine) -> Config:
        """As many elements as a row has, in whole vectors."""
        return {"lanes": next((lanes for lanes in LANES if lanes >= task.nest.sizes[-1]), LANES[-1])}

    def write(self, script: Script, op: str, sizes: tuple[int, ...], task: Task, config: Config, *, lanes: int) -> None:
        """Mark the op, whose code is ours."""
        moves.annotate(script, op, WINDOWS, int(config["lanes"]))


def factors(op: Op, operands: tuple[int, ...]) -> tuple[int, ...]:
    """The operands of an op whose bytes a step multiplies, widened; empty if it multiplies something else."""
    found = []
    for value in operands:
        widening = op.maker(value)
        source = widening.operands[0] if widening is not None and widening.name == WIDEN else -1
        if not 0 <= source < len(op.operands) or op.operands[source].dtype != "i8":
            return ()
        found.append(source)
    return tuple(found)


def along_rows(op: Op, number: int) -> int | None:
    """Elements that a step of the last loop goes on in an operand's last dimension; `None` if it moves another."""
    last = len(op.nest.sizes) - 1
    *outer, inner = op.operands[number].indices or [None]
    if any(each is None or each.factor(last) != 0 for each in outer):
        return None
    return 0 if inner is None else inner.factor(last)


BYTE_WINDOWS = ByteWindows()
