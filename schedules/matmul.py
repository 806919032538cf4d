"""Family for matmul and batch matmul: cache tiles, optional packing of B, register tiles of outer products.

The nest is the one of Goto and van de Geijn (Anatomy of High-Performance Matrix Multiplication, ACM TOMS 2008):
loops over cache tiles, a copy of B into the order it is read in, loops over register tiles, and a k loop whose
accumulators stay in vector registers.
"""

from dataclasses import dataclass, field, replace

from autotune.core.host.machine import Machine
from autotune.core.ops.op import Contraction
from autotune.core.plugs.family import Family
from autotune.core.plugs.rewrites import Rewrites
from autotune.core.scripts import marks
from autotune.core.space import Config, Space
from autotune.core.task import Task
from schedules import moves, packing
from schedules.blocking import DIMS, Loop, Piece, Region, register_loops
from schedules.ends import mark_ends, needed_for, seen_by
from schedules.features import contraction_features
from schedules.matmul_model import default_config
from schedules.matmul_space import columns_of, contraction_of, cut_all, matmul_space
from schedules.moves import Script
from schedules.predicted import contraction_cycles
from schedules.shares import is_shared, piece_of, share_out

BLOCKS = {"n": marks.BLOCKS_OF_N, "k": marks.BLOCKS_OF_K}
LEAST_ROWS_TO_TURN = {0: 5, 128: 16, 384: 32}  # rows of A that amortize transposing B, by the least k they hold for
LEAST_ROWS_PER_COPY = 4  # register tiles that must read a packed B to amortize the copy


@dataclass(frozen=True)
class Matmul(Family):
    """Contractions with loops (batch,) m, n, k in f32 or f64."""

    name: str = "matmul"
    fallback: bool = False

    def covers(self, task: Task) -> bool:
        """Return whether the task is a contraction for this family; sums along rows are left to `vectorize`.

        A single column has no vectors to tile. Columns of a transposed B that only few rows use are not worth
        gathering. A batch of products with m or k of 1 would lose that dimension when the batch's unit dimension is
        dropped.
        """
        c = task.contraction
        if c is None or c.n == 1 or (c.batched and 1 in (c.m, c.k)):
            return False
        return not c.transposed_b or c.constant_b or bool(c.precision) or is_worth_gathering(c)

    def space(self, task: Task, machine: Machine) -> Space:
        """Return the knobs whose values make sense for these sizes, with the constraints between them."""
        return matmul_space(contraction_of(task), seen_by(task, machine))

    def default(self, task: Task, machine: Machine) -> Config:
        """Return the config that an analytic model of registers and caches ranks first."""
        return default_config(contraction_of(task), self.space(task, machine), seen_by(task, machine))

    def features(self, task: Task, config: Config, machine: Machine) -> dict[str, float]:
        """Return the features that determine a config's speed."""
        return contraction_features(contraction_of(task), config, seen_by(task, machine))

    def predicted_cycles(self, task: Task, config: Config, machine: Machine, in_l1: float) -> float:
        """Return the cycles of a call from those of a multiply-add in the hot loop."""
        return contraction_cycles(contraction_of(task), config, seen_by(task, machine), in_l1)

    def build(self, task: Task, config: Config, machine: Machine) -> str:
        """Write the script: split ``%op`` into regions, then tile, pack and vectorize each."""
        c = contraction_of(task)
        space = self.space(task, machine)
        space.check(config)
        script = Script(space.knobs, config)
        op = "%op"
        function = moves.enclosing_function(script, op)
        mark_ends(script, config, function)
        if self.rewrites(task, config).panel:
            script.say("B is stored in panels before any call")
            c = replace(c, transposed_b=False)
        zeros = moves.producer(script, op, 2) if c.zeroed else ""
        parts = [(op, c)]
        if is_shared(config):
            parts = share_out(script, op, c, piece_of(c, config, columns_of(config)))
        whole = MatmulWriter(script, function, c, config, zeros=zeros)
        for part, contraction in parts:
            inner_op, scope = part, ""
            if c.batched:
                script.say("one product of the batch at a time")
                inner_op, scope = moves.drop_unit_batch(script, part, rank=4)
            elif config["pack_b"] == "panels" and not c.precision:
                inner_op, scope = moves.tile_loop(script, part, 3, DIMS.index("m"), contraction.m)
            replace(whole, contraction=contraction, scope=scope).tile_and_pack(inner_op)
        whole.vectorize()
        return script.text

    def rewrites(self, task: Task, config: Config) -> Rewrites:
        """Return panels as wide as the register tile, if B is packed beforehand."""
        panel = columns_of(config) if config["pack_b"] == "beforehand" else 0
        return Rewrites(panel, needed=needed_for(config))


def is_worth_gathering(c: Contraction) -> bool:
    """Return whether enough rows use a transposed B to gather its columns; for long k, sums along rows are as fast."""
    summed = 0 if c.transposed_a else c.k
    return c.m >= max(rows for least, rows in LEAST_ROWS_TO_TURN.items() if least <= summed)


@dataclass(frozen=True)
class OpenLoop:
    """A loop that has been emitted, with its handle."""

    loop: Loop
    handle: str


@dataclass(frozen=True)
class TileOp:
    """A register tile that has been emitted.

    Attributes:
        op: Handle of the tiled op.
        back: Handle of the transpose that undoes the packed order of its B; empty if there is none.
        depth: Trip count of its k loop.
        starts: Whether the tile's k loop starts at the beginning of k.
        main: Whether the tile is in the main region, without remainders.
        first: Whether the tile accumulates the first piece of k, or one block of it.
        copied: Whether the tile reads a copy of B.
    """

    op: str
    back: str
    depth: int
    starts: bool
    main: bool
    first: bool
    copied: bool


@dataclass(frozen=True)
class MatmulWriter:
    """Writer of one contraction's nest: dimensions in the config's order, each split into pieces and tiled.

    Attributes:
        script: Script that ops are appended to.
        function: Handle of the function around the op.
        contraction: Contraction that is computed.
        config: Value of every knob.
        enclosing: Loops around the op, outermost first; B does not depend on those over m.
        zeros: Handle of the zero fill of C; empty if there is none, or if C must be filled.
        hidden: Dimension, if any, whose loops may stop where a causal mask hides the rest.
        scope: Handle of a loop around all copies of B, in which CSE merges equal copies; empty if there is none.
        tiles: Register tiles emitted so far. They are vectorized after all packing: packing canonicalizes the code
            around it, after which a sum over a single element of k would no longer be recognised as a contraction.
    """

    script: Script
    function: str
    contraction: Contraction
    config: Config
    enclosing: tuple[OpenLoop, ...] = ()
    zeros: str = ""
    hidden: str = ""
    scope: str = ""
    tiles: list[TileOp] = field(default_factory=list)

    def tile_and_pack(self, op: str) -> None:
        """Emit loops and copies down to register tiles; consumes `op`."""
        before = len(self.tiles)
        self.descend(op, str(self.config["order"]), {}, self.enclosing)
        if self.scope and sum(tile.copied for tile in self.tiles[before:]) > 1:
            # not in the function, where CSE would merge empty tensors of other tasks
            moves.merge_equal(self.script, self.scope)

    @property
    def pieces(self) -> dict[str, tuple[Piece, ...]]:
        """Pieces of every dimension."""
        return cut_all(self.contraction, self.config)

    def descend(self, op: str, dims: str, region: Region, nest: tuple[OpenLoop, ...]) -> None:
        """Split the first of `dims` into pieces, tile each, and recurse into the other dimensions.

        The remainder of a dimension is thus computed inside the loops before it, while their tiles are in the caches.
        """
        if not dims:
            self.write_region(op, region, nest)
            return
        dim = dims[0]
        pieces = self.pieces[dim]
        parts = moves.split_into(self.script, op, DIMS.index(dim), [piece.size for piece in pieces])
        for piece, part in zip(pieces, parts, strict=True):
            inner_op, loops = part, nest
            if piece.looped:
                knob = f"tile_{dim}"
                words = self.words_packed_in(part, dim, nest)
                inner_op, handle = self.tile(part, dim, piece.cache, hidden=piece == pieces[0], knob=knob)
                if words:
                    handle = self.pack_words_in(words, handle)
                if dim in BLOCKS and (self.prefetches or self.starts_from_zero):
                    moves.annotate(self.script, handle, BLOCKS[dim])
                loops = (*nest, OpenLoop(Loop(dim, piece.cache, "cache"), handle))
            self.descend(inner_op, dims[1:], {**region, dim: piece}, loops)

    def words_packed_in(self, op: str, dim: str, nest: tuple[OpenLoop, ...]) -> str:
        """Return the op that packs B into words, if it can be fused into a loop over columns; empty otherwise."""
        in_call = bool(self.contraction.precision) and self.config["pack_b"] == "panels"
        is_outermost = dim == "n" and not nest and len(self.pieces["n"]) == 1
        return moves.producer(self.script, op, 1) if in_call and is_outermost else ""

    def pack_words_in(self, words: str, loop: str) -> str:
        """Fuse the packing of words into the loop over column blocks; returns the loop's new handle."""
        self.script.say("pack a block of B's columns, which the rows then find in the caches")
        _, loop = moves.fuse_into(self.script, words, loop)
        moves.shrink_empties(self.script, self.function)
        return loop

    def tile(self, op: str, dim: str, step: int, *, hidden: bool, knob: str = "") -> tuple[str, str]:
        """Tile one dimension; `hidden` if the loop starts where the dimension does, `knob` for the knob of the step."""
        op, loop = moves.tile_loop(self.script, op, 3, DIMS.index(dim), step, knob=knob)
        if hidden and dim == self.hidden:
            moves.annotate(self.script, loop, marks.HIDDEN)
        return op, loop

    @property
    def prefetches(self) -> bool:
        """Whether the next block of B is prefetched while one is used."""
        return bool(self.config.get("prefetch", False))

    @property
    def starts_from_zero(self) -> bool:
        """Whether accumulators start from zero; requires a k loop that remains a loop after unrolling."""
        return bool(self.zeros) and self.pieces["k"][0].cache >= 2 * int(self.config["unroll_k"])

    def starts(self, region: Region, dim: str) -> bool:
        """Return whether a region's loop over register tiles, or over k, is the first of its dimension."""
        return region[dim] == self.pieces[dim][0] and not region[dim].looped

    def write_region(self, op: str, region: Region, nest: tuple[OpenLoop, ...]) -> None:
        """Emit the register tiles of one region, with panels of B packed if the config says so."""
        self.script.say(f"region of {' x '.join(str(region[d].size) for d in DIMS)} (m x n x k)")
        outside = len(nest)
        for loop in register_loops(region, str(self.config["register_order"])):
            hidden, knob = self.starts(region, loop.dim), "register_m" if loop.dim == "m" else ""
            op, handle = self.tile(op, loop.dim, loop.step, hidden=hidden, knob=knob)
            nest = (*nest, OpenLoop(loop, handle))
            if self.prefetches and loop.dim == "m":
                moves.annotate(self.script, handle, marks.STRIPS_OF_M)
        back, copied = "", self.packs(region)
        if copied:
            self.script.say("copy B into panels, in the order the k loop reads it in")
            # only these loops: slices of C around them merge with those written back, and are split in the same way
            moves.simplify(self.script, nest[outside].handle)
            hoists = loops_around_copy([opened.loop for opened in nest])
            transposed, dtype = self.contraction.transposed_b, self.contraction.dtype
            op, back = packing.pack_operand(
                self.script, op, operand=1, operands=3, loops=hoists, dtype=dtype, transpose=transposed
            )
            self.copy_panel(region)
        whole = all(region[dim] == self.pieces[dim][0] for dim in DIMS)
        first = region["k"] == self.pieces["k"][0]
        self.tiles.append(TileOp(op, back, region["k"].cache, self.starts(region, "k"), whole, first, copied))

    def copy_panel(self, region: Region) -> None:
        """Lower the copy of one panel to vectors."""
        depth, width = region["k"].cache, region["n"].register
        if self.contraction.transposed_b:
            packing.copy_pads_transposed(self.script, self.function, depth, width)
        else:
            copies = packing.copy_pads(self.script, self.function, depth, width)
            if self.prefetches:
                moves.annotate(self.script, copies, marks.COPIES)

    def packs(self, region: Region) -> bool:
        """Return whether B has several panels in a region, each read often enough to amortize a copy."""
        row_piece = self.pieces["m"][0] if self.shares_copies else region["m"]
        often = row_piece.size >= LEAST_ROWS_PER_COPY * row_piece.register
        often = often or self.contraction.transposed_b or any(opened.loop.dim == "m" for opened in self.enclosing)
        once = self.config["pack_b"] == "panels" and not self.contraction.precision  # words are packed beforehand
        return once and often and region["n"].register < region["n"].cache

    @property
    def shares_copies(self) -> bool:
        """Whether pieces of rows read the same copies: their loops are inside those over the copied blocks."""
        _, _, inner_dims = str(self.config["order"]).partition("m")
        return bool(self.scope) and not any(piece.looped for dim in inner_dims for piece in self.pieces[dim])

    def vectorize(self) -> None:
        """Vectorize the innermost loops, over k: one outer product per step, accumulators in registers."""
        if self.contraction.precision:  # the tiles stay ops, which `compiler/passes/dots.py` lowers
            for tile in self.tiles:
                if tile.starts and self.hidden == "k":
                    moves.annotate(self.script, tile.op, marks.HIDDEN)
            return
        if self.starts_from_zero:
            moves.annotate(self.script, self.zeros, marks.ZEROS, sum(tile.first for tile in self.tiles))
        for tile in self.tiles:
            if tile.depth == 1:
                moves.vectorize(self.script, tile.op)
                continue
            op, loop = self.tile(tile.op, "k", 1, hidden=tile.starts)
            moves.annotate(self.script, loop, marks.SUMS)
            if self.prefetches and tile.main:
                moves.annotate(self.script, loop, marks.PREFETCHING)
            if self.starts_from_zero and tile.first:
                moves.annotate(self.script, loop, marks.FROM_ZERO)
            if tile.back:
                moves.vectorize(self.script, moves.fuse_producer(self.script, tile.back, loop))
            moves.vectorize(self.script, op)
            if self.contraction.widens:
                packing.widen_first(self.script, loop)
            factor = min(int(self.config["unroll_k"]), tile.depth)
            if factor > 1:
                moves.unroll_loop(self.script, loop, factor)


def loops_around_copy(nest: list[Loop]) -> int:
    """Return how many of the innermost loops a copy of B's cache tile is hoisted out of."""
    outside = [i for i, loop in enumerate(nest) if loop.level == "cache" and loop.dim in "nk"]
    return len(nest) - (outside[-1] + 1 if outside else 0)


MATMUL = Matmul()
