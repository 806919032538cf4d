"""Schedules for functions of one byte that give a byte: all 256 results are computed first, and then read.

    y[i] = f(x[i])   ->   t[b] = f(b) for every byte b;   y[i] = t[x[i]]

What f computes in f32, as a quantised sigmoid does, is computed of 256 numbers only, in the same way, so that every
result has the bits that it had. One instruction then chooses 64 of 128 bytes (AVX-512 VBMI), two give 64 results.
"""

from dataclasses import dataclass
from math import prod

from autotune.contrib.byte_ops.marks import BYTE_OPS, CHOOSES, TABLE
from autotune.core.host.machine import Machine
from autotune.core.host.matrix_unit import cpu_flags
from autotune.core.plugs.rewrites import Rewrites
from autotune.core.space import Config, Knob
from autotune.core.task import Task
from schedules import moves
from schedules.moves import Script
from schedules.single_op import SingleOp

LEAST = 16 * 256  # elements: a table is a small part of what they would cost
VECTORS = (1, 2, 4)
ELEMENTWISE = ("arith.", "math.")


@dataclass(frozen=True)
class ByteTable(SingleOp):
    """The family of element-wise ops of one array of bytes, which go by way of f32."""

    name: str = "byte_table"

    @property
    def specific(self) -> int:
        """Before those for any element-wise op."""
        return 1

    @property
    def lacking(self) -> str:
        """What this CPU lacks; empty if nothing."""
        return "" if CHOOSES in cpu_flags() else f"{self.name} needs a CPU with {CHOOSES}, which this one lacks"

    def runs_on(self, machine: Machine) -> bool:
        """Vectors are of 512 bits."""
        return machine.isa == "avx512f"

    def covers(self, task: Task) -> bool:
        """An op alone, of an array of bytes and constants, that computes numbers of f32."""
        op, nest = task.root, task.nest
        if task.is_group or task.grows or op.captured or self.lacking or len(op.operands) != 2:
            return False
        alike = op.operands[0].loops == op.operands[1].loops == [*range(len(nest.sizes))]
        of_bytes = all(each.dtype == "i8" for each in op.operands)
        plain = all(step.name.startswith(ELEMENTWISE) for step in op.body)
        costs = any("f32" in step.dtypes for step in op.body)
        many = bool(nest.sizes) and prod(nest.sizes) >= LEAST
        return alike and of_bytes and plain and costs and many and set(nest.iterators) == {"parallel"}

    def knobs(self, task: Task, machine: Machine) -> tuple[Knob, ...]:
        """Vectors of a step."""
        return (Knob("vectors", VECTORS),)

    def values(self, task: Task, machine: Machine) -> Config:
        """One vector."""
        return {"vectors": 1}

    def write(self, script: Script, op: str, sizes: tuple[int, ...], task: Task, config: Config, *, lanes: int) -> None:
        """Mark the op, whose code is ours."""
        moves.annotate(script, op, TABLE, int(config["vectors"]))

    def rewrites(self, task: Task, config: Config) -> Rewrites:
        """Code of ours for the marked op, `table_code.py`."""
        return Rewrites(needed=(BYTE_OPS,))


BYTE_TABLE = ByteTable()
