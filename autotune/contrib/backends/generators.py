"""Back ends in a tuning run: asked what they have for its tasks, and for code, in a process of their own."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from autotune.contrib.backends.backend import BackendFamily
from autotune.contrib.backends.external_code import Order, Question, ask_offers, make
from autotune.core.errors import KernelError, MachineError, ScheduleError
from autotune.core.evaluator import Evaluation
from autotune.core.host.machine import Machine
from autotune.core.plugs.external_kernel import ExternalKernel
from autotune.core.space import Config, config_key
from autotune.core.task import Task
from autotune.worker.loading.reading import bare
from autotune.worker.worker import Worker

A = TypeVar("A")
T = TypeVar("T")


@contextmanager
def open_generators(specs: Sequence[str], seconds: float) -> Iterator["CodeGenerators"]:
    """The back ends of a run, until the block ends; no process where there are none.

    Args:
        specs: The back ends, each ``NAME`` or ``NAME:ARGUMENT``.
        seconds: Seconds that generating one task's code may take.

    Yields:
        The back ends.
    """
    with Worker(seconds, library=True) if specs else nullcontext() as worker:
        yield CodeGenerators(tuple(specs), worker, seconds)


@dataclass
class CodeGenerators:
    """The back ends of a run; they live as long as their process.

    Attributes:
        specs: The back ends.
        worker: Process that they run in; `None` where there are none.
        seconds: Seconds that generating one task's code may take.
        made: Code so far, by back end, task and config.
    """

    specs: tuple[str, ...]
    worker: Worker | None
    seconds: float
    made: dict[tuple[str, str, str], ExternalKernel] = field(default_factory=dict)

    def families(self, tasks: Sequence[Task], machine: Machine) -> tuple[tuple[BackendFamily, ...], tuple[str, ...]]:
        """Back ends for some tasks, as searches know them, and what they leave out, a sentence each.

        Raises:
            ScheduleError: A back end is not installed or fails, or two have one name.
            MachineError: Something that one needs is missing, or it ends its process.
        """
        found = tuple(self.family(spec, tasks, machine) for spec in self.specs)
        names = [family.name for family in found]
        if len(set(names)) < len(names):
            raise ScheduleError(f"back ends must have distinct names, got {', '.join(names)}; leave one out")
        return found, refusals(found)

    def family(self, spec: str, tasks: Sequence[Task], machine: Machine) -> BackendFamily:
        """A back end for some tasks, as searches know it.

        Raises:
            ScheduleError: There is no such back end, or it fails.
            MachineError: Something that it needs is missing, or it ends its process.
        """
        found = self._call(ask_offers, Question(spec, tuple(map(without_functions, tasks)), machine))
        if isinstance(found, Evaluation):
            raise MachineError(f"back end {spec} must say what it covers, it was {found.outcome}: {found.diagnostic}")
        offers = {task.tag: offer for task, offer in zip(tasks, found.offers, strict=True)}
        return BackendFamily(offers, partial(self.kernel, spec), found.name, found.version)

    def kernel(self, spec: str, task: Task, config: Config, machine: Machine) -> ExternalKernel:
        """A task's code.

        Raises:
            KernelError: The code cannot be made.
        """
        key = (spec, task.tag, config_key(config))
        if key not in self.made:
            found = self._call(make, Order(spec, without_functions(task), dict(config), machine))
            if isinstance(found, Evaluation):
                raise KernelError(found.outcome, found.diagnostic)
            self.made[key] = found
        return self.made[key]

    def _call(self, function: Callable[[A], T], argument: A) -> T | Evaluation:
        if self.worker is None:
            raise MachineError("a back end must be named, none was; pass --backend")
        return self.worker.call(function, argument, self.seconds)


def without_functions(task: Task) -> Task:
    """A task as back ends see it, without functions, which would bring MLIR along."""
    return replace(task, payload=bare(task.payload))


def refusals(families: Sequence[BackendFamily]) -> tuple[str, ...]:
    """What back ends do not cover, a sentence each."""
    return tuple(
        f"back end {family.name} leaves out {tag}: it {offer.refusal}"
        for family in families
        for tag, offer in family.offers.items()
        if offer.refusal
    )
