"""How tasks are transformed: the `Family` that writes scripts for them, and the `Baseline` it is measured against."""

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
    """A family of schedules: declares its knobs for a task and writes transform-dialect text for a config.

    Plug-ins register an instance under the entry-point group ``autotune.schedules``. A family inherits from this class,
    and with it what it leaves as it is: `rewrites`, and everything behind it.
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
        """Return whether this family can schedule the task."""
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
            Transform-dialect operations, one a line, without the surrounding named sequence. A family that writes none
            says what it does instead in `plan`.
        """
        raise ScheduleError(f"family {self.name!r} must define build, or plan what it does instead; it does neither")

    def rewrites(self, task: Task, config: Config) -> Rewrites:
        """Return what `build` takes for granted of the op: by default nothing, operands are as they are."""
        return Rewrites()

    @property
    def specific(self) -> int:
        """Among several that cover a task, families with a higher number come first."""
        return 0

    @property
    def asked(self) -> bool:
        """Whether it is searched only where the user names it."""
        return False

    @property
    def error(self) -> float:
        """How coarsely it rounds operands; 0 where it does not."""
        return 0.0

    @property
    def saving(self) -> float:
        """Multiplications that a task counts, over those that its programs do: above 1 where they do with fewer."""
        return 1.0

    @property
    def lacking(self) -> str:
        """What this CPU lacks for it, a sentence; empty if nothing."""
        return ""

    def runs_on(self, machine: Machine) -> bool:
        """Return whether a machine, which may be another than this one, has the instructions of its programs."""
        return True

    @property
    def script(self) -> OpenScript | None:
        """The user's own script that it is; `None` where it writes scripts."""
        return None

    @property
    def identity(self) -> Mapping[str, str]:
        """What decides its programs besides its name, knobs and scripts, by a name for each."""
        return {}

    def record(self) -> dict[str, str] | None:
        """What a store keeps of it to read it again: source, text and tasks of a user's own script."""
        return None

    def features(self, task: Task, config: Config, machine: Machine) -> Mapping[str, float]:
        """Numbers that decide how fast a config is, by name: a cost model learns from them."""
        return {}

    def predicted_cycles(self, task: Task, config: Config, machine: Machine, in_l1: float) -> float:
        """Cycles of a call, from those of a vector multiply-add in the hot loop; 0 where it knows nothing."""
        return 0.0

    def plan(self, task: Task, config: Config, machine: Machine, ops: int) -> Program:
        """Plan a task's program for a config: by default the script that `build` writes, after `rewrites`.

        Args:
            task: Task that is covered.
            config: Value of every knob.
            machine: Host that the program is for.
            ops: Number of ops of the module that carry the task's tag.
        """
        return WrittenScript(self.build(task, config, machine), rewrites=self.rewrites(task, config))


@dataclass(frozen=True)
class Baseline:
    """A classic pass pipeline from linalg on tensors to the LLVM dialect.

    Attributes:
        name: Name that users know the baseline by.
        pipeline: MLIR's textual pass pipeline, ``builtin.module(...)``.
    """

    name: str
    pipeline: str
