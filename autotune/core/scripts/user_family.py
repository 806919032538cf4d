"""`OwnFamily`: a user's own script as a family of schedules, whose knobs and constraints are those of the script."""

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

OWN = "script"  # the name that records know it by


@dataclass(frozen=True)
class OwnFamily(Family):
    """Schedules that a user's script gives.

    Attributes:
        opened: The script.
        tasks: Which tasks a script of one op is for: a tag, or a pattern with ``*``.
        name: How records name it.
        fallback: No other family comes first.
        matches: Returns whether the script's own matcher takes the op of a task; `None` where it has none.
    """

    opened: OpenScript
    tasks: str = "*"
    name: str = OWN
    fallback: bool = False
    matches: Callable[[Task], bool] | None = field(default=None, compare=False)

    @property
    def script(self) -> OpenScript:
        """The script."""
        return self.opened

    def covers(self, task: Task) -> bool:
        """Return whether the script is for the task."""
        if (task.tag == WHOLE) != self.script.whole or not fnmatchcase(task.tag, self.tasks):
            return False
        return self.matches is None or self.matches(task)

    def space(self, task: Task, machine: Machine) -> Space:
        """The script's knobs and constraints."""
        return self.script.space(machine)

    def default(self, task: Task, machine: Machine) -> Config:
        """What the script selects."""
        return self.script.default(machine)

    def plan(self, task: Task, config: Config, machine: Machine, ops: int) -> Program:
        """The script with the config; its text is written where it is compiled."""
        tag = "" if self.script.whole else task.tag
        chosen = self.script.choose(config, machine, tag=tag, ops=ops)
        return UserScript(self.script.digest, chosen, rewrites=self.script.rewrites)

    @property
    def identity(self) -> Mapping[str, str]:
        """The script's hash."""
        return {"script": self.script.digest}

    def record(self) -> dict[str, str]:
        """As stores keep it, to be read again."""
        return {"source": self.script.source, "text": self.script.text, "tasks": self.tasks}


def whole_task(payload: Payload) -> Task:
    """A payload as one task, for a script that matches its ops itself."""
    return Task(WHOLE, payload, (Op(LoopNest((), ())),))
