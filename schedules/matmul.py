"""Matmul and batch matmul: cache tiles, an optional packed B, a register tile of outer products.

The nest is the one of Goto and van de Geijn (Anatomy of High-Performance Matrix Multiplication, ACM TOMS 2008):
loops over cache tiles, a copy of B into the order it is read in, loops over register tiles, and a k loop whose
accumulators stay in vector registers.
"""

from dataclasses import dataclass

from autotune.errors import ScheduleError
from autotune.machine import Machine
from autotune.space import Config, Space
from autotune.task import Contraction, Task
from schedules import moves
from schedules.blocking import DIMS, Loop, Piece, Region, loop_nest
from schedules.matmul_model import default_config
from schedules.matmul_space import cut_all, matmul_space
from schedules.moves import Script

LEAST_ROWS_PER_COPY = 4  # register tiles that must read a packed B before the copy is worth writing


@dataclass(frozen=True)
class Matmul:
    """The family for contractions with loops (batch,) m, n, k over f32."""

    name: str = "matmul"
    fallback: bool = False

    def covers(self, task: Task) -> bool:
        """Any contraction the partition could describe."""
        return task.contraction is not None

    def space(self, task: Task, machine: Machine) -> Space:
        """Knobs whose values make sense for these sizes, and the laws between them."""
        return matmul_space(contraction_of(task), machine)

    def default(self, task: Task, machine: Machine) -> Config:
        """The config an analytic model of registers and caches prefers."""
        return default_config(contraction_of(task), self.space(task, machine), machine)

    def build(self, task: Task, config: Config, machine: Machine) -> str:
        """Cut ``%op`` into regions, and tile, pack and vectorize each."""
        c = contraction_of(task)
        self.space(task, machine).check(config)
        script = Script()
        op = "%op"
        function = moves.enclosing_function(script, op)
        if c.batched:
            script.say("one product of the batch at a time")
            op = moves.drop_unit_batch(script, op, rank=4)
        scheduler = RegionScheduler(script, function, c, config)
        for handle, region in split_regions(script, op, cut_all(c, config)):
            scheduler.schedule(handle, region)
        return script.text


def contraction_of(task: Task) -> Contraction:
    """The task's contraction.

    Raises:
        ScheduleError: It has none.
    """
    if task.contraction is None:
        raise ScheduleError(f"schedule 'matmul' needs a contraction, got {task.tag}; try schedule 'vectorize'")
    return task.contraction


def split_regions(script: Script, op: str, pieces: dict[str, tuple[Piece, ...]]) -> list[tuple[str, Region]]:
    """Split an op until each part is one region; gives the parts with their regions."""
    parts: list[tuple[str, Region]] = [(op, {})]
    for axis, dim in enumerate(DIMS):
        grown = []
        for handle, region in parts:
            rest = handle
            for piece in pieces[dim][:-1]:
                first, rest = moves.split_at(script, rest, axis, piece.size)
                grown.append((first, {**region, dim: piece}))
            grown.append((rest, {**region, dim: pieces[dim][-1]}))
        parts = grown
    return parts


@dataclass(frozen=True)
class RegionScheduler:
    """Tiles, packs and vectorizes the regions of one contraction.

    Attributes:
        script: Where to write.
        function: Handle of the function around the op.
        contraction: What is computed.
        config: Value of every knob.
    """

    script: Script
    function: str
    contraction: Contraction
    config: Config

    def schedule(self, op: str, region: Region) -> None:
        """Schedule one region; consumes `op`."""
        self.script.say(f"region of {' x '.join(str(region[d].size) for d in DIMS)} (m x n x k)")
        nest = loop_nest(region, str(self.config["order"]), str(self.config["register_order"]))
        around = [loop for loop in nest if loop.dim != "k" or loop.level == "cache"]
        outermost = ""
        for loop in around:
            op, handle = moves.tile_loop(self.script, op, 3, DIMS.index(loop.dim), loop.step)
            outermost = outermost or handle
        back = ""
        hoists = loops_around_copy(around) if self.packs(region) else 0
        if hoists:
            op, back = self.pack(op, outermost, hoists)
        if len(nest) == len(around):
            moves.vectorize(self.script, op)
        else:
            self.vectorize_k_loop(op, back, region)

    def packs(self, region: Region) -> bool:
        """Tell whether the region reads B often enough for a copy."""
        return bool(self.config["pack_b"]) and region["m"].size >= LEAST_ROWS_PER_COPY * region["m"].register

    def pack(self, op: str, outermost: str, hoists: int) -> tuple[str, str]:
        """Copy B's cache tile outside of the loops that read it again; see `moves.pack_operand`."""
        self.script.say("copy B into the order the k loop reads it in")
        moves.simplify(self.script, outermost)
        turned = self.contraction.transposed_b
        op, back = moves.pack_operand(self.script, op, operand=1, operands=3, loops=hoists, transpose=turned)
        moves.write_pads_as_copies(self.script, self.function)
        return op, back

    def vectorize_k_loop(self, op: str, back: str, region: Region) -> None:
        """The innermost loop: one outer product a step, accumulators in registers."""
        op, loop = moves.tile_loop(self.script, op, 3, DIMS.index("k"), 1)
        if back:
            moves.vectorize(self.script, moves.fuse_producer(self.script, back, loop))
        moves.vectorize(self.script, op)
        factor = min(int(self.config["unroll_k"]), region["k"].cache)
        if factor > 1:
            moves.unroll_loop(self.script, loop, factor)


def loops_around_copy(nest: list[Loop]) -> int:
    """How many of the innermost loops a copy of B's cache tile moves out of."""
    outside = [i for i, loop in enumerate(nest) if loop.level == "cache" and loop.dim in "nk"]
    return len(nest) - (outside[-1] + 1 if outside else 0)


MATMUL = Matmul()
