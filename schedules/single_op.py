"""Base of the families for a single element-wise op: their knobs, vector math, parallel pieces and tiling.

A subclass says which ops it covers, adds its own knobs, and tiles one piece of the op.
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
    """A family for one op outside any group: its last loop is vectorized, its outer loop split among threads."""

    name: str
    fallback: bool = False

    @abstractmethod
    def knobs(self, task: Task, machine: Machine) -> tuple[Knob, ...]:
        """Return the knobs of the family's tiles."""

    @abstractmethod
    def values(self, task: Task, machine: Machine) -> Config:
        """Return the default values of those knobs."""

    @abstractmethod
    def write(self, script: Script, op: str, sizes: tuple[int, ...], task: Task, config: Config, *, lanes: int) -> None:
        """Tile an op and vectorize the tiles.

        Args:
            script: Script that ops are appended to.
            op: Handle of the op, or of one thread's piece of it; consumed.
            sizes: Trip counts of its loops.
            task: The task.
            config: Value of every knob.
            lanes: Elements of a vector register.
        """

    def constraints(self, task: Task, machine: Machine) -> tuple[Constraint, ...]:
        """Return the constraints between the knobs."""
        return ()

    def counts(self, task: Task, machine: Machine) -> tuple[int, ...]:
        """Return the numbers of equal pieces that the outer loop may be split into for threads."""
        return outer_counts(task.nest, len(task.nest.sizes) - 1, machine)

    def space(self, task: Task, machine: Machine) -> Space:
        """Return the family's own knobs, those of vector math, and the number of pieces of the outer loop."""
        shares = knobs_for({"m": self.counts(task, machine)})
        return Space((*self.knobs(task, machine), *function_knobs(task), *shares), self.constraints(task, machine))

    def default(self, task: Task, machine: Machine) -> Config:
        """Return the family's own default values, with those of vector math and of pieces."""
        shared = len(self.counts(task, machine)) > 1
        pieces = outer_default(task.nest, len(task.nest.sizes) - 1, machine) if shared else {}
        return {**self.values(task, machine), **function_defaults(task), **pieces}

    def rewrites(self, task: Task, config: Config) -> Rewrites:
        """Return the masking rewrite if the config masks row tails."""
        return Rewrites(needed=needed_for(config))

    def build(self, task: Task, config: Config, machine: Machine) -> str:
        """Write the script: split ``%op`` among threads if the config says so, then tile and vectorize it."""
        space = self.space(task, machine)
        space.check(config)
        script = Script(space.knobs, config)
        mark_ends(script, config)
        choose_functions(script, config, "%op")
        op, sizes = share_outer(script, "%op", task.nest, len(task.nest.sizes) - 1, config)
        self.write(script, op, sizes, task, config, lanes=machine.lanes)
        return script.text
