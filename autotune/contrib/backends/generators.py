"""The backends of a tuning run: query their offers and generate code, in a separate process."""

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
    """Open the backends of a run until the block ends; without backends, no process is started.

    Args:
        specs: Backends, each ``NAME`` or ``NAME:ARGUMENT``.
        seconds: Time limit of generating one task's code, in seconds.

    Yields:
        The backends.
    """
    with Worker(seconds, library=True) if specs else nullcontext() as worker:
        yield CodeGenerators(tuple(specs), worker, seconds)


@dataclass
class CodeGenerators:
    """The backends of a run, for the lifetime of their process.

    Attributes:
        specs: Backends, each ``NAME`` or ``NAME:ARGUMENT``.
        worker: Process that they run in; `None` without backends.
        seconds: Time limit of generating one task's code, in seconds.
        made: Cache of generated kernels, by backend, task and config.
    """

    specs: tuple[str, ...]
    worker: Worker | None
    seconds: float
    made: dict[tuple[str, str, str], ExternalKernel] = field(default_factory=dict)

    def families(self, tasks: Sequence[Task], machine: Machine) -> tuple[tuple[BackendFamily, ...], tuple[str, ...]]:
        """Return all backends as families for the given tasks, and a sentence on each task that one does not cover.

        Raises:
            ScheduleError: A backend is not installed or fails, or two have the same name.
            MachineError: A requirement is missing, or a backend crashes.
        """
        families = tuple(self.family(spec, tasks, machine) for spec in self.specs)
        names = [family.name for family in families]
        if len(set(names)) < len(names):
            raise ScheduleError(f"back ends must have distinct names, got {', '.join(names)}; leave one out")
        return families, refusals(families)

    def family(self, spec: str, tasks: Sequence[Task], machine: Machine) -> BackendFamily:
        """Return a backend as a family for the given tasks.

        Raises:
            ScheduleError: The backend is not installed or fails.
            MachineError: A requirement is missing, or the backend crashes.
        """
        answer = self._call(ask_offers, Question(spec, tuple(map(without_functions, tasks)), machine))
        if isinstance(answer, Evaluation):
            raise MachineError(f"back end {spec} must say what it covers, it was {answer.outcome}: {answer.diagnostic}")
        offers = {task.tag: offer for task, offer in zip(tasks, answer.offers, strict=True)}
        return BackendFamily(offers, partial(self.kernel, spec), answer.name, answer.version)

    def kernel(self, spec: str, task: Task, config: Config, machine: Machine) -> ExternalKernel:
        """Return the kernel of a task and config, cached.

        Raises:
            KernelError: Code generation fails.
        """
        key = (spec, task.tag, config_key(config))
        if key not in self.made:
            kernel = self._call(make, Order(spec, without_functions(task), dict(config), machine))
            if isinstance(kernel, Evaluation):
                raise KernelError(kernel.outcome, kernel.diagnostic)
            self.made[key] = kernel
        return self.made[key]

    def _call(self, function: Callable[[A], T], argument: A) -> T | Evaluation:
        if self.worker is None:
            raise MachineError("a back end must be named, none was; pass --backend")
        return self.worker.call(function, argument, self.seconds)


def without_functions(task: Task) -> Task:
    """Return a task without Python functions, whose pickles would import MLIR in the backends' process."""
    return replace(task, payload=bare(task.payload))


def refusals(families: Sequence[BackendFamily]) -> tuple[str, ...]:
    """Return a sentence on each task that a backend does not cover."""
    return tuple(
        f"back end {family.name} leaves out {tag}: it {offer.refusal}"
        for family in families
        for tag, offer in family.offers.items()
        if offer.refusal
    )
