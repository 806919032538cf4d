"""Time of a trial by phase, and the phase that an isolated process is in."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

COMPILE = ("transform", "lower", "jit")  # the phases of a compilation, in order
PHASES = (*COMPILE, "verify", "measure")  # of what an isolated process does


@dataclass(frozen=True)
class Moment:
    """Phase that a process is in.

    Attributes:
        phase: Phase that began.
        candidate: Position in the job of the candidate that it began for.
    """

    phase: str
    candidate: int = 0


class Reporter:
    """Notifies a listener of each phase that begins, so that the phase is known when the process dies."""

    def __init__(self) -> None:
        self.listener: Callable[[Moment], None] | None = None
        self.candidate = 0

    def begin(self, phase: str) -> None:
        """A phase of the current candidate begins."""
        if self.listener is not None:
            self.listener(Moment(phase, self.candidate))

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Notify of nothing in the block, which is no candidate's."""
        listener, self.listener = self.listener, None
        try:
            yield
        finally:
            self.listener = listener


REPORTER = Reporter()  # one process, one listener


@dataclass
class Stopwatch:
    """Seconds by phase name."""

    phases: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the time the block takes to phase `name`, also when it raises."""
        REPORTER.begin(name)
        start = time.perf_counter()
        try:
            yield
        finally:
            self.phases[name] = self.phases.get(name, 0.0) + time.perf_counter() - start
