"""Plain vectorizing schedule: loops over rows, vectors along the innermost dimension.

It covers every structured op whose operands are indexed by single loops; more specific families take precedence.
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
MOST_VECTORS = 32  # vector registers per tile
STRIP = "strip"  # knob: rows of A in a tile of sums; ``rows`` counts its columns
SUMS_AT_ONCE = 8  # independent accumulator vectors, which hide the latency of additions
MULTIPLICATIONS = ("arith.mulf", "arith.muli")
STREAMED = 2  # accumulators of a row read from beyond L2: a single one would be bound by latency


@dataclass(frozen=True)
class Vectorize(SingleOp):
    """Element-wise ops, row reductions, and any op that no other family covers."""

    name: str = "vectorize"
    fallback: bool = True

    def covers(self, task: Task) -> bool:
        """Return whether the task is a single op of static shape whose tiles can be vectorized."""
        is_single = not task.is_group and not task.grows and not task.root.gathers
        return is_single and len(task.nest.sizes) > 0 and task.root.vectorizes

    def knobs(self, task: Task, machine: Machine) -> tuple[Knob, ...]:
        """Return the knobs for rows and vectors of a tile."""
        sizes = task.nest.sizes
        rows = tuple(r for r in ROWS if len(sizes) > 1 and sizes[-2] % r == 0) or ROWS[:1]
        ends = knobs_of_ends(sizes[-1:], machine)
        vectors = Knob("vectors", fitting_vectors(widest_row(task, machine) if ends else sizes[-1], machine.lanes))
        if sums_in_tiles(task):
            return (Knob(STRIP, up_to(sizes[-3])), Knob("rows", up_to(sizes[-2])), vectors, *ends)
        return (Knob("rows", rows), vectors, *ends)

    def constraints(self, task: Task, machine: Machine) -> tuple[Constraint, ...]:
        """Return the constraints: a tile fits the registers, and its rows divide a thread's piece."""
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
        """Return one row of four vectors, or eight vectors of sums, over several rows if these share a factor.

        If memory bound, use one vector, or as many narrow ones as have its bytes: stores of several do not follow
        cache line order. Rows that are multiplied by the same row are then read one after the other.
        """
        if sums_in_tiles(task):
            return self.values_of_tiles(task, machine)
        rows = max(map(int, self.knobs(task, machine)[0].values)) if shares_factor(task) and machine.threads == 1 else 1
        if task.nest.iterators[-1] == "reduction":
            wanted = SUMS_AT_ONCE
            if rows > 1 and BYTES * prod(task.nest.sizes) > machine.l2_bytes:
                rows, wanted = 1, STREAMED
        else:
            moved = sum(operand.element_bytes for operand in task.root.operands) * prod(task.nest.sizes)
            narrow = max(1, BYTES // max((output.element_bytes for output in task.root.outputs), default=BYTES))
            wanted = narrow if moved > machine.l2_bytes else 4
        ends = {"ends": MASKED} if knobs_of_ends(task.nest.sizes[-1:], machine) else {}
        return {
            "rows": rows,
            "vectors": largest_up_to(max(1, wanted // rows), self.knobs(task, machine)[1].values),
            **ends,
        }

    def values_of_tiles(self, task: Task, machine: Machine) -> Config:
        """Return tiles of as many columns as rows of A, one vector deep; halve the columns until registers suffice."""
        strip, rows = (max(map(int, knob.values)) for knob in self.knobs(task, machine)[:2])
        ends = {"ends": MASKED} if knobs_of_ends(task.nest.sizes[-1:], machine) else {}
        config: Config = {STRIP: strip, "rows": rows, "vectors": 1, **ends}
        fits_registers = self.constraints(task, machine)[0]
        while not fits_registers.holds(config):
            config = {**config, "rows": int(config["rows"]) // 2}
        return config

    def write(self, script: Script, op: str, sizes: tuple[int, ...], task: Task, config: Config, *, lanes: int) -> None:
        """Split off the remainder of whole vectors, then tile and vectorize each part."""
        last = len(sizes) - 1
        masked = lanes if is_masked(config) else 0
        width = int(config["vectors"]) * lanes
        if masked and width > sizes[last]:  # one masked vector, regardless of how many registers it needs
            row_pieces = cut(sizes[last], 0, sizes[last])
        else:
            row_pieces = cut(sizes[last], 0, width, powers_of_two=True, masked=masked)
        if STRIP in config:
            write_tiles_of_sums(script, op, sizes, (int(config[STRIP]), int(config["rows"])), row_pieces, lanes=lanes)
            return
        rows = int(config["rows"])
        drop = has_invariant_factor(task.root)
        if len(row_pieces) > 1 and not drop:  # a row loop for each piece would traverse memory that many times
            op, sizes = in_rows(script, op, sizes, rows, knob="rows")
        parts = moves.split_into(script, op, last, [piece.size for piece in row_pieces])
        iterators = task.nest.iterators
        multiplies = task.root.multiplies  # products in a single tile would be summed one by one
        partial = iterators[-1] == "reduction" and iterators.count("reduction") == 1 and not task.root.counts
        for piece, part in zip(row_pieces, parts, strict=True):
            piece_sizes = (*sizes[:last], piece.size)
            if partial and (piece.register < piece.size or (multiplies and piece.size > 1)):
                reduce_and_vectorize(script, part, piece_sizes, piece.register, rows=rows)
            else:
                tile_and_vectorize(script, part, piece_sizes, rows, piece.register, knob="rows", drop_unit_loops=drop)


def has_invariant_factor(op: Op) -> bool:
    """Return whether an op sums products over several loops, and a factor does not vary along one of them.

    The pattern ``lower_contraction`` of LLVM 22 aborts the process on a ``vector.contract`` with a reduction of size 1
    that an operand lacks. So unit dimensions have to be dropped from tiles of such an op.
    """
    reduced = {loop for loop, iterator in enumerate(op.nest.iterators) if iterator == "reduction"}
    if len(reduced) < 2 or not any(step.name in MULTIPLICATIONS for step in op.body):
        return False
    varying = {frozenset(loop for terms in operand.terms for loop, _ in terms) & reduced for operand in op.inputs}
    return len(varying) > 1 or any(step.name == "linalg.index" for step in op.body)


def widest_row(task: Task, machine: Machine) -> int:
    """Return the width that a row's vectors may cover: its size, or for short sums, the next power of two of vectors.

    A row in one masked vector needs one horizontal sum, not one for each of its parts.
    """
    size = task.nest.sizes[-1]
    parts = -(-size // machine.lanes)
    is_summed = task.nest.iterators[-1] == "reduction" and not task.root.counts and not sums_in_tiles(task)
    return machine.lanes << (parts - 1).bit_length() if is_summed and parts <= SUMS_AT_ONCE else size


def in_rows(
    script: Script, op: str, sizes: tuple[int, ...], rows: int, *, knob: str = ""
) -> tuple[str, tuple[int, ...]]:
    """Loop over all but the columns, `rows` rows at a time; consumes `op`.

    Args:
        script: Script that ops are appended to.
        op: Handle of the op.
        sizes: Trip counts of its loops.
        rows: Rows per iteration; divides the trip count of the loop before the last.
        knob: Name of the knob whose value is `rows`.

    Returns:
        Handle of the op inside the loops, and its trip counts.
    """
    rank = len(sizes)
    steps = (*[1] * (rank - 2), rows)[: rank - 1]
    for dim, step in enumerate(steps):
        if step < sizes[dim]:
            op, _ = moves.tile_loop(script, op, rank, dim, step, knob=knob if dim == rank - 2 else "")
    return op, (*steps, sizes[-1])


def up_to(size: int) -> tuple[int, ...]:
    """Return the values of `ROWS` up to a size."""
    return tuple(rows for rows in ROWS if rows <= size)


def shares_factor(task: Task) -> bool:
    """Return whether rows are multiplied by the same row, as for a product with a transposed B."""
    return task.contraction is not None and task.contraction.transposed_b


def sums_in_tiles(task: Task) -> bool:
    """Return whether sums of several rows and columns share their operands, as for a product with a transposed B."""
    c = task.contraction
    return c is not None and c.transposed_b and not c.transposed_a and c.m > 1 and c.n > 1


def write_tiles_of_sums(
    script: Script, op: str, sizes: tuple[int, ...], tile: tuple[int, int], pieces: Sequence[Piece], *, lanes: int
) -> None:
    """Vectorize sums along the last loop, with one vector of partial sums per row and column of a tile; consumes `op`.

        C[m, n] += A[m, k] * B[n, k]
          ->   for n0: for m0:  p[0:4, 0:4, 0:16] = 0
                                for k0: p += A[m0 : m0 + 4, k0 : k0 + 16] * B[n0 : n0 + 4, k0 : k0 + 16]
                                C[m0 : m0 + 4, n0 : n0 + 4] += sums of p

    Args:
        script: Script that ops are appended to.
        op: Handle of a product with a transposed B.
        sizes: Trip counts of its loops: batches first, then m, n and k.
        tile: Rows and columns of a tile.
        pieces: Pieces of k.
        lanes: Elements of a vector register.
    """
    rank, (strip, columns) = len(sizes), tile
    for dim in range(rank - 3):
        op, _ = moves.tile_loop(script, op, rank, dim, 1)
    for column_tile in in_pieces(script, op, rank, rank - 2, cut(sizes[-2], 0, columns)):
        for tile_op in in_pieces(script, column_tile, rank, rank - 3, cut(sizes[-3], 0, strip)):
            for piece, part in zip(
                pieces, moves.split_into(script, tile_op, rank - 1, [piece.size for piece in pieces]), strict=True
            ):
                if piece.register < piece.size or piece.size >= lanes:
                    sum_in_vectors(script, part, rank, piece.register)
                else:
                    moves.vectorize(script, part)


def in_pieces(script: Script, op: str, rank: int, dim: int, pieces: Sequence[Piece]) -> Iterator[str]:
    """Split an op into pieces of a loop and tile each by its register tile; consumes `op`."""
    parts = moves.split_into(script, op, dim, [piece.size for piece in pieces])
    for piece, part in zip(pieces, parts, strict=True):
        is_looped = piece.register < piece.size
        yield moves.tile_loop(script, part, rank, dim, piece.register)[0] if is_looped else part


def reduce_and_vectorize(
    script: Script, op: str, sizes: tuple[int, ...], width: int, *, mark: str = "", rows: int = 1
) -> None:
    """Vectorize a row reduction, some rows at a time, with a vector of partial sums combined after each row.

    Args:
        script: Script that ops are appended to.
        op: Handle of an op whose last loop is its only reduction; consumed.
        sizes: Trip counts of the op's loops.
        width: Elements of the vector; a proper divisor of the last trip count.
        mark: Attribute for the loop along the row.
        rows: Rows per iteration; divides the trip count of the loop before the last.
    """
    op, _ = in_rows(script, op, sizes, rows)
    sum_in_vectors(script, op, len(sizes), width, mark=mark)


def sum_in_vectors(script: Script, op: str, rank: int, width: int, *, mark: str = "") -> None:
    """Reduce the last dimension in a loop over vectors of partial sums; consumes `op`."""
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
    """Vectorize an op row by row, with the remainder of each row in smaller vectors; consumes `op`.

    Args:
        script: Script that ops are appended to.
        op: Handle of an op over rows, or rows and columns.
        sizes: Trip counts of its loops.
        width: Elements of a vector along the columns.
        reduced: Whether the op reduces its columns.
        mark: Attribute for the loop over whole vectors.
        masked: Length of a masked vector in elements; 0 if nothing is masked.
        whole: Whether the remainder of each row is computed right after its whole vectors, not after all rows.
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
        piece_mark = mark if piece == pieces[0] else ""
        if reduced and piece.register < piece.size:
            reduce_and_vectorize(script, part, (rows, piece.size), piece.register, mark=piece_mark)
        else:
            tile_and_vectorize(script, part, (rows, piece.size), 1, piece.register, mark=piece_mark)


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
    """Tile all loops so that a tile of `rows` rows and `width` columns remains, and vectorize it.

    Args:
        script: Script that ops are appended to.
        op: Handle of the op; consumed.
        sizes: Trip counts of its loops.
        rows: Number of rows of a tile.
        width: Columns of a tile.
        mark: Attribute for the loop over columns.
        knob: Name of the knob whose value is `rows`.
        gathers: Whether the op reads elements at indices that a tensor holds.
        drop_unit_loops: Whether loops of one step are dropped from the tile before it is vectorized.
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
