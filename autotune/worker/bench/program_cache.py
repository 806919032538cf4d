"""Cache of verified programs of this process for later error measurements: a whole model compiles for half a minute.

A program is always recompiled to be timed: its speed depends on where its code is loaded, and this chance effect must
not carry over from one measurement to the next.
"""

from dataclasses import dataclass, field

from autotune.compiler.lowering.program import CompiledProgram
from autotune.core.candidate import Candidate
from autotune.core.payload import Argument, Payload

MOST_PROGRAMS = 8  # the number of finalists
LEAST_PROGRAMS = 2  # of any size: a whole model and its baseline
MOST_BYTES = 1 << 28  # of the arenas of all other programs


@dataclass(frozen=True)
class RightProgram:
    """A verified program, and what it was compiled from.

    Attributes:
        sha256: Hash of the payload's text.
        entry: Name of the entry function.
        arguments: Arguments of the program.
        candidate: Candidate that it was compiled from.
        program: Compiled program.
    """

    sha256: str
    entry: str
    arguments: tuple[Argument, ...]
    candidate: Candidate
    program: CompiledProgram

    @property
    def bytes(self) -> int:
        """Size of its arena, in bytes."""
        return self.program.buffers.peak_bytes if self.program.buffers is not None else 0


@dataclass
class ProgramCache:
    """Cache of the most recently verified programs, the oldest first."""

    programs: list[RightProgram] = field(default_factory=list)

    def keep(self, payload: Payload, candidate: Candidate, program: CompiledProgram) -> None:
        """Add a program; evict the oldest ones beyond the limits of count and memory."""
        entry = RightProgram(payload.sha256, payload.entry, payload.arguments, candidate, program)
        self.programs = [*self.programs, entry][-MOST_PROGRAMS:]
        while sum(each.bytes for each in self.programs[:-LEAST_PROGRAMS]) > MOST_BYTES:
            self.programs.pop(0)

    def find(self, payload: Payload, candidate: Candidate) -> CompiledProgram | None:
        """Return the cached program of a payload and a candidate; `None` if there is none."""
        key = (payload.sha256, payload.entry, payload.arguments, candidate)
        for entry in reversed(self.programs):
            if (entry.sha256, entry.entry, entry.arguments, entry.candidate) == key:
                return entry.program
        return None


PROGRAMS = ProgramCache()  # of this process
