"""Schedules for groups of ops over rows of bytes, such as a quantised softmax or layer norm.

The loops are those of family `fused`. Marks on ops request other code for what takes most of the time: exponentials of
differences of bytes (`exp_code.py`), sums of bytes (`sums_code.py`), and quantization (`packs_code.py`).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from autotune.contrib.byte_ops.marks import BYTE_OPS, EXP, MULTIPLIES, PACKS, PACKS_BYTES, SUMS
from autotune.core.host.machine import Machine
from autotune.core.host.matrix_unit import cpu_flags, lacking_flags
from autotune.core.ops.op import Op
from autotune.core.plugs.rewrites import Rewrites
from autotune.core.space import Config, Space
from autotune.core.task import Task
from schedules import moves
from schedules.fused import Fused, FusedWriter

FLAGS = frozenset({MULTIPLIES, PACKS_BYTES})
MATH, LOOKUP = "math", "lookup"  # knob, and its value besides those of family `fused`
BYTE = "i8"
ADDS = {"arith.extsi", "arith.addi"}


@dataclass(frozen=True)
class ByteRows(Fused):
    """Groups of ops over rows of bytes without a contraction: lookups of exp, dot products, saturating packs."""

    name: str = "byte_rows"

    @property
    def specific(self) -> int:
        """Rank before the family for any group."""
        return 1

    @property
    def lacking(self) -> str:
        """Message on the CPU flags that this CPU lacks; empty if none."""
        return lacking_flags(self.name, FLAGS, cpu_flags())

    @property
    def writer(self) -> type[FusedWriter]:
        """Writer of its scripts."""
        return ByteRowsWriter

    def runs_on(self, machine: Machine) -> bool:
        """Return whether the machine has vectors of 512 bits."""
        return machine.isa == "avx512f"

    def covers(self, task: Task) -> bool:
        """Return whether a task is a group without contractions, with ops that another code is better for."""
        if self.lacking or not super().covers(task) or any(op.contraction for op in task.ops):
            return False
        return any(True for op in task.ops for _ in marks_of(op))

    def space(self, task: Task, machine: Machine) -> Space:
        """Return the knobs of family `fused`; exponentials of bytes may also be looked up."""
        space = super().space(task, machine)
        if not looks_up(task):
            return space
        knobs = (replace(knob, values=(LOOKUP, *knob.values)) if knob.name == MATH else knob for knob in space.knobs)
        return replace(space, knobs=tuple(knobs))

    def default(self, task: Task, machine: Machine) -> Config:
        """Return the default of family `fused`; exponentials of bytes are looked up."""
        config = super().default(task, machine)
        return {**config, MATH: LOOKUP} if looks_up(task) else config

    def rewrites(self, task: Task, config: Config) -> Rewrites:
        """Return the rewrites of family `fused`, and that of marked ops."""
        inherited = super().rewrites(task, config)
        return replace(inherited, needed=(*inherited.needed, BYTE_OPS))


@dataclass(frozen=True)
class ByteRowsWriter(FusedWriter):
    """Writer of family `fused` that marks ops on bytes."""

    def write_member(self, op: str, member: Op) -> None:
        """Mark the arithmetic of an op, and schedule it; consumes `op`."""
        for name, mark in marks_of(member):
            if mark != EXP or self.config[MATH] == LOOKUP:
                moves.annotate(self.script, moves.match_inside(self.script, op, name), mark)
        super().write_member(op, member)


def marks_of(op: Op) -> Iterator[tuple[str, str]]:
    """Yield the operations of an op's body that another code is better for, by name, and their mark."""
    names = {step.name for step in op.body}
    reads_bytes = all(each.dtype == BYTE for each in op.inputs)
    if "math.exp" in names and reads_bytes:
        yield "math.exp", EXP
    if op.nest.reduced and names == ADDS and reads_bytes:
        yield "arith.extsi", SUMS
    if any(step.name == "arith.fptosi" and BYTE in step.dtypes for step in op.body):
        yield "arith.fptosi", PACKS


def looks_up(task: Task) -> bool:
    """Return whether a task computes exponentials of bytes."""
    return any(mark == EXP for op in task.ops for _, mark in marks_of(op))


BYTE_ROWS = ByteRows()
