"""`MeshProgram`: the ops of a payload with their operands and results, and the units that a pipeline is divided into.

Ops that depend on weights or constants only are computed beforehand. Transfers of inputs and outputs are not modelled.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from autotune.core.ops.facts import ProgramFacts
from autotune.core.ops.op import Operand, ProgramOp

INPUTS = "inputs"
WEIGHT, STATE = "weight", "state"


@dataclass(frozen=True)
class MeshOp:
    """An op of a program.

    Attributes:
        facts: Facts of the op.
        element_bytes: Bytes that a floating-point number takes at most; 0 for no bound.
    """

    facts: ProgramOp
    element_bytes: int = 0

    @property
    def name(self) -> str:
        """Readable name: kind, trip counts and position."""
        return f"{self.facts.kind}_{'x'.join(map(str, self.facts.sizes))}@{self.facts.number}"

    @property
    def result(self) -> Operand:
        """First result."""
        return self.facts.outputs[0]

    @property
    def reads(self) -> tuple[Operand, ...]:
        """Arrays that it reads, without its destinations."""
        return tuple(access for access in self.facts.accesses if not access.written)

    @property
    def values(self) -> tuple[Operand, ...]:
        """Arrays that it reads and another op computes."""
        return tuple(access for access in self.reads if access.source is not None)

    @property
    def stored(self) -> tuple[Operand, ...]:
        """Arrays that it reads and that stay in the cores' memory: weights and caches."""
        return tuple(access for access in self.reads if access.role in (WEIGHT, STATE))

    @property
    def stored_weights(self) -> tuple[Operand, ...]:
        """Weights that it reads."""
        return tuple(access for access in self.reads if access.role == WEIGHT)

    @property
    def reduced(self) -> tuple[int, ...]:
        """Loops in which its result is invariant."""
        return self.facts.reduced

    @property
    def contracts(self) -> bool:
        """Whether it is a contraction of two arrays, whose distribution is a knob."""
        arrays = [access for access in self.reads if len(access.shape) > 1]
        return bool(self.reduced) and len(arrays) > 1 and self.facts.arithmetic > math.prod(self.facts.sizes)

    def width(self, access: Operand) -> int:
        """Return the bytes of an element."""
        return min(access.element_bytes, self.element_bytes) if self.element_bytes else access.element_bytes

    def size(self, access: Operand, local: Sequence[int] | None = None) -> int:
        """Return the bytes of an array that the op accesses, or that a part of its iteration space accesses.

        Args:
            access: One of its arrays.
            local: Trip count of every loop; by default the whole op's.
        """
        return access.touched(self.facts.sizes if local is None else local) * self.width(access)

    def whole(self, access: Operand) -> int:
        """Return the bytes of a whole array, accessed or not."""
        return math.prod(access.shape) * self.width(access)


@dataclass(frozen=True)
class MeshUnit:
    """Ops that stay in one pipeline stage: an op with its followers, or a layer.

    Attributes:
        ops: Positions of the ops in the program.
        iteration: Iteration number, of ops that are executed several times.
    """

    ops: tuple[int, ...]
    iteration: int = 0


@dataclass(frozen=True)
class MeshProgram:
    """A program.

    Attributes:
        ops: Ops by number.
        units: Units in the order of execution.
    """

    ops: dict[int, MeshOp]
    units: tuple[MeshUnit, ...]

    @property
    def flops(self) -> int:
        """Floating-point operations of a call."""
        return sum(self.ops[op].facts.arithmetic for unit in self.units for op in unit.ops)

    def stored_bytes(self, kind: str) -> int:
        """Return the bytes of weights, or of caches, each array counted once."""
        sizes = {
            (access.value, unit.iteration if access.moves else 0): self.ops[op].whole(access)
            for unit in self.units
            for op in unit.ops
            for access in self.ops[op].stored
            if access.role == kind
        }
        return sum(sizes.values())

    def gives(self, unit: MeshUnit) -> int:
        """Return the bytes of a unit's output, the result of its last op."""
        last = self.ops[unit.ops[-1]]
        return last.size(last.result)


def read_mesh_program(facts: ProgramFacts, element_bytes: int = 0) -> MeshProgram:
    """Build the program from its facts.

    Args:
        facts: Facts of the program.
        element_bytes: Bytes that a floating-point number takes at most; 0 for no bound.
    """
    ops = {each.number: MeshOp(each, element_bytes) for each in facts.ops if each.depends == INPUTS}
    units: list[MeshUnit] = []
    run: list[int] = []
    for number, op in ops.items():
        before = ops[run[-1]] if run else None
        if before is not None and (op.facts.trips != before.facts.trips or (op.facts.trips == 1 and op.contracts)):
            units += repeat(run, before.facts.trips)
            run = []
        run.append(number)
    if run:
        units += repeat(run, ops[run[-1]].facts.trips)
    return MeshProgram(ops, tuple(units))


def repeat(ops: Sequence[int], trips: int) -> list[MeshUnit]:
    """Return a unit for every iteration of some ops."""
    return [MeshUnit(tuple(ops), iteration) for iteration in range(trips)]
