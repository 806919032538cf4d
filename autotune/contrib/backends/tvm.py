"""The TVM backend: MetaSchedule's design spaces as knobs, compiled by TVM for one thread.

MetaSchedule generates sketches of a schedule with open sampling decisions: tile sizes, unroll steps, compute locations
(Shao et al., Tensor Program Optimization with Probabilistic Programs, NeurIPS 2022). The sketch and each of its
decisions are knobs of this project's search, and the code is verified and measured like a schedule.
"""

from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import Any

from autotune.core.errors import CompileError, ScheduleError
from autotune.core.host.extras import install_command, version_of
from autotune.core.host.machine import Machine
from autotune.core.plugs.external_kernel import MadeObject
from autotune.core.printable import first_lines
from autotune.core.space import Config, Space
from autotune.core.task import Task

NAME, PACKAGE, EXTRA = "tvm", "apache-tvm", "tvm"


@dataclass(frozen=True)
class Tvm:
    """The backend ``tvm``."""

    name: str = NAME

    def missing(self) -> str:
        """Return a sentence if TVM is not installed."""
        if find_spec("tvm") is not None:
            return ""
        return f"back end {NAME} needs {PACKAGE}, it is not installed; {install_command(EXTRA)}"

    def version(self) -> str:
        """Return the name and version of the package."""
        return f"{PACKAGE} {version_of(PACKAGE) or 'of unknown version'}"

    def refuses(self, task: Task, machine: Machine) -> str:
        """Return why a task cannot be translated to TVM, or why MetaSchedule has no sketch of it."""
        return str(self._workshop.refusal(task))

    def space(self, task: Task, machine: Machine) -> Space:
        """Return the search space of the sketches and their decisions."""
        space: Space = self._workshop.sketches(task).space
        return space

    def default(self, task: Task, machine: Machine) -> Config:
        """Return the default values of the decisions in the first sketch."""
        config: Config = self._workshop.sketches(task).default
        return config

    def make(self, task: Task, config: Config, machine: Machine) -> MadeObject:
        """Apply a sketch with its decisions, and compile the result.

        Raises:
            CompileError: The decisions are inconsistent, or TVM fails.
        """
        try:
            made: MadeObject = self._workshop.make(task, config)
        except CompileError:
            raise
        except Exception as error:  # TVM raises its own exception classes
            raise CompileError("transform", first_lines(f"{type(error).__name__}: {error}")) from error
        return made

    @cached_property
    def _workshop(self) -> Any:  # noqa: ANN401
        """Interface to TVM, which is imported on first use."""
        from autotune.contrib.backends.tvm_workshop import Workshop

        return Workshop()


def open_tvm(argument: str) -> Tvm:
    """TVM, with its default schedules; takes no argument.

    Raises:
        ScheduleError: There is an argument.
    """
    if argument:
        raise ScheduleError(f"back end tvm takes no argument, got {argument[:80]!r}; give tvm alone")
    return Tvm()
