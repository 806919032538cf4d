"""Durations of a trial by phase, and notification of the current phase of an isolated process."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

COMPILE = ("transform", "lower", "jit")  # phases of a compilation, in order
PHASES = (*COMPILE, "verify", "measure")  # phases of a trial in an isolated process


@dataclass(frozen=True)
class Moment:
    """Start of a phase in a process.

    Attributes:
        phase: Phase that starts.
        candidate: Position of the candidate in the job.
    """

    phase: str
    candidate: int = 0


class Reporter:
    """Notifier of the start of each phase, so that the phase is known if the process dies."""

    def __init__(self) -> None:
        self.listener: Callable[[Moment], None] | None = None
        self.candidate = 0

    def begin(self, phase: str) -> None:
        """Notify the listener that a phase of the current candidate starts."""
        if self.listener is not None:
            self.listener(Moment(phase, self.candidate))

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Suspend notifications in the block, whose work belongs to no candidate."""
        listener, self.listener = self.listener, None
        try:
            yield
        finally:
            self.listener = listener


REPORTER = Reporter()  # one process, one listener


@dataclass
class Stopwatch:
    """Stopwatch that accumulates seconds by phase name."""

    phases: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the duration of the block to phase `name`, also when it raises."""
        REPORTER.begin(name)
        start = time.perf_counter()
        try:
            yield
        finally:
            self.phases[name] = self.phases.get(name, 0.0) + time.perf_counter() - start
