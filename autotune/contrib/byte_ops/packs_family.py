"""Schedules for element-wise ops that round to bytes, such as a sum of two quantised arrays.

The loops are those of family `vectorize`. A mark requests saturating packs (`packs_code.py`) for the quantization.
"""

from dataclasses import dataclass, replace

from autotune.contrib.byte_ops.marks import BYTE_OPS, PACKS, PACKS_BYTES
from autotune.core.host.machine import Machine
from autotune.core.host.matrix_unit import cpu_flags, lacking_flags
from autotune.core.plugs.rewrites import Rewrites
from autotune.core.space import Config
from autotune.core.task import Task
from schedules import moves
from schedules.moves import Script
from schedules.vectorize import Vectorize

ROUNDS, BYTE = "arith.fptosi", "i8"
STEPS = {"math.roundeven", "arith.select", ROUNDS}  # of a quantization: rounding, limits, conversion


@dataclass(frozen=True)
class BytePacks(Vectorize):
    """Element-wise ops from any arrays to bytes, computed in f32: saturating packs."""

    name: str = "byte_packs"
    fallback: bool = False

    @property
    def lacking(self) -> str:
        """Message on the CPU flag that this CPU lacks; empty if none."""
        return lacking_flags(self.name, [PACKS_BYTES], cpu_flags())

    def runs_on(self, machine: Machine) -> bool:
        """Return whether the machine has vectors of 512 bits."""
        return machine.isa == "avx512f"

    def covers(self, task: Task) -> bool:
        """Return whether a task is one element-wise op in the order of its arrays that rounds to bytes."""
        if self.lacking or not super().covers(task):
            return False
        op = task.root
        plain = set(task.nest.iterators) == {"parallel"} and op.turned is None and not op.periods
        return plain and op.outputs[-1].dtype == BYTE and {step.name for step in op.body} >= STEPS

    def rewrites(self, task: Task, config: Config) -> Rewrites:
        """Return the rewrites of family `vectorize`, and that of marked ops."""
        inherited = super().rewrites(task, config)
        return replace(inherited, needed=(*inherited.needed, BYTE_OPS))

    def write(self, script: Script, op: str, sizes: tuple[int, ...], task: Task, config: Config, *, lanes: int) -> None:
        """Mark the quantization, and write the loops of family `vectorize`."""
        moves.annotate(script, moves.match_inside(script, op, ROUNDS), PACKS)
        super().write(script, op, sizes, task, config, lanes=lanes)


BYTE_PACKS = BytePacks()
