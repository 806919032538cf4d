"""`GuardedFamily`: wrapper of a plug-in's family, whose exceptions become one line with file and line number."""

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
    """Wrapper of a family from a plug-in or a file.

    Attributes:
        family: The wrapped family.
    """

    family: Family

    @property
    def name(self) -> str:
        """Name of the wrapped family."""
        return self.family.name

    @property
    def fallback(self) -> bool:
        """Whether it is used only where no other family covers a task."""
        return self.family.fallback

    @property
    def specific(self) -> int:
        """Priority of the wrapped family; see `Family`."""
        return int(self._attribute("specific", 0))

    @property
    def asked(self) -> bool:
        """Whether it is searched only if the user names it; see `Family`."""
        return bool(self._attribute("asked", False))

    def covers(self, task: Task) -> bool:
        """Return whether it can schedule the task."""
        return self._ask("covers", lambda: self.family.covers(task))

    def space(self, task: Task, machine: Machine) -> Space:
        """Return the search space of the wrapped family."""
        return self._ask("space", lambda: self.family.space(task, machine))

    def default(self, task: Task, machine: Machine) -> Config:
        """Return the default config of the wrapped family."""
        return self._ask("default", lambda: self.family.default(task, machine))

    def build(self, task: Task, config: Config, machine: Machine) -> str:
        """Generate the transform ops of the wrapped family."""
        return self._ask("build", lambda: self.family.build(task, config, machine))

    def rewrites(self, task: Task, config: Config) -> Rewrites:
        """Return the rewrites that the wrapped family assumes."""
        return self._ask("rewrites", lambda: self.family.rewrites(task, config))

    def plan(self, task: Task, config: Config, machine: Machine, ops: int) -> Program:
        """Return the program of the wrapped family for a config."""
        if getattr(type(self.family), "plan", Family.plan) is Family.plan:
            return super().plan(task, config, machine, ops)  # calls `build` and `rewrites` above, each guarded
        return self._ask("plan", lambda: self.family.plan(task, config, machine, ops))

    @property
    def error(self) -> float:
        """Relative rounding error of operands; 0 where it does not round."""
        return float(self._attribute("error", 0.0))

    @property
    def lacking(self) -> str:
        """Sentence on what this CPU lacks for it; empty if nothing."""
        return str(self._attribute("lacking", ""))

    @property
    def identity(self) -> Mapping[str, str]:
        """Other inputs that determine its programs; see `Family`."""
        return dict(self._attribute("identity", {}))

    def features(self, task: Task, config: Config, machine: Machine) -> Mapping[str, float]:
        """Return the features of a config; empty where the wrapped family defines none."""
        own = self._attribute("features", super().features)
        return self._ask("features", lambda: own(task, config, machine))

    def predicted_cycles(self, task: Task, config: Config, machine: Machine, in_l1: float) -> float:
        """Predict the cycles of a call; 0 where there is no prediction."""
        own = self._attribute("predicted_cycles", super().predicted_cycles)
        return self._ask("predicted_cycles", lambda: own(task, config, machine, in_l1))

    def _attribute(self, member: str, default: V) -> V:
        """Return an attribute that a family which does not inherit from `Family` may lack."""
        return cast(V, getattr(self.family, member, default))

    def _ask(self, method: str, call: Callable[[], T]) -> T:
        """Call a method, and convert unexpected exceptions.

        Raises:
            ScheduleError: The method raised an exception that is no `AutotuneError`.
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
