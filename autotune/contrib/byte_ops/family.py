"""Base of the schedule families of element-wise ops on i8: generated code for a marked op, on some processors."""

from dataclasses import dataclass

from autotune.contrib.byte_ops.marks import BYTE_OPS
from autotune.core.host.machine import Machine
from autotune.core.host.matrix_unit import cpu_flags, lacking_flags
from autotune.core.plugs.rewrites import Rewrites
from autotune.core.space import Config
from autotune.core.task import Task
from schedules.single_op import SingleOp

ELEMENTWISE = ("arith.", "math.")


@dataclass(frozen=True)
class ByteOps(SingleOp):
    """A family of unfused element-wise ops on i8.

    Attributes:
        flags: CPU flags required, as Linux lists them.
    """

    flags: frozenset[str] = frozenset()

    @property
    def specific(self) -> int:
        """Rank before the families for any element-wise op."""
        return 1

    @property
    def lacking(self) -> str:
        """Message on the CPU flags that this CPU lacks; empty if none."""
        return lacking_flags(self.name, self.flags, cpu_flags())

    def runs_on(self, machine: Machine) -> bool:
        """Return whether the machine has vectors of 512 bits."""
        return machine.isa == "avx512f"

    def takes(self, task: Task) -> bool:
        """Return whether a task is one parallel op with one result and only arithmetic, and this CPU has the flags."""
        op, nest = task.root, task.nest
        alone = not (task.is_group or task.grows or op.captured or op.gathers or self.lacking) and op.results == 1
        parallel = bool(nest.sizes) and set(nest.iterators) == {"parallel"}
        return alone and parallel and all(step.name.startswith(ELEMENTWISE) for step in op.body)

    def rewrites(self, task: Task, config: Config) -> Rewrites:
        """Return the rewrite that replaces the marked op."""
        return Rewrites(needed=(BYTE_OPS,))
