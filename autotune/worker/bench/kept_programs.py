"""Programs that this process found right, for whoever asks what they compute: a whole takes half a minute to compile.

What is timed is always compiled anew: where code lies is luck, which must not pass from one measurement to the next.
"""

from dataclasses import dataclass, field

from autotune.compiler.lowering.program import CompiledProgram
from autotune.core.candidate import Candidate
from autotune.core.payload import Argument, Payload

MOST_PROGRAMS = 8  # as many as finalists
LEAST_PROGRAMS = 2  # however large: a whole, and its baseline
MOST_BYTES = 1 << 28  # of the arenas of all others


@dataclass(frozen=True)
class RightProgram:
    """A program, and what it was compiled from.

    Attributes:
        sha256: Hash of the payload's text.
        entry: Function that is called.
        arguments: Arguments of the program.
        candidate: How it was compiled.
        program: The program.
    """

    sha256: str
    entry: str
    arguments: tuple[Argument, ...]
    candidate: Candidate
    program: CompiledProgram

    @property
    def bytes(self) -> int:
        """Bytes of its arena."""
        return self.program.buffers.peak_bytes if self.program.buffers is not None else 0


@dataclass
class KeptPrograms:
    """Programs that were kept last, the oldest first."""

    programs: list[RightProgram] = field(default_factory=list)

    def keep(self, payload: Payload, candidate: Candidate, program: CompiledProgram) -> None:
        """Keep a program, and no more of the others than memory allows."""
        kept = RightProgram(payload.sha256, payload.entry, payload.arguments, candidate, program)
        self.programs = [*self.programs, kept][-MOST_PROGRAMS:]
        while sum(each.bytes for each in self.programs[:-LEAST_PROGRAMS]) > MOST_BYTES:
            self.programs.pop(0)

    def find(self, payload: Payload, candidate: Candidate) -> CompiledProgram | None:
        """The program of a payload and a candidate that was kept last; `None` if there is none."""
        wanted = (payload.sha256, payload.entry, payload.arguments, candidate)
        for each in reversed(self.programs):
            if (each.sha256, each.entry, each.arguments, each.candidate) == wanted:
                return each.program
        return None


PROGRAMS = KeptPrograms()  # of this process
