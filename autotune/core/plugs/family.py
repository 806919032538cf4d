"""`Family`: a parametrised schedule for tasks; `Baseline`: the pass pipeline that schedules are compared with."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from autotune.core.errors import ScheduleError
from autotune.core.host.machine import Machine
from autotune.core.plugs.program import Program, WrittenScript
from autotune.core.plugs.rewrites import Rewrites
from autotune.core.scripts.parametric import OpenScript
from autotune.core.space import Config, Space
from autotune.core.task import Task


class Family(Protocol):
    """A family of schedules: defines the search space of a task, and generates a transform script for a config.

    Plug-ins register an instance in the entry-point group ``autotune.schedules``. A family inherits from this class;
    `rewrites` and the methods after it have defaults.
    """

    @property
    def name(self) -> str:
        """Name of the family for users and records."""
        ...

    @property
    def fallback(self) -> bool:
        """Whether it is used only where no other family covers a task."""
        ...

    def covers(self, task: Task) -> bool:
        """Return whether this family can schedule the task."""
        ...

    def space(self, task: Task, machine: Machine) -> Space:
        """Return the knobs, their values and the joint constraints."""
        ...

    def default(self, task: Task, machine: Machine) -> Config:
        """Return a good config without any search; it satisfies the space's constraints."""
        ...

    def build(self, task: Task, config: Config, machine: Machine) -> str:
        """Generate the transform ops for ``%op``, a handle to one op of the task, on tensors and vectors.

        Handles that are used must not be empty, else the trial is ``transform-failed``; an op whose result may be
        empty is marked ``{autotune.optional}``.

        Returns:
            Transform-dialect operations, one a line, without the surrounding named sequence. A family that writes no
            script overrides `plan` instead.
        """
        raise ScheduleError(f"family {self.name!r} must define build, or plan what it does instead; it does neither")

    def rewrites(self, task: Task, config: Config) -> Rewrites:
        """Return the rewrites of the op that `build` assumes; by default none."""
        return Rewrites()

    @property
    def specific(self) -> int:
        """Priority among the families that cover a task: higher numbers come first."""
        return 0

    @property
    def asked(self) -> bool:
        """Whether it is searched only if the user names it."""
        return False

    @property
    def error(self) -> float:
        """Relative rounding error of operands; 0 where it does not round."""
        return 0.0

    @property
    def saving(self) -> float:
        """Ratio of a task's nominal multiplications to those that its programs execute; above 1 for fewer."""
        return 1.0

    @property
    def lacking(self) -> str:
        """Sentence on what this CPU lacks for it; empty if nothing."""
        return ""

    def runs_on(self, machine: Machine) -> bool:
        """Return whether a machine, this one or another, supports the instructions of its programs."""
        return True

    @property
    def script(self) -> OpenScript | None:
        """User script that the family wraps; `None` where it generates scripts."""
        return None

    @property
    def identity(self) -> Mapping[str, str]:
        """Other inputs, by name, that determine its programs besides its name, knobs and scripts."""
        return {}

    def record(self) -> dict[str, str] | None:
        """Return source, text and tasks of a user script, from which a store can restore the family; else `None`."""
        return None

    def features(self, task: Task, config: Config, machine: Machine) -> Mapping[str, float]:
        """Return the features of a config for cost models, by name."""
        return {}

    def predicted_cycles(self, task: Task, config: Config, machine: Machine, in_l1: float) -> float:
        """Predict the cycles of a call; 0 where there is no prediction.

        Args:
            task: Task that is covered.
            config: Value of every knob.
            machine: Host of the program.
            in_l1: Cycles of a vector multiply-add in the innermost loop.
        """
        return 0.0

    def plan(self, task: Task, config: Config, machine: Machine, ops: int) -> Program:
        """Return a task's program for a config: by default the script of `build`, applied after `rewrites`.

        Args:
            task: Task that is covered.
            config: Value of every knob.
            machine: Host of the program.
            ops: Number of ops of the module that carry the task's tag.
        """
        return WrittenScript(self.build(task, config, machine), rewrites=self.rewrites(task, config))


@dataclass(frozen=True)
class Baseline:
    """A classic pass pipeline from linalg on tensors to the LLVM dialect.

    Attributes:
        name: Name of the baseline for users.
        pipeline: MLIR's textual pass pipeline, ``builtin.module(...)``.
        summary: Line in ``autotune list``.
    """

    name: str
    pipeline: str
    summary: str = "A classic pass pipeline from linalg on tensors to the LLVM dialect."
