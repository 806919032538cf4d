"""Where the time of a trial goes, and, in an isolated process, where it is now."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

COMPILE = ("transform", "lower", "jit")  # the phases of a compilation, in order


@dataclass(frozen=True)
class Moment:
    """Where a process is.

    Attributes:
        phase: What began.
        candidate: Which of a job's candidates it began for.
    """

    phase: str
    candidate: int = 0


class Reporter:
    """Tells one listener of this process which phase begins, so that somebody knows it when the process dies."""

    def __init__(self) -> None:
        self.listener: Callable[[Moment], None] | None = None
        self.candidate = 0

    def begin(self, phase: str) -> None:
        """A phase of the current candidate begins."""
        if self.listener is not None:
            self.listener(Moment(phase, self.candidate))


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
