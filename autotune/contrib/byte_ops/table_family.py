"""Schedules for functions of one byte that give a byte: all 256 results are computed first, and then read.

    y[i] = f(x[i])   ->   t[b] = f(b) for every byte b;   y[i] = t[x[i]]

What f computes in f32, as a quantised sigmoid does, is computed of 256 numbers only, in the same way, so that every
result has the bits that it had. One instruction then chooses 64 of 128 bytes (AVX-512 VBMI), two give 64 results.
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

LEAST = 16 * 256  # elements: a table is a small part of what they would cost
VECTORS = (1, 2, 4)


@dataclass(frozen=True)
class ByteTable(ByteOps):
    """The family of element-wise ops of one array of bytes, which go by way of f32."""

    name: str = "byte_table"
    flags: frozenset[str] = frozenset({CHOOSES})

    def covers(self, task: Task) -> bool:
        """An op alone, of an array of bytes and constants, that computes numbers of f32."""
        op, nest = task.root, task.nest
        if not self.takes(task) or len(op.operands) != 2:
            return False
        alike = op.operands[0].loops == op.operands[1].loops == [*range(len(nest.sizes))]
        of_bytes = all(each.dtype == "i8" for each in op.operands)
        costs = any("f32" in step.dtypes for step in op.body)
        return alike and of_bytes and costs and prod(nest.sizes) >= LEAST

    def knobs(self, task: Task, machine: Machine) -> tuple[Knob, ...]:
        """Vectors of a step."""
        return (Knob("vectors", VECTORS),)

    def values(self, task: Task, machine: Machine) -> Config:
        """One vector."""
        return {"vectors": 1}

    def write(self, script: Script, op: str, sizes: tuple[int, ...], task: Task, config: Config, *, lanes: int) -> None:
        """Mark the op, whose code is ours."""
        moves.annotate(script, op, TABLE, int(config["vectors"]))


BYTE_TABLE = ByteTable()
