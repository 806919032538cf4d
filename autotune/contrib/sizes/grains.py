"""Detection of the smaller sizes that a compiled size serves as well, by ending its loops early."""

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

MOST_GRAIN = 128  # coarser grains are no better than padding


@dataclass(frozen=True)
class OpenProgram:
    """A program of a fixed size, with the dimension along which its loops may end early.

    Attributes:
        payload: Payload of the size.
        candidate: Candidate to compile.
        starts: Index of the open dimension in each argument, by argument number.
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
        """Create the program of a size.

        Args:
            payload: Payload of the size.
            candidate: Candidate to compile.
            dim: The dimension.
            axes: Axis of each open dimension in each input, by argument name.
            extent: Size of the dimension.
        """
        results = {each.name: axis for each, axis in zip(payload.outputs, dim.results, strict=True) if axis is not None}
        inputs = {name: axis_of[dim.name] for name, axis_of in axes.items() if dim.name in axis_of}
        positions = {each.name: number for number, each in enumerate(payload.arguments)}
        return cls(payload, candidate, {positions[n]: axis for n, axis in {**results, **inputs}.items()}, extent)

    def shortened(self, grain: int) -> Candidate:
        """Return the candidate whose loops end at the size of the request."""
        text = self.candidate.text or self.payload.text
        return replace(self.candidate, text=marked(text, self.starts, grain, self.extent))


def grain_of(program: OpenProgram) -> int:
    """Return the divisor of the sizes of shorter requests that a program serves; 0 if its loops cannot end early."""
    payload, candidate = program.payload, program.candidate
    try:
        with context():
            unit = Unit.open(payload, candidate)
            apply_schedule(unit)
            grain = OpenLoops(unit.function, program.starts).grain
    except CompileError:
        return 0
    return grain if grain <= MOST_GRAIN and program.extent >= 2 * grain else 0
