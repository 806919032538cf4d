"""`OwnFamily`: a user script as a family of schedules, with the script's knobs and constraints."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from autotune.core.host.machine import Machine
from autotune.core.ops.op import LoopNest, Op
from autotune.core.payload import Payload
from autotune.core.plugs.family import Family
from autotune.core.plugs.program import Program, UserScript
from autotune.core.scripts.parametric import OpenScript
from autotune.core.space import Config, Space
from autotune.core.task import WHOLE, Task

OWN = "script"  # name of the family in records


@dataclass(frozen=True)
class OwnFamily(Family):
    """Family of the schedules of a user script.

    Attributes:
        opened: Parametric script.
        tasks: Tag of the tasks that a script of one op applies to, or a pattern with ``*``.
        name: Name in records.
        fallback: Whether it is used only where no other family covers a task; never.
        matches: Predicate that applies the script's own matcher to the op of a task; `None` where it has none.
    """

    opened: OpenScript
    tasks: str = "*"
    name: str = OWN
    fallback: bool = False
    matches: Callable[[Task], bool] | None = field(default=None, compare=False)

    @property
    def script(self) -> OpenScript:
        """Parametric script of the user."""
        return self.opened

    def covers(self, task: Task) -> bool:
        """Return whether the script applies to the task."""
        if (task.tag == WHOLE) != self.script.whole or not fnmatchcase(task.tag, self.tasks):
            return False
        return self.matches is None or self.matches(task)

    def space(self, task: Task, machine: Machine) -> Space:
        """Return the script's knobs and constraints."""
        return self.script.space(machine)

    def default(self, task: Task, machine: Machine) -> Config:
        """Return the script's default config."""
        return self.script.default(machine)

    def plan(self, task: Task, config: Config, machine: Machine, ops: int) -> Program:
        """Return the script with the values of a config; it is instantiated where it is compiled."""
        tag = "" if self.script.whole else task.tag
        chosen = self.script.choose(config, machine, tag=tag, ops=ops)
        return UserScript(self.script.digest, chosen, rewrites=self.script.rewrites)

    @property
    def identity(self) -> Mapping[str, str]:
        """Hash of the script."""
        return {"script": self.script.digest}

    def record(self) -> dict[str, str]:
        """Return source, text and tasks of the script, from which a store can restore the family."""
        return {"source": self.script.source, "text": self.script.text, "tasks": self.tasks}


def whole_task(payload: Payload) -> Task:
    """Return a task that is a whole payload, for a script that matches its ops itself."""
    return Task(WHOLE, payload, (Op(LoopNest((), ())),))
