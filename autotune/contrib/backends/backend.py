"""Back ends: generators of machine code for a task, beside families of schedules; the `Backend` that plug-ins are.

A back end runs in a process of its own, in which nothing of MLIR is loaded: its compiler may bring another LLVM. What
it makes replaces the task, and is verified, timed and recorded as a schedule is.
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
CALLS = NeededRewrite("kernels", 1)  # what replaces a task by a call


class Backend(Protocol):
    """One back end. Plug-ins register, under the entry-point group ``autotune.backends``, a function that opens one.

    The function is given what follows the colon in ``--backend NAME:ARGUMENT``, a text that may be empty.
    """

    @property
    def name(self) -> str:
        """How records know it: letters, digits and underscores."""
        ...

    def version(self) -> str:
        """Whatever decides, besides task and config, which code it makes; in a line."""
        ...

    def missing(self) -> str:
        """What has to be installed first, a sentence with the command; empty if nothing has."""
        ...

    def refuses(self, task: Task, machine: Machine) -> str:
        """Why it does not cover a task, the rest of a sentence that begins with "it"; empty if it does."""
        ...

    def space(self, task: Task, machine: Machine) -> Space:
        """The knobs of a task it covers; constraints are functions of a module, as a space crosses processes."""
        ...

    def default(self, task: Task, machine: Machine) -> Config:
        """A config that is good without any search."""
        ...

    def make(self, task: Task, config: Config, machine: Machine) -> MadeObject:
        """Make a task's code.

        Raises:
            CompileError: The code cannot be made; the stage says where.
        """
        ...


@dataclass(frozen=True)
class Offer:
    """What a back end has for a task.

    Attributes:
        refusal: Why it does not cover the task; empty if it does.
        space: Knobs of the task.
        default: Config without any search.
    """

    refusal: str
    space: Space = field(default_factory=lambda: Space(()))
    default: Config = field(default_factory=dict)


@dataclass(frozen=True)
class BackendFamily(Family):
    """A back end as searches know it: like a family, but for writing no script.

    Attributes:
        offers: What it has for each task, by tag.
        kernel: Makes a task's code; raises `KernelError` where that fails.
        name: Name of the back end.
        version: What decides, besides task and config, which code it makes.
        fallback: Always false: a back end comes beside families, not for want of them.
    """

    offers: Mapping[str, Offer] = field(compare=False)
    kernel: Callable[[Task, Config, Machine], ExternalKernel] = field(compare=False)
    name: str = ""
    version: str = ""
    fallback: bool = False

    def covers(self, task: Task) -> bool:
        """Return whether it has code for a task."""
        return task.tag in self.offers and not self.offers[task.tag].refusal

    def space(self, task: Task, machine: Machine) -> Space:
        """Its knobs."""
        return self._offer(task).space

    def default(self, task: Task, machine: Machine) -> Config:
        """Its config without any search."""
        return self._offer(task).default

    def plan(self, task: Task, config: Config, machine: Machine, ops: int) -> Program:
        """The code of a config; it is made when it is to be compiled."""
        chosen = " ".join(f"{name}={value}" for name, value in sorted(config.items()))
        origin = f"{CALLS} by {self.name} ({self.version}): {chosen}"
        make = partial(self.kernel, task, config, machine)
        return ExternalCode(origin, make, rewrites=Rewrites(needed=(CALLS,)))

    @property
    def identity(self) -> Mapping[str, str]:
        """What decides which code it makes."""
        return {"backend": f"{CALLS} {self.version}"}

    def _offer(self, task: Task) -> Offer:
        if not self.covers(task):
            raise ScheduleError(f"back end {self.name} must cover {task.tag}, it does not; leave it out")
        return self.offers[task.tag]
