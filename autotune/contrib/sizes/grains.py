"""Which compiled sizes serve smaller ones as well, at multiples of what: their loops end where a request does."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from autotune.compiler.ir.module import context
from autotune.compiler.lowering.rewrites import Unit
from autotune.compiler.lowering.steps import apply_schedule
from autotune.contrib.sizes.proof import Dim
from autotune.contrib.sizes.upper_bounds import OpenLoops, Starts, marked
from autotune.core.candidate import Candidate
from autotune.core.errors import CompileError
from autotune.core.payload import Payload

MOST_GRAIN = 128  # a size of fewer steps is as well served by padding


@dataclass(frozen=True)
class OpenProgram:
    """A program of a fixed size, and the dimension along which it may be shortened.

    Attributes:
        payload: What it computes.
        candidate: How it is compiled.
        starts: Dimension that is the open one, by number of the argument.
        extent: Size of the dimension.
    """

    payload: Payload
    candidate: Candidate
    starts: Starts
    extent: int

    @classmethod
    def of(
        cls, payload: Payload, candidate: Candidate, dim: Dim, axes: Mapping[str, Mapping[str, int]], extent: int
    ) -> "OpenProgram":
        """The program of a size.

        Args:
            payload: What it computes.
            candidate: How it is compiled.
            dim: The dimension.
            axes: Axis of each open dimension in each input, by name of the argument.
            extent: Size of the dimension.
        """
        results = {each.name: axis for each, axis in zip(payload.outputs, dim.results, strict=True) if axis is not None}
        inputs = {name: found[dim.name] for name, found in axes.items() if dim.name in found}
        positions = {each.name: number for number, each in enumerate(payload.arguments)}
        return cls(payload, candidate, {positions[n]: axis for n, axis in {**results, **inputs}.items()}, extent)

    def shortened(self, grain: int) -> Candidate:
        """The candidate whose loops end where a request does."""
        text = self.candidate.text or self.payload.text
        return replace(self.candidate, text=marked(text, self.starts, grain, self.extent))


def grain_of(program: OpenProgram) -> int:
    """What sizes of shorter requests must be multiples of; 0 where a program cannot be shortened."""
    payload, candidate = program.payload, program.candidate
    try:
        with context():
            unit = Unit.open(payload, candidate)
            apply_schedule(unit)
            grain = OpenLoops(unit.function, program.starts).grain
    except CompileError:
        return 0
    return grain if grain <= MOST_GRAIN and program.extent >= 2 * grain else 0
