"""What families of one element-wise op share: knobs of their own, of functions and of threads; then tiles.

A family of this kind says which ops it covers, its own knobs, and how a piece of the op becomes tiles.
"""

from abc import abstractmethod
from dataclasses import dataclass

from autotune.core.host.machine import Machine
from autotune.core.plugs.family import Family
from autotune.core.plugs.rewrites import Rewrites
from autotune.core.space import Config, Constraint, Knob, Space
from autotune.core.task import Task
from schedules.ends import mark_ends, needed_for
from schedules.functions import choose_functions, function_defaults, function_knobs
from schedules.moves import Script
from schedules.shares import knobs_for, outer_counts, outer_default, share_outer


@dataclass(frozen=True)
class SingleOp(Family):
    """A family of one op that stands alone: its last loop becomes vectors, its outer one is shared by threads."""

    name: str
    fallback: bool = False

    @abstractmethod
    def knobs(self, task: Task, machine: Machine) -> tuple[Knob, ...]:
        """Knobs of its tiles."""

    @abstractmethod
    def values(self, task: Task, machine: Machine) -> Config:
        """Values of those knobs by default."""

    @abstractmethod
    def write(self, script: Script, op: str, sizes: tuple[int, ...], task: Task, config: Config, *, lanes: int) -> None:
        """Cut an op into tiles, and let them become vectors.

        Args:
            script: Script that ops are appended to.
            op: Handle of the op, or of one thread's piece of it; consumed.
            sizes: Trip counts of its loops.
            task: The task.
            config: Config.
            lanes: Elements of a machine's vector.
        """

    def constraints(self, task: Task, machine: Machine) -> tuple[Constraint, ...]:
        """Constraints of all knobs."""
        return ()

    def counts(self, task: Task, machine: Machine) -> tuple[int, ...]:
        """Numbers of equal pieces of the outer loop that threads may share."""
        return outer_counts(task.nest, len(task.nest.sizes) - 1, machine)

    def space(self, task: Task, machine: Machine) -> Space:
        """Its own knobs, those of functions, and pieces of the outer loop."""
        shares = knobs_for({"m": self.counts(task, machine)})
        return Space((*self.knobs(task, machine), *function_knobs(task), *shares), self.constraints(task, machine))

    def default(self, task: Task, machine: Machine) -> Config:
        """Its own values, with functions and pieces by default."""
        shared = len(self.counts(task, machine)) > 1
        pieces = outer_default(task.nest, len(task.nest.sizes) - 1, machine) if shared else {}
        return {**self.values(task, machine), **function_defaults(task), **pieces}

    def rewrites(self, task: Task, config: Config) -> Rewrites:
        """Masks, where the config has ends masked."""
        return Rewrites(needed=needed_for(config))

    def build(self, task: Task, config: Config, machine: Machine) -> str:
        """Share ``%op`` out, if the config says so, and cut it into tiles."""
        space = self.space(task, machine)
        space.check(config)
        script = Script(space.knobs, config)
        mark_ends(script, config)
        choose_functions(script, config, "%op")
        op, sizes = share_outer(script, "%op", task.nest, len(task.nest.sizes) - 1, config)
        self.write(script, op, sizes, task, config, lanes=machine.lanes)
        return script.text
