"""Rows by place, such as the embedding of tokens: the place is read once a row, the row itself copied in vectors."""

from dataclasses import dataclass

from autotune.core.host.machine import Machine
from autotune.core.space import Config, Knob
from autotune.core.task import Task
from schedules.blocking import cut, fitting_vectors
from schedules.moves import Script, split_into
from schedules.single_op import SingleOp
from schedules.vectorize import in_rows, tile_and_vectorize


@dataclass(frozen=True)
class Gather(SingleOp):
    """The family for ops that read elements at indices that a tensor holds."""

    name: str = "gather"

    def covers(self, task: Task) -> bool:
        """Every gather; where a row's elements do not follow each other, vectors are gathered element by element."""
        return task.root.gathers and not task.grows

    def knobs(self, task: Task, machine: Machine) -> tuple[Knob, ...]:
        """Vectors read and written at a time."""
        return (Knob("vectors", fitting_vectors(task.nest.sizes[-1], machine.lanes)),)

    def values(self, task: Task, machine: Machine) -> Config:
        """One vector: stores of several come in another order than lines follow each other."""
        return {"vectors": 1}

    def write(self, script: Script, op: str, sizes: tuple[int, ...], task: Task, config: Config, *, lanes: int) -> None:
        """Row by row, in pieces that vectors divide; each is vectorized."""
        pieces = cut(sizes[-1], 0, int(config["vectors"]) * lanes, powers_of_two=True)
        op, (*row, _) = in_rows(script, op, sizes, 1)  # a loop for each piece would write lines twice
        parts = split_into(script, op, len(row), [piece.size for piece in pieces])
        for piece, part in zip(pieces, parts, strict=True):
            if piece.register > 1:  # a last column of its own stays a loop of scalars
                tile_and_vectorize(script, part, (*row, piece.size), 1, piece.register, gathers=True)


GATHER = Gather()
