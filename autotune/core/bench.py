"""`Bench`: what runs our code in an isolated process: a worker of this machine, or a slot of another one."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from autotune.core.evaluator import Evaluation, Job
from autotune.core.host.machine import Machine, Roofs

A = TypeVar("A")
T = TypeVar("T")


class Bench(Protocol):
    """One isolated process and the one that follows it, on whatever machine: see `Worker`."""

    def evaluate(self, job: Job, seconds: float | None = None) -> list[Evaluation]:
        """Compile, verify and time a job's candidates; one `Evaluation` each, in their order, whatever happens.

        Raises:
            AutotuneError: The payload itself is at fault, not a candidate.
        """
        ...

    def call(self, function: Callable[[A], T], argument: A, seconds: float | None = None) -> T | Evaluation:
        """Run a function of a module in the process; where the process fails over it, an `Evaluation` that says how.

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
            MachineError: The process failed over it.
        """
        ...
