"""How tasks are transformed: the `Schedule` that a family implements, and the `Baseline` it is measured against."""

from dataclasses import dataclass
from typing import Protocol

from autotune.machine import Machine
from autotune.space import Config, Space
from autotune.task import Task


class Schedule(Protocol):
    """A family of schedules: declares its knobs for a task and writes transform-dialect text for a config.

    Plug-ins register an instance under the entry-point group ``autotune.schedules``.
    """

    @property
    def name(self) -> str:
        """How users and records name it."""
        ...

    @property
    def fallback(self) -> bool:
        """Whether it steps in only where no other family covers a task."""
        ...

    def covers(self, task: Task) -> bool:
        """Tell whether this family can schedule the task."""
        ...

    def space(self, task: Task, machine: Machine) -> Space:
        """Give the knobs, their values and the joint constraints."""
        ...

    def default(self, task: Task, machine: Machine) -> Config:
        """Give a config that is good without any search; it satisfies the space's constraints."""
        ...

    def build(self, task: Task, config: Config, machine: Machine) -> str:
        """Write the body that transforms ``%op``, one handle to the task's op, in terms of tensors and vectors.

        Handles that are used must hold something, else the trial is ``transform-failed``; an op whose result may be
        empty is marked ``{autotune.optional}``.

        Returns:
            Transform-dialect operations, one a line, without the surrounding named sequence.
        """
        ...

    def panel(self, task: Task, config: Config) -> int:
        """Columns of the panels that the task's constant B is stored in before any call; 0 leaves it as it is.

        The op that `build` transforms then reads B as (k, n), rows of a panel at a time.
        """
        ...


@dataclass(frozen=True)
class Baseline:
    """A classic pass pipeline from linalg on tensors to the LLVM dialect.

    Attributes:
        name: How users name it.
        pipeline: MLIR's textual pass pipeline, ``builtin.module(...)``.
    """

    name: str
    pipeline: str
