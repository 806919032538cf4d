"""Backends: generators of machine code for tasks, as alternatives to schedules; defines the `Backend` protocol.

A backend runs in a separate process without MLIR, since its compiler may load another LLVM. Its code replaces the task,
and is verified, measured and recorded like a schedule.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from autotune.core.errors import ScheduleError
from autotune.core.host.machine import Machine
from autotune.core.plugs.external_kernel import ExternalKernel, MadeObject
from autotune.core.plugs.family import Family
from autotune.core.plugs.program import ExternalCode, Program
from autotune.core.plugs.rewrites import NeededRewrite, Rewrites
from autotune.core.space import Config, Space
from autotune.core.task import Task

BACKENDS = "autotune.backends"  # group of entry points
CALLS = NeededRewrite("kernels", 1)  # rewrite that replaces a task by a call


class Backend(Protocol):
    """A code generator. Plug-ins register a factory function under the entry-point group ``autotune.backends``.

    The factory receives the text after the colon in ``--backend NAME:ARGUMENT``, which may be empty.
    """

    @property
    def name(self) -> str:
        """Name in records: letters, digits and underscores."""
        ...

    def version(self) -> str:
        """Return one line with everything that determines the generated code besides task and config."""
        ...

    def missing(self) -> str:
        """Return a sentence on what must be installed, with the command; empty if nothing is missing."""
        ...

    def refuses(self, task: Task, machine: Machine) -> str:
        """Return why it does not cover a task, as the rest of a sentence that begins with "it"; empty if it does."""
        ...

    def space(self, task: Task, machine: Machine) -> Space:
        """Return the search space of a covered task; constraints must be module-level functions, to be pickled."""
        ...

    def default(self, task: Task, machine: Machine) -> Config:
        """Return the default config."""
        ...

    def make(self, task: Task, config: Config, machine: Machine) -> MadeObject:
        """Generate the code of a task.

        Raises:
            CompileError: Code generation fails; the stage says where.
        """
        ...


@dataclass(frozen=True)
class Offer:
    """A backend's offer for a task.

    Attributes:
        refusal: Reason why it does not cover the task; empty if it does.
        space: Search space of the task.
        default: Default config.
    """

    refusal: str
    space: Space = field(default_factory=lambda: Space(()))
    default: Config = field(default_factory=dict)


@dataclass(frozen=True)
class BackendFamily(Family):
    """A backend as a `Family` of a search, which generates kernels instead of scripts.

    Attributes:
        offers: Offer for each task, by tag.
        kernel: Generator of a task's code; it raises `KernelError` on failure.
        name: Name of the backend.
        version: Everything that determines the generated code besides task and config.
        fallback: Always false: a backend is an alternative to families, not a fallback.
    """

    offers: Mapping[str, Offer] = field(compare=False)
    kernel: Callable[[Task, Config, Machine], ExternalKernel] = field(compare=False)
    name: str = ""
    version: str = ""
    fallback: bool = False

    def covers(self, task: Task) -> bool:
        """Return whether the backend covers a task."""
        return task.tag in self.offers and not self.offers[task.tag].refusal

    def space(self, task: Task, machine: Machine) -> Space:
        """Return the search space of a task."""
        return self._offer(task).space

    def default(self, task: Task, machine: Machine) -> Config:
        """Return the default config of a task."""
        return self._offer(task).default

    def plan(self, task: Task, config: Config, machine: Machine, ops: int) -> Program:
        """Return the program of a config; its code is generated when it is compiled."""
        chosen = " ".join(f"{name}={value}" for name, value in sorted(config.items()))
        origin = f"{CALLS} by {self.name} ({self.version}): {chosen}"
        make = partial(self.kernel, task, config, machine)
        return ExternalCode(origin, make, rewrites=Rewrites(needed=(CALLS,)))

    @property
    def identity(self) -> Mapping[str, str]:
        """Everything that determines the generated code besides task and config."""
        return {"backend": f"{CALLS} {self.version}"}

    def _offer(self, task: Task) -> Offer:
        if not self.covers(task):
            raise ScheduleError(f"back end {self.name} must cover {task.tag}, it does not; leave it out")
        return self.offers[task.tag]
