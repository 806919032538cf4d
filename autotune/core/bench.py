"""`Bench`: interface for running code in an isolated process, of this machine or a remote one."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from autotune.core.evaluator import Evaluation, Job
from autotune.core.host.machine import Machine, Roofs

A = TypeVar("A")
T = TypeVar("T")


class Bench(Protocol):
    """An isolated process, local or remote, that is replaced by a new one when it dies: see `Worker`."""

    def evaluate(self, job: Job, seconds: float | None = None) -> list[Evaluation]:
        """Compile, verify and time a job's candidates, and return an `Evaluation` of each, in their order.

        Raises:
            AutotuneError: The payload itself is at fault, not a candidate.
        """
        ...

    def call(self, function: Callable[[A], T], argument: A, seconds: float | None = None) -> T | Evaluation:
        """Call a module-level function in the process, and return its result.

        Where the process dies, hangs or runs out of memory in the call, return an `Evaluation` with that outcome.

        Raises:
            AutotuneError: The function raised it.
        """
        ...

    def renew(self) -> None:
        """Run the next call in a new process."""
        ...

    def roofs(self, machine: Machine) -> Roofs:
        """Measure the machine's roofs.

        Raises:
            MachineError: The process failed during the measurement.
        """
        ...
