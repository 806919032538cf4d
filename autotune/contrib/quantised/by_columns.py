"""Bases of the families for products with block-quantized weights: loops over columns, in pieces for threads."""

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
    """Base of families that tile columns and split them among threads."""

    name: str = ""
    fallback: bool = False

    def shared(self, task: Task, machine: Machine) -> tuple[tuple[Knob, ...], tuple[Constraint, ...]]:
        """Return the knobs and constraints for pieces of columns."""
        _, columns, _ = sizes_of(task.nest)
        counts = tuple(count for count in even_counts(columns, machine) if columns // count % LINE == 0 or count == 1)

        def whole(config: Config) -> bool:
            return columns // pieces(config, "n") % int(config["columns"]) == 0

        return knobs_for({"n": counts}), (Constraint("columns of a tile divide those of a piece", whole),)

    def default_pieces(self, task: Task, machine: Machine) -> dict[str, int]:
        """Return as many pieces as threads."""
        knobs, _ = self.shared(task, machine)
        return {knob.name: largest_up_to(machine.threads, knob.values) for knob in knobs}

    def piece(self, script: Script, task: Task, config: Config) -> str:
        """Tile the op by a parallel loop over pieces, if there are several."""
        return self.shared_out(script, "%op", task, config)

    def shared_out(self, script: Script, op: str, task: Task, config: Config) -> str:
        """Tile an op by a parallel loop over pieces of columns, if there are several."""
        rank, (_, columns, _), count = len(task.nest.sizes), sizes_of(task.nest), pieces(config, "n")
        if count == 1:
            return op
        column = column_loop(task.nest)
        return tile_parallel(script, op, [columns // count if d == column else 0 for d in range(rank)])[0]

    def tiled(self, script: Script, task: Task, config: Config) -> str:
        """Tile the op by loops over pieces and tiles of columns."""
        op, rank = self.piece(script, task, config), len(task.nest.sizes)
        return moves.tile_loop(script, op, rank, column_loop(task.nest), int(config["columns"]), knob="columns")[0]


@dataclass(frozen=True)
class ByOwnCode(ByColumns):
    """Base of families whose column tiles are marked and lowered by a custom pass."""

    def marks(self, config: Config, machine: Machine) -> dict[str, int | None]:
        """Return the attributes that select the lowering, with their values; `None` for unit attributes."""
        raise NotImplementedError

    def build(self, task: Task, config: Config, machine: Machine) -> str:
        """Write the script: loops over pieces and tiles of columns, and marks on the tiled op."""
        space = self.space(task, machine)
        space.check(config)
        script = Script(space.knobs, config)
        op = self.tiled(script, task, config)
        for mark, value in self.marks(config, machine).items():
            moves.annotate(script, op, mark, value)
        return script.text

    def rewrites(self, task: Task, config: Config) -> Rewrites:
        """Return the rewrite that lowers the marked op."""
        return Rewrites(needed=(BLOCK_CODE,))


def sizes_of(nest: LoopNest) -> tuple[int, int, int]:
    """Return the numbers of rows, columns and blocks, the last over all groups."""
    column = column_loop(nest)
    return prod(nest.sizes[:column]), nest.sizes[column], prod(nest.sizes[column + 1 : -1])


def column_loop(nest: LoopNest) -> int:
    """Return the index of the column loop, the last parallel one."""
    return nest.iterators.count("parallel") - 1


def dividing(values: tuple[int, ...], size: int) -> tuple[int, ...]:
    """Return the values that divide a size, including 0, which stands for the size itself."""
    return tuple(v for v in values if v == 0 or size % v == 0)
