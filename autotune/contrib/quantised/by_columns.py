"""What families of products with weights in blocks have in common: loops over columns, in pieces for threads."""

from dataclasses import dataclass
from math import prod

from autotune.contrib.quantised.block_marks import BLOCK_CODE
from autotune.core.host.machine import Machine
from autotune.core.ops.op import LoopNest
from autotune.core.plugs.family import Family
from autotune.core.plugs.rewrites import Rewrites
from autotune.core.space import Config, Constraint, Knob, largest_up_to
from autotune.core.task import Task
from schedules import moves
from schedules.moves import Script
from schedules.shares import LINE, even_counts, knobs_for, pieces, tile_parallel


@dataclass(frozen=True)
class ByColumns(Family):
    """Tiles of columns, in pieces for threads."""

    name: str = ""
    fallback: bool = False

    def shared(self, task: Task, machine: Machine) -> tuple[tuple[Knob, ...], tuple[Constraint, ...]]:
        """Pieces of columns for threads."""
        _, columns, _ = sizes_of(task.nest)
        found = tuple(each for each in even_counts(columns, machine) if columns // each % LINE == 0 or each == 1)

        def whole(config: Config) -> bool:
            return columns // pieces(config, "n") % int(config["columns"]) == 0

        return knobs_for({"n": found}), (Constraint("columns of a tile divide those of a piece", whole),)

    def default_pieces(self, task: Task, machine: Machine) -> dict[str, int]:
        """As many pieces as threads."""
        knobs, _ = self.shared(task, machine)
        return {knob.name: largest_up_to(machine.threads, knob.values) for knob in knobs}

    def piece(self, script: Script, task: Task, config: Config) -> str:
        """The op inside a loop over pieces, if there are several."""
        return self.shared_out(script, "%op", task, config)

    def shared_out(self, script: Script, op: str, task: Task, config: Config) -> str:
        """An op inside a loop over pieces of columns, if there are several."""
        rank, (_, columns, _), count = len(task.nest.sizes), sizes_of(task.nest), pieces(config, "n")
        if count == 1:
            return op
        column = column_loop(task.nest)
        return tile_parallel(script, op, [columns // count if d == column else 0 for d in range(rank)])[0]

    def tiled(self, script: Script, task: Task, config: Config) -> str:
        """The op inside loops over pieces and tiles of columns."""
        op, rank = self.piece(script, task, config), len(task.nest.sizes)
        return moves.tile_loop(script, op, rank, column_loop(task.nest), int(config["columns"]), knob="columns")[0]


@dataclass(frozen=True)
class ByOwnCode(ByColumns):
    """Whole rows by tiles of columns: what is inside the loops is marked for code of ours."""

    def marks(self, config: Config, machine: Machine) -> dict[str, int | None]:
        """Attributes that tell code of ours what to write; `None` for those that are nothing but there."""
        raise NotImplementedError

    def build(self, task: Task, config: Config, machine: Machine) -> str:
        """Loops over pieces and tiles of columns, and marks on what is inside."""
        space = self.space(task, machine)
        space.check(config)
        script = Script(space.knobs, config)
        op = self.tiled(script, task, config)
        for mark, value in self.marks(config, machine).items():
            moves.annotate(script, op, mark, value)
        return script.text

    def rewrites(self, task: Task, config: Config) -> Rewrites:
        """Code of ours for the marked op."""
        return Rewrites(needed=(BLOCK_CODE,))


def sizes_of(nest: LoopNest) -> tuple[int, int, int]:
    """Rows, columns and blocks, of all groups."""
    column = column_loop(nest)
    return prod(nest.sizes[:column]), nest.sizes[column], prod(nest.sizes[column + 1 : -1])


def column_loop(nest: LoopNest) -> int:
    """Which loop counts columns: the last that is parallel."""
    return nest.iterators.count("parallel") - 1


def dividing(values: tuple[int, ...], size: int) -> tuple[int, ...]:
    """The values that divide a size; 0 stands for all of it."""
    return tuple(v for v in values if v == 0 or size % v == 0)
