"""Rows by place, such as the embedding of tokens: the place is read once a row, the row itself copied in vectors."""

from dataclasses import dataclass

from autotune.core.host.machine import Machine
from autotune.core.plugs.family import Family
from autotune.core.plugs.rewrites import Rewrites
from autotune.core.space import Config, Knob, Space
from autotune.core.task import Task
from schedules.blocking import cut, fitting_vectors, vectors_up_to
from schedules.functions import choose_functions, function_defaults, function_knobs
from schedules.moves import Script, split_into
from schedules.shares import knobs_for, outer_counts, outer_default, share_outer
from schedules.vectorize import tile_and_vectorize


@dataclass(frozen=True)
class Gather(Family):
    """The family for ops that read elements at places that a tensor holds."""

    name: str = "gather"
    fallback: bool = False

    def covers(self, task: Task) -> bool:
        """Every gather; where a row's elements do not follow each other, vectors are gathered element by element."""
        return task.gathers and not task.grows

    def space(self, task: Task, machine: Machine) -> Space:
        """Vectors read and written at a time."""
        vectors = Knob("vectors", fitting_vectors(task.nest.sizes[-1], machine.lanes))
        shares = knobs_for({"m": outer_counts(task.nest, len(task.nest.sizes) - 1, machine)})
        return Space((vectors, *function_knobs(task), *shares), ())

    def default(self, task: Task, machine: Machine) -> Config:
        """Four vectors, or what a row has."""
        vectors = self.space(task, machine).knobs[0].values
        shares = outer_default(task.nest, len(task.nest.sizes) - 1, machine)
        return {"vectors": vectors_up_to(4, vectors), **function_defaults(task), **shares}

    def build(self, task: Task, config: Config, machine: Machine) -> str:
        """Cut rows of ``%op`` into pieces that vectors divide, and vectorize each, one row at a time."""
        space = self.space(task, machine)
        space.check(config)
        script = Script(space.knobs, config)
        choose_functions(script, config, "%op")
        op, (*rows, columns) = share_outer(script, "%op", task.nest, len(task.nest.sizes) - 1, config)
        pieces = cut(columns, 0, int(config["vectors"]) * machine.lanes, powers_of_two=True)
        parts = split_into(script, op, len(rows), [piece.size for piece in pieces])
        for piece, part in zip(pieces, parts, strict=True):
            if piece.register > 1:  # a last column of its own stays a loop of scalars
                tile_and_vectorize(script, part, (*rows, piece.size), 1, piece.register, gathers=True)
        return script.text

    def rewrites(self, task: Task, config: Config) -> Rewrites:
        """It leaves operands as they are."""
        return Rewrites()


GATHER = Gather()
