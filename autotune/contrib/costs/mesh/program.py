"""A payload as a mesh sees it: ops with what they read, hold and give, and the units that a pipeline is cut into.

What follows from weights alone is computed before, as is what follows from constants. Inputs come from outside and
outputs go there: that is not modelled.
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
        """Name for people: kind, loops and position."""
        return f"{self.facts.kind}_{'x'.join(map(str, self.facts.sizes))}@{self.facts.number}"

    @property
    def result(self) -> Operand:
        """What it gives."""
        return self.facts.outputs[0]

    @property
    def reads(self) -> tuple[Operand, ...]:
        """What it reads, but for the array that its result is put in."""
        return tuple(access for access in self.facts.accesses if not access.written)

    @property
    def values(self) -> tuple[Operand, ...]:
        """What it reads that an op computes."""
        return tuple(access for access in self.reads if access.source is not None)

    @property
    def kept(self) -> tuple[Operand, ...]:
        """What it reads that stays where it is: weights and caches."""
        return tuple(access for access in self.reads if access.held in (WEIGHT, STATE))

    @property
    def kept_weights(self) -> tuple[Operand, ...]:
        """The weights that it reads."""
        return tuple(access for access in self.reads if access.held == WEIGHT)

    @property
    def reduced(self) -> tuple[int, ...]:
        """Loops that its result has no dimension of."""
        return self.facts.reduced

    @property
    def contracts(self) -> bool:
        """Whether it sums products of two arrays, so that how it is spread decides about the rest."""
        arrays = [access for access in self.reads if len(access.shape) > 1]
        return bool(self.reduced) and len(arrays) > 1 and self.facts.arithmetic > math.prod(self.facts.sizes)

    def width(self, access: Operand) -> int:
        """Bytes of an element."""
        return min(access.element_bytes, self.element_bytes) if self.element_bytes else access.element_bytes

    def size(self, access: Operand, local: Sequence[int] | None = None) -> int:
        """Bytes of an array that the op touches, or those that its share of the loops touches.

        Args:
            access: One of its arrays.
            local: Trip count of every loop; by default the whole op's.
        """
        return access.touched(self.facts.sizes if local is None else local) * self.width(access)

    def whole(self, access: Operand) -> int:
        """Bytes of an array, also of what is not touched."""
        return math.prod(access.shape) * self.width(access)


@dataclass(frozen=True)
class MeshUnit:
    """Ops that are not cut apart: an op with those that follow from it, or a layer.

    Attributes:
        ops: Positions of the ops in the program.
        iteration: Which time this is, of ops that are run several times.
    """

    ops: tuple[int, ...]
    iteration: int = 0


@dataclass(frozen=True)
class MeshProgram:
    """A program.

    Attributes:
        ops: Ops by number.
        units: Units in the order in which they are run.
    """

    ops: dict[int, MeshOp]
    units: tuple[MeshUnit, ...]

    @property
    def flops(self) -> int:
        """Floating-point operations of a call."""
        return sum(self.ops[op].facts.arithmetic for unit in self.units for op in unit.ops)

    def kept_bytes(self, kind: str) -> int:
        """Bytes of weights, or of caches, each counted once."""
        found = {
            (access.value, unit.iteration if access.moves else 0): self.ops[op].whole(access)
            for unit in self.units
            for op in unit.ops
            for access in self.ops[op].kept
            if access.held == kind
        }
        return sum(found.values())

    def gives(self, unit: MeshUnit) -> int:
        """Bytes of what a unit hands on: the result of its last op."""
        last = self.ops[unit.ops[-1]]
        return last.size(last.result)


def read_mesh_program(facts: ProgramFacts, element_bytes: int = 0) -> MeshProgram:
    """The program of facts.

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
    """A unit for every time that ops are run."""
    return [MeshUnit(tuple(ops), iteration) for iteration in range(trips)]
