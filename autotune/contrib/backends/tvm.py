"""TVM: MetaSchedule's design spaces of a task as knobs, what they choose compiled by TVM, on one thread.

MetaSchedule writes sketches of a schedule, with decisions left open: sizes of tiles, steps to unroll, where a block is
computed (Shao et al., Tensor Program Optimization with Probabilistic Programs, NeurIPS 2022). Which sketch, and each of
its decisions, is a knob; our search chooses, our worker verifies and times.
"""

from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import Any

from autotune.core.errors import CompileError
from autotune.core.host.extras import install_command, version_of
from autotune.core.host.machine import Machine
from autotune.core.plugs.external_kernel import MadeObject
from autotune.core.printable import first_lines
from autotune.core.space import Config, Space
from autotune.core.task import Task

NAME, PACKAGE, EXTRA = "tvm", "apache-tvm", "tvm"


@dataclass(frozen=True)
class Tvm:
    """TVM, as the back end ``tvm``."""

    name: str = NAME

    def missing(self) -> str:
        """TVM, where it is not installed."""
        if find_spec("tvm") is not None:
            return ""
        return f"back end {NAME} needs {PACKAGE}, it is not installed; {install_command(EXTRA)}"

    def version(self) -> str:
        """Version of the package, and the processor that it compiles for."""
        return f"{PACKAGE} {version_of(PACKAGE) or 'of unknown version'}"

    def refuses(self, task: Task, machine: Machine) -> str:
        """Why TVM's language does not say what a task computes, or MetaSchedule has no sketch of it."""
        return str(self._workshop.refusal(task))

    def space(self, task: Task, machine: Machine) -> Space:
        """Sketches and their decisions."""
        found: Space = self._workshop.sketches(task).space
        return found

    def default(self, task: Task, machine: Machine) -> Config:
        """Tiles of vectors in the first sketch that tiles."""
        found: Config = self._workshop.sketches(task).default
        return found

    def make(self, task: Task, config: Config, machine: Machine) -> MadeObject:
        """Apply a sketch with its decisions, and compile.

        Raises:
            CompileError: The decisions do not fit together, or TVM refuses what they make.
        """
        try:
            made: MadeObject = self._workshop.make(task, config)
        except CompileError:
            raise
        except Exception as error:  # TVM raises classes of its own for all kinds of refusals
            raise CompileError("transform", first_lines(f"{type(error).__name__}: {error}")) from error
        return made

    @cached_property
    def _workshop(self) -> Any:  # noqa: ANN401
        """What needs TVM, loaded when it is asked."""
        from autotune.contrib.backends.tvm_workshop import Workshop

        return Workshop()


def open_tvm(argument: str) -> Tvm:
    """TVM, with its default schedules; takes no argument."""
    return Tvm()
