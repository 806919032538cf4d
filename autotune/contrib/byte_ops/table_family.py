"""Schedules for element-wise functions from i8 to i8, by a lookup table of all 256 results.

    y[i] = f(x[i])   ->   t[b] = f(b) for every byte b;   y[i] = t[x[i]]

The function f, such as a sigmoid on dequantized values in f32, is evaluated 256 times with the same operations, so that
results are bitwise identical. One instruction permutes 64 bytes out of 128 (AVX-512 VBMI); two give 64 results.
"""

from dataclasses import dataclass
from math import prod

from autotune.contrib.byte_ops.family import ByteOps
from autotune.contrib.byte_ops.marks import CHOOSES, TABLE
from autotune.core.host.machine import Machine
from autotune.core.space import Config, Knob
from autotune.core.task import Task
from schedules import moves
from schedules.moves import Script

LEAST = 16 * 256  # elements, for which building the table costs little in comparison
VECTORS = (1, 2, 4)


@dataclass(frozen=True)
class ByteTable(ByteOps):
    """Element-wise ops on one i8 array, computed in f32: a lookup in a table of 256 results."""

    name: str = "byte_table"
    flags: frozenset[str] = frozenset({CHOOSES})

    def covers(self, task: Task) -> bool:
        """Return whether a task is one large op from i8 to i8, without transposition, that computes in f32."""
        op, nest = task.root, task.nest
        if not self.takes(task) or len(op.operands) != 2:
            return False
        alike = op.operands[0].loops == op.operands[1].loops == [*range(len(nest.sizes))]
        of_bytes = all(each.dtype == "i8" for each in op.operands)
        computes_floats = any("f32" in step.dtypes for step in op.body)
        return alike and of_bytes and computes_floats and prod(nest.sizes) >= LEAST

    def knobs(self, task: Task, machine: Machine) -> tuple[Knob, ...]:
        """Return the knob for vectors per iteration."""
        return (Knob("vectors", VECTORS),)

    def values(self, task: Task, machine: Machine) -> Config:
        """Return the default: one vector per iteration."""
        return {"vectors": 1}

    def write(self, script: Script, op: str, sizes: tuple[int, ...], task: Task, config: Config, *, lanes: int) -> None:
        """Mark the op for the rewrite."""
        moves.annotate(script, op, TABLE, int(config["vectors"]))


BYTE_TABLE = ByteTable()
