"""Schedules for sums over blocks: products with weights that are stored in blocks of whole numbers.

    y[m, n] = sum over b, j of scale[n, b] * q[n, b, j] * x[m, b, j]

A register tile of some rows and columns of y keeps a vector of sums for each element, a lane for every j, to the end of
k; the lanes become one number behind it. Blocks are widened to f32 in registers, once for all rows of the tile: of many
rows, `widened_family.py` widens them once for all.
"""

from dataclasses import dataclass

from autotune.contrib.quantised.by_columns import ByColumns, dividing, sizes_of
from autotune.core.host.machine import Machine
from autotune.core.scripts.marks import SUMS
from autotune.core.space import Config, Constraint, Knob, Space
from autotune.core.task import Task
from schedules import moves
from schedules.moves import ANY, Script
from schedules.shares import pieces

COLUMNS = (1, 2, 3, 4, 6, 8, 12, 16)
ROWS = (1, 2, 3, 4, 6, 8)
UNROLLS = (1, 2, 4, 8)
TILES = (0, 16, 32, 64, 128, 256)  # columns whose blocks stay in a cache while all rows are computed
WIDTH = 16  # elements of a block that lie side by side in one operand
ONE_ROW_OR_MORE = (("parallel", "reduction", "reduction"), ("parallel", "parallel", "reduction", "reduction"))


@dataclass(frozen=True)
class BlockSums(ByColumns):
    """The family of sums over two loops, of which the inner one is a vector or two."""

    name: str = "blocks"

    @property
    def specific(self) -> int:
        """Before those for any sum."""
        return 1

    def covers(self, task: Task) -> bool:
        """An op with one or two parallel loops around two that sum, the inner one as long as a vector, over bytes."""
        sums = task.nest.iterators in ONE_ROW_OR_MORE
        stored = any(argument.dtype == "i8" for argument in task.payload.arguments)
        alone = (
            not task.is_group
            and not task.grows
            and not task.root.gathers
            and task.root.lanes is None
            and not task.root.counts
        )
        return alone and sums and stored and task.nest.sizes[-1] == WIDTH

    def space(self, task: Task, machine: Machine) -> Space:
        """Rows and columns of a register tile, blocks a step, and columns of a cache tile."""
        rows, columns, blocks = sizes_of(task.nest)
        threads, wholes = self.shared(task, machine)
        knobs = [Knob("columns", dividing(COLUMNS, columns)), Knob("unroll", dividing(UNROLLS, blocks)), *threads]
        if rows > 1:
            knobs += [Knob("rows", dividing(ROWS, rows)), Knob("tile_n", dividing(TILES, columns))]

        def fits(config: Config) -> bool:
            tile = int(config["columns"]) * int(config.get("rows", 1)) * int(config["unroll"])
            return tile * WIDTH // machine.lanes <= machine.vector_registers

        def whole(config: Config) -> bool:
            tile = int(config.get("tile_n", 0))
            return tile == 0 or (tile % int(config["columns"]) == 0 and columns // pieces(config, "n") % tile == 0)

        constraints = (
            Constraint("sums of a register tile fit the registers", fits),
            Constraint("columns of a register tile divide those of a cache tile, and those of a piece", whole),
            *wholes,
        )
        return Space(tuple(knobs), constraints)

    def default(self, task: Task, machine: Machine) -> Config:
        """A column at a time where there is one row, which is read as a stream; else four rows and four columns."""
        several = sizes_of(task.nest)[0] > 1
        wanted = {"columns": 4 if several else 1, "unroll": 1 if several else 8, "rows": 4, "tile_n": 64}
        space = self.space(task, machine)
        knobs = [knob for knob in space.knobs if knob.name in wanted]
        chosen = {k.name: max(int(v) for v in k.values if int(v) <= wanted[k.name]) for k in knobs}
        small = {**chosen, "columns": 1, "unroll": 1} | ({"tile_n": 0} if several else {})
        shared = self.default_pieces(task, machine)
        tried = ({**config, **shared} for config in (chosen, small))
        return next((each for each in tried if space.broken_constraint(each) is None), next(space.configs()))

    def build(self, task: Task, config: Config, machine: Machine) -> str:
        """Loops over tiles of ``%op``, then over blocks, whose sums stay in registers."""
        space = self.space(task, machine)
        space.check(config)
        script = Script(space.knobs, config)
        rank, n, op = len(task.nest.sizes), len(task.nest.sizes) - 3, self.piece(script, task, config)
        if int(config.get("tile_n", 0)):
            op, _ = moves.tile_loop(script, op, rank, n, int(config["tile_n"]), knob="tile_n")
        if "rows" in config:
            op, _ = moves.tile_loop(script, op, rank, 0, int(config["rows"]), knob="rows")
        op, _ = moves.tile_loop(script, op, rank, n, int(config["columns"]), knob="columns")
        parts, loop = strands(script, op, rank, int(config["unroll"]))
        moves.annotate(script, loop, SUMS)
        for part in parts:
            moves.vectorize(script, part)
        return script.text


def strands(script: Script, op: str, rank: int, blocks: int) -> tuple[tuple[str, str, str], str]:
    """Sum so many blocks at a time in a strand for each of their elements; consumes `op`.

    Returns:
        Handles of the fill of the strands, of the op inside the loop, and of the op behind it; and of the loop.
    """
    fill, inside, behind, loop = (script.fresh(stem) for stem in ("strands", "partial", "combined", "loop"))
    sizes = ", ".join([*("0" * (rank - 2)), str(blocks), str(WIDTH)])
    script.emit(
        f"{fill}, {inside}, {behind}, {loop} = transform.structured.tile_reduction_using_for {op} "
        f"reduction_dims = [{rank - 2}, {rank - 1}] by tile_sizes = [{sizes}] "
        f": ({ANY}) -> ({ANY}, {ANY}, {ANY}, {ANY})"
    )
    return (fill, inside, behind), loop


BLOCKS = BlockSums()
