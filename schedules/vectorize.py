"""The plain vectorizing schedule: rows in loops, chunks of the innermost dimension in vectors.

It covers every structured op of one kind of loop an operand; families that know an op better come first.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from autotune.core.host.machine import Machine
from autotune.core.ops.op import Op
from autotune.core.scripts.marks import SUMS
from autotune.core.space import Config, Constraint, Knob, largest_up_to
from autotune.core.task import Task
from schedules import moves
from schedules.blocking import Piece, cut, fitting_vectors
from schedules.ends import MASKED, is_masked, knobs_of_ends
from schedules.moves import Script
from schedules.shares import BYTES, outer_loop, pieces
from schedules.single_op import SingleOp

ROWS = (1, 2, 4)
MOST_VECTORS = 32  # machine vectors in one tile
STRIP = "strip"  # knob: rows of A whose sums are made with those of several columns
SUMS_AT_ONCE = 8  # vectors of partial results that are added to in turn, so that none waits for itself
MULTIPLICATIONS = ("arith.mulf", "arith.muli")
STREAMED = 2  # of a row that comes from beyond L2: one would wait for its own sum


@dataclass(frozen=True)
class Vectorize(SingleOp):
    """The family for element-wise ops, row reductions, and whatever no other family covers."""

    name: str = "vectorize"
    fallback: bool = True

    def covers(self, task: Task) -> bool:
        """Every op with known loops of which tiles become vectors."""
        alone = not task.is_group and not task.grows and not task.root.gathers
        return alone and len(task.nest.sizes) > 0 and task.root.vectorizes

    def knobs(self, task: Task, machine: Machine) -> tuple[Knob, ...]:
        """Rows and vectors of a tile."""
        sizes = task.nest.sizes
        rows = tuple(r for r in ROWS if len(sizes) > 1 and sizes[-2] % r == 0) or ROWS[:1]
        ends = knobs_of_ends(sizes[-1:], machine)
        vectors = Knob("vectors", fitting_vectors(widest_row(task, machine) if ends else sizes[-1], machine.lanes))
        if sums_in_tiles(task):
            return (Knob(STRIP, up_to(sizes[-3])), Knob("rows", up_to(sizes[-2])), vectors, *ends)
        return (Knob("rows", rows), vectors, *ends)

    def constraints(self, task: Task, machine: Machine) -> tuple[Constraint, ...]:
        """A tile stays in registers, and rows divide a thread's piece."""
        sizes = task.nest.sizes

        def small(config: Config) -> bool:
            return int(config.get(STRIP, 1)) * int(config["rows"]) * int(config["vectors"]) <= MOST_VECTORS

        def whole(config: Config) -> bool:
            inner = outer_loop(task.nest, len(sizes) - 1) == len(sizes) - 2
            return not inner or sizes[-2] // pieces(config, "m") % int(config["rows"]) == 0

        def held(config: Config) -> bool:
            strip, rows = int(config[STRIP]), int(config["rows"])
            return (strip * rows + rows + 1) * int(config["vectors"]) <= machine.vector_registers

        if sums_in_tiles(task):
            fit = f"accumulators, a row of each column and an element's fit {machine.vector_registers} registers"
            return (Constraint(fit, held),)
        fits = Constraint(f"a tile (rows x vectors) has at most {MOST_VECTORS} machine vectors", small)
        divides = Constraint("rows of a tile divide those of a piece", whole)
        return (fits, divides) if len(self.counts(task, machine)) > 1 else (fits,)

    def values(self, task: Task, machine: Machine) -> Config:
        """One row of four vectors, or eight vectors of sums, those of several rows where they share a factor.

        Where memory decides, one vector, or as many narrow ones as have its bytes: stores of several come in another
        order than lines follow each other. Rows that are multiplied by the same one are read one after the other there.
        """
        if sums_in_tiles(task):
            return self.values_of_tiles(task, machine)
        rows = max(map(int, self.knobs(task, machine)[0].values)) if shares_factor(task) and machine.threads == 1 else 1
        if task.nest.iterators[-1] == "reduction":
            wanted = SUMS_AT_ONCE
            if rows > 1 and BYTES * prod(task.nest.sizes) > machine.l2_bytes:
                rows, wanted = 1, STREAMED
        else:
            moved = sum(each.element_bytes for each in task.root.operands) * prod(task.nest.sizes)
            narrow = max(1, BYTES // max((each.element_bytes for each in task.root.outputs), default=BYTES))
            wanted = narrow if moved > machine.l2_bytes else 4
        ends = {"ends": MASKED} if knobs_of_ends(task.nest.sizes[-1:], machine) else {}
        return {
            "rows": rows,
            "vectors": largest_up_to(max(1, wanted // rows), self.knobs(task, machine)[1].values),
            **ends,
        }

    def values_of_tiles(self, task: Task, machine: Machine) -> Config:
        """As many columns as rows of A, a vector of each."""
        strip, rows = (max(map(int, knob.values)) for knob in self.knobs(task, machine)[:2])
        ends = {"ends": MASKED} if knobs_of_ends(task.nest.sizes[-1:], machine) else {}
        config: Config = {STRIP: strip, "rows": rows, "vectors": 1, **ends}
        held = self.constraints(task, machine)[0]
        while not held.holds(config):
            config = {**config, "rows": int(config["rows"]) // 2}
        return config

    def write(self, script: Script, op: str, sizes: tuple[int, ...], task: Task, config: Config, *, lanes: int) -> None:
        """Split off what the vectors leave over, then tile and vectorize each part."""
        last = len(sizes) - 1
        masked = lanes if is_masked(config) else 0
        width = int(config["vectors"]) * lanes
        if masked and width > sizes[last]:  # one vector, masked, whatever the number of its parts
            found = cut(sizes[last], 0, sizes[last])
        else:
            found = cut(sizes[last], 0, width, powers_of_two=True, masked=masked)
        if STRIP in config:
            write_tiles_of_sums(script, op, sizes, (int(config[STRIP]), int(config["rows"])), found, lanes=lanes)
            return
        rows = int(config["rows"])
        drop = has_invariant_factor(task.root)
        if len(found) > 1 and not drop:  # a loop over rows for each piece would go through memory as often
            op, sizes = in_rows(script, op, sizes, rows, knob="rows")
        parts = moves.split_into(script, op, last, [piece.size for piece in found])
        iterators = task.nest.iterators
        multiplies = task.root.multiplies  # its products of a single tile would be added up one by one
        partial = iterators[-1] == "reduction" and iterators.count("reduction") == 1 and not task.root.counts
        for piece, part in zip(found, parts, strict=True):
            here = (*sizes[:last], piece.size)
            if partial and (piece.register < piece.size or (multiplies and piece.size > 1)):
                reduce_and_vectorize(script, part, here, piece.register, rows=rows)
            else:
                tile_and_vectorize(script, part, here, rows, piece.register, knob="rows", drop_unit_loops=drop)


def has_invariant_factor(op: Op) -> bool:
    """Return whether an op sums products over several loops, one of which moves some factor and not another.

    ``lower_contraction`` of LLVM 22 aborts the process on ``vector.contract`` whose unit reduction is missing in an
    operand: of such an op, tiles must not have loops of one step.
    """
    reduced = {loop for loop, iterator in enumerate(op.nest.iterators) if iterator == "reduction"}
    if len(reduced) < 2 or not any(step.name in MULTIPLICATIONS for step in op.body):
        return False
    moved = {frozenset(loop for terms in operand.terms for loop, _ in terms) & reduced for operand in op.inputs}
    return len(moved) > 1 or any(step.name == "linalg.index" for step in op.body)


def widest_row(task: Task, machine: Machine) -> int:
    """Elements of the vectors that hold a row; where it is summed, also all of a row of a few, with some to spare.

    A row in one vector whose end is masked is summed across once, not once for each of its parts.
    """
    size = task.nest.sizes[-1]
    parts = -(-size // machine.lanes)
    is_summed = task.nest.iterators[-1] == "reduction" and not task.root.counts and not sums_in_tiles(task)
    return machine.lanes << (parts - 1).bit_length() if is_summed and parts <= SUMS_AT_ONCE else size


def in_rows(
    script: Script, op: str, sizes: tuple[int, ...], rows: int, *, knob: str = ""
) -> tuple[str, tuple[int, ...]]:
    """Loops over everything but the columns of some rows, which divide all of them; consumes `op`.

    Args:
        script: Script that ops are appended to.
        op: Handle of the op.
        sizes: Trip counts of its loops.
        rows: Rows at a time; divides the trip count of the loop before the last.
        knob: Name of the knob that `rows` is.

    Returns:
        Handle of the op inside the loops, and trip counts of its own.
    """
    rank = len(sizes)
    steps = (*[1] * (rank - 2), rows)[: rank - 1]
    for dim, step in enumerate(steps):
        if step < sizes[dim]:
            op, _ = moves.tile_loop(script, op, rank, dim, step, knob=knob if dim == rank - 2 else "")
    return op, (*steps, sizes[-1])


def up_to(size: int) -> tuple[int, ...]:
    """Numbers of rows that a size has."""
    return tuple(rows for rows in ROWS if rows <= size)


def shares_factor(task: Task) -> bool:
    """Tell whether rows are multiplied by the same row: columns of a product with a transposed B."""
    return task.contraction is not None and task.contraction.transposed_b


def sums_in_tiles(task: Task) -> bool:
    """Tell whether sums of several rows and columns share what they read: those of a product with a transposed B."""
    c = task.contraction
    return c is not None and c.transposed_b and not c.transposed_a and c.m > 1 and c.n > 1


def write_tiles_of_sums(
    script: Script, op: str, sizes: tuple[int, ...], tile: tuple[int, int], found: Sequence[Piece], *, lanes: int
) -> None:
    """Sums along the last loop, a vector of partial results for each row and column of a tile; consumes `op`.

        C[m, n] += A[m, k] * B[n, k]
          ->   for n0: for m0:  p[0:4, 0:4, 0:16] = 0
                                for k0: p += A[m0 : m0 + 4, k0 : k0 + 16] * B[n0 : n0 + 4, k0 : k0 + 16]
                                C[m0 : m0 + 4, n0 : n0 + 4] += sums of p

    Args:
        script: Script that ops are appended to.
        op: Handle of a product with a transposed B.
        sizes: Trip counts of its loops, those of a batch first, then m, n and k.
        tile: Rows and columns of a tile.
        found: Pieces of k.
        lanes: Elements of a machine's vector.
    """
    rank, (strip, columns) = len(sizes), tile
    for dim in range(rank - 3):
        op, _ = moves.tile_loop(script, op, rank, dim, 1)
    for beside in in_pieces(script, op, rank, rank - 2, cut(sizes[-2], 0, columns)):
        for inside in in_pieces(script, beside, rank, rank - 3, cut(sizes[-3], 0, strip)):
            for piece, part in zip(
                found, moves.split_into(script, inside, rank - 1, [piece.size for piece in found]), strict=True
            ):
                if piece.register < piece.size or piece.size >= lanes:
                    sum_in_vectors(script, part, rank, piece.register)
                else:
                    moves.vectorize(script, part)


def in_pieces(script: Script, op: str, rank: int, dim: int, pieces: Sequence[Piece]) -> Iterator[str]:
    """Cut an op into pieces of a loop, each in a loop over register tiles; consumes `op`."""
    parts = moves.split_into(script, op, dim, [piece.size for piece in pieces])
    for piece, part in zip(pieces, parts, strict=True):
        is_looped = piece.register < piece.size
        yield moves.tile_loop(script, part, rank, dim, piece.register)[0] if is_looped else part


def reduce_and_vectorize(
    script: Script, op: str, sizes: tuple[int, ...], width: int, *, mark: str = "", rows: int = 1
) -> None:
    """Some rows at a time; along each a vector of partial results, which become one when the row is done.

    Args:
        script: Script that ops are appended to.
        op: Handle of an op whose last loop, and no other, is a reduction; consumed.
        sizes: Trip counts of the op's loops.
        width: Elements of the vector; divides the last of them, and is less.
        mark: Attribute for the loop along the row.
        rows: Rows at a time; divides the trip count of the loop before the last.
    """
    op, _ = in_rows(script, op, sizes, rows)
    sum_in_vectors(script, op, len(sizes), width, mark=mark)


def sum_in_vectors(script: Script, op: str, rank: int, width: int, *, mark: str = "") -> None:
    """A loop along the last dimension, which is summed, in vectors of partial results; consumes `op`."""
    parts, loop = moves.tile_reduction(script, op, rank, width)
    for name in (SUMS, mark):
        if name:
            moves.annotate(script, loop, name)
    for part in parts:
        moves.vectorize(script, part)


def vectorize_rows(
    script: Script,
    op: str,
    sizes: tuple[int, ...],
    width: int,
    *,
    reduced: bool,
    mark: str = "",
    masked: int = 0,
    whole: bool = False,
) -> None:
    """One row at a time, in vectors, and what they leave over in smaller ones; consumes `op`.

    Args:
        script: Script that ops are appended to.
        op: Handle of an op over rows, or rows and columns.
        sizes: Trip counts of its loops.
        width: Elements of a vector along the columns.
        reduced: Whether the op reduces its columns.
        mark: Attribute for the loop along whole vectors.
        masked: Elements of a vector whose end is masked; 0 where none is.
        whole: What vectors leave over of a row comes right behind them, not behind all rows.
    """
    if len(sizes) == 1:
        tile_and_vectorize(script, op, sizes, 1, sizes[0] & -sizes[0])
        return
    if whole:
        op, sizes = in_rows(script, op, sizes, 1)
    rows, columns = sizes
    pieces = cut(columns, 0, width, powers_of_two=True, masked=masked)
    parts = moves.split_into(script, op, 1, [piece.size for piece in pieces])
    for piece, part in zip(pieces, parts, strict=True):
        here = mark if piece == pieces[0] else ""
        if reduced and piece.register < piece.size:
            reduce_and_vectorize(script, part, (rows, piece.size), piece.register, mark=here)
        else:
            tile_and_vectorize(script, part, (rows, piece.size), 1, piece.register, mark=here)


def tile_and_vectorize(
    script: Script,
    op: str,
    sizes: tuple[int, ...],
    rows: int,
    width: int,
    *,
    mark: str = "",
    knob: str = "",
    gathers: bool = False,
    drop_unit_loops: bool = False,
) -> None:
    """Loops over everything but a tile of `rows` rows and `width` columns.

    Args:
        script: Script that ops are appended to.
        op: Handle of the op; consumed.
        sizes: Trip counts of its loops.
        rows: Number of rows of a tile.
        width: Columns of a tile.
        mark: Put on the loop over columns.
        knob: Name of the knob that `rows` is.
        gathers: The op reads elements at indices that a tensor holds.
        drop_unit_loops: Loops of one step are dropped from the tile before it becomes vectors.
    """
    rank = len(sizes)
    tile = [1] * rank
    tile[-1] = width
    if rank > 1:
        tile[-2] = rows
    loop = ""
    for dim, (size, step) in enumerate(zip(sizes, tile, strict=True)):
        if step < size:
            op, loop = moves.tile_loop(script, op, rank, dim, step, knob=knob if dim == rank - 2 else "")
            if mark and dim == rank - 1:
                moves.annotate(script, loop, mark)
    if loop:
        moves.annotate(script, loop, SUMS)
    if loop and drop_unit_loops:
        op = moves.drop_unit_loops(script, loop)
    moves.vectorize(script, op, gathers=gathers)


VECTORIZE = Vectorize()
