"""`GuardedFamily`: a family of a plug-in, whose errors become one line with file and line number."""

import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar, cast

from autotune.core.errors import AutotuneError, ScheduleError
from autotune.core.host.machine import Machine
from autotune.core.plugs.family import Family
from autotune.core.plugs.program import Program
from autotune.core.plugs.rewrites import Rewrites
from autotune.core.space import Config, Space
from autotune.core.task import Task

T = TypeVar("T")
V = TypeVar("V")


@dataclass(frozen=True)
class GuardedFamily(Family):
    """A family of a plug-in, or of a file.

    Attributes:
        family: The family as it was written.
    """

    family: Family

    @property
    def name(self) -> str:
        """Its name."""
        return self.family.name

    @property
    def fallback(self) -> bool:
        """Whether it steps in only where no other family covers a task."""
        return self.family.fallback

    @property
    def specific(self) -> int:
        """How specific it says it is; see `Family`."""
        return int(self._given("specific", 0))

    @property
    def asked(self) -> bool:
        """Whether it declares to be searched only where the user names it; see `Family`."""
        return bool(self._given("asked", False))

    def covers(self, task: Task) -> bool:
        """Return whether it can schedule the task."""
        return self._ask("covers", lambda: self.family.covers(task))

    def space(self, task: Task, machine: Machine) -> Space:
        """Its knobs."""
        return self._ask("space", lambda: self.family.space(task, machine))

    def default(self, task: Task, machine: Machine) -> Config:
        """Its config without any search."""
        return self._ask("default", lambda: self.family.default(task, machine))

    def build(self, task: Task, config: Config, machine: Machine) -> str:
        """Its script."""
        return self._ask("build", lambda: self.family.build(task, config, machine))

    def rewrites(self, task: Task, config: Config) -> Rewrites:
        """What its script takes for granted."""
        return self._ask("rewrites", lambda: self.family.rewrites(task, config))

    def plan(self, task: Task, config: Config, machine: Machine, ops: int) -> Program:
        """Its program for a config."""
        if getattr(type(self.family), "plan", Family.plan) is Family.plan:
            return super().plan(task, config, machine, ops)  # of what the family writes, each guarded
        return self._ask("plan", lambda: self.family.plan(task, config, machine, ops))

    @property
    def error(self) -> float:
        """How coarsely it rounds operands."""
        return float(self._given("error", 0.0))

    @property
    def lacking(self) -> str:
        """What this CPU lacks for it."""
        return str(self._given("lacking", ""))

    @property
    def identity(self) -> Mapping[str, str]:
        """What decides its programs besides its name, knobs and scripts."""
        return dict(self._given("identity", {}))

    def features(self, task: Task, config: Config, machine: Machine) -> Mapping[str, float]:
        """Numbers that decide how fast a config is; none where it gives none."""
        own = self._given("features", super().features)
        return self._ask("features", lambda: own(task, config, machine))

    def predicted_cycles(self, task: Task, config: Config, machine: Machine, in_l1: float) -> float:
        """Cycles of a call; 0 where it knows nothing."""
        own = self._given("predicted_cycles", super().predicted_cycles)
        return self._ask("predicted_cycles", lambda: own(task, config, machine, in_l1))

    def _given(self, member: str, default: V) -> V:
        """A method that may be left out by a family that does not inherit from `Family`."""
        return cast(V, getattr(self.family, member, default))

    def _ask(self, method: str, call: Callable[[], T]) -> T:
        """Call a method.

        Raises:
            ScheduleError: The method raised something that is no sentence of ours.
        """
        try:
            return call()
        except AutotuneError:
            raise
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            message = f"{type(error).__name__}: {error}"
            raise ScheduleError(
                f"{last.filename}:{last.lineno}: {method} of family {self.name!r} must not fail, it raised {message}"
            ) from error
