"""What families of element-wise ops of bytes have in common: code of ours for a marked op, on some processors."""

from dataclasses import dataclass

from autotune.contrib.byte_ops.marks import BYTE_OPS
from autotune.core.host.machine import Machine
from autotune.core.host.matrix_unit import cpu_flags
from autotune.core.plugs.rewrites import Rewrites
from autotune.core.space import Config
from autotune.core.task import Task
from schedules.single_op import SingleOp

ELEMENTWISE = ("arith.", "math.")


@dataclass(frozen=True)
class ByteOps(SingleOp):
    """A family of element-wise ops of bytes that stand alone.

    Attributes:
        flags: Extensions that a CPU must have, as Linux lists them.
    """

    flags: frozenset[str] = frozenset()

    @property
    def specific(self) -> int:
        """Before those for any element-wise op."""
        return 1

    @property
    def lacking(self) -> str:
        """What this CPU lacks; empty if nothing."""
        wanted = " and ".join(sorted(self.flags - cpu_flags()))
        return f"{self.name} needs a CPU with {wanted}, which this one lacks" if wanted else ""

    def runs_on(self, machine: Machine) -> bool:
        """Vectors are of 512 bits."""
        return machine.isa == "avx512f"

    def takes(self, task: Task) -> bool:
        """Whether a task is an op alone, of one result and plain arithmetic, that this CPU has the instructions for."""
        op, nest = task.root, task.nest
        alone = not (task.is_group or task.grows or op.captured or op.gathers or self.lacking) and op.results == 1
        parallel = bool(nest.sizes) and set(nest.iterators) == {"parallel"}
        return alone and parallel and all(step.name.startswith(ELEMENTWISE) for step in op.body)

    def rewrites(self, task: Task, config: Config) -> Rewrites:
        """Code of ours for the marked op."""
        return Rewrites(needed=(BYTE_OPS,))
