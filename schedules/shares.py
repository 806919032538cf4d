"""Parallelization: how many pieces each dimension is split into for threads, and what one piece computes.

A piece is a contiguous range of rows, columns or batches of the result; a parallel loop runs over them. Pieces end
at cache line boundaries, so that no two threads write to the same line. One thread computes the remainder afterwards.
"""

from dataclasses import replace
from math import ceil, gcd, log2, prod

from autotune.core.host.machine import Machine
from autotune.core.ops.op import Contraction, LoopNest
from autotune.core.scripts.marks import PIECES_OF_N
from autotune.core.space import Config, Constraint, Knob
from schedules import moves
from schedules.moves import ANY, Script

LINE = 16  # elements of four bytes in a cache line
BYTES = 4  # of such an element
MOST_A_THREAD = 4  # pieces per thread, so that a thread that finishes early takes another
MOST_PIECES = 32  # of one row each, if the rows cannot be split evenly otherwise
FORK_CYCLES = 3_000  # to wake two threads and join them; as much again whenever the number of threads doubles
BYTES_A_CYCLE = 8  # memory bandwidth sustained by one core


def counts(size: int, machine: Machine) -> tuple[int, ...]:
    """Return candidate numbers of pieces of a dimension: one, fewer than threads, as many, and a few times as many."""
    threads = machine.threads
    if threads == 1:
        return (1,)
    fewer = tuple(2**power for power in range(1, threads.bit_length()) if 2**power < threads)
    more = tuple(times * threads for times in (1, 2, MOST_A_THREAD))
    return tuple(count for count in (1, *fewer, *more) if count <= max(1, size))


def even_counts(size: int, machine: Machine) -> tuple[int, ...]:
    """Return candidate numbers of equal pieces of a dimension; also one per element if these are few per thread."""
    if machine.threads == 1:
        return (1,)
    few = {size} if size <= MOST_A_THREAD * machine.threads else set()
    return tuple(sorted(count for count in {*counts(size, machine), *few} if size % count == 0))


def knobs_for(values: dict[str, tuple[int, ...]]) -> tuple[Knob, ...]:
    """Return a knob for every dimension that can be split; none on a single thread."""
    return tuple(Knob(f"pieces_{dim}", counts) for dim, counts in values.items() if len(counts) > 1)


def pieces(config: Config, dim: str) -> int:
    """Return the number of pieces that a config splits a dimension into."""
    return int(config.get(f"pieces_{dim}", 1))


def few_pieces(machine: Machine) -> Constraint:
    """Return the constraint that limits the total number of pieces per thread."""

    def few(config: Config) -> bool:
        return prod(pieces(config, dim) for dim in "bmn") <= MOST_A_THREAD * machine.threads

    return Constraint(f"at most {MOST_A_THREAD} pieces a thread", few)


def is_shared(config: Config) -> bool:
    """Return whether a config splits the work among threads."""
    return any(pieces(config, dim) > 1 for dim in "bmn")


def stretch(size: int, count: int, grain: int) -> int:
    """Return the length of each of `count` pieces, a multiple of `grain`; the whole size if there is one piece.

    Example:
        >>> stretch(50257, 2, 64)
        25088
    """
    return size if count == 1 else size // count // grain * grain


def row_grain(columns: int) -> int:
    """Return the smallest number of rows that ends at a cache line boundary."""
    return LINE // gcd(columns, LINE)


def piece_of(c: Contraction, config: Config, columns: int) -> Contraction:
    """Return what one thread computes per piece, given the columns of a register tile; 0 rows if a piece is empty."""
    m = stretch(c.m, pieces(config, "m"), row_grain(c.n))
    n = stretch(c.n, pieces(config, "n"), columns * LINE // gcd(columns, LINE))
    return replace(c, m=m, n=n, batch=c.batch // pieces(config, "b"))


def contraction_knobs(c: Contraction, machine: Machine) -> tuple[Knob, ...]:
    """Return the knobs for pieces of batches, rows and columns of a contraction; none on a single thread."""
    batches = even_counts(c.batch, machine) if c.batched else (1,)
    return knobs_for({"b": batches, "m": counts(c.m, machine), "n": counts(c.n, machine)})


def default_pieces(c: Contraction, config: Config, columns: int, machine: Machine) -> dict[str, int]:
    """Return the default pieces: as many as threads along one dimension, or one piece if the work is too small.

    Whole products are split first, then columns, of which each thread loads and packs its own B; rows if A is larger.
    """
    choice = {knob.name: 1 for knob in contraction_knobs(c, machine)}
    if not pays(2 * c.batch * c.m * c.n * c.k, BYTES * c.batch * (c.k * c.n + c.m * c.k + c.m * c.n), machine):
        return choice
    for dim in "bmn" if c.m > c.n and config["pack_b"] != "panels" else "bnm":
        name = f"pieces_{dim}"
        if machine.threads in counts_of(name, c, machine):
            shared = {**config, **choice, name: machine.threads}
            piece = piece_of(c, shared, columns)
            whole = covers(c, piece, shared) or not c.batched
            if piece.m >= int(config["register_m"]) and piece.n and whole:
                return {**choice, name: machine.threads}
    return choice


def counts_of(name: str, c: Contraction, machine: Machine) -> tuple[int, ...]:
    """Return the values of one of `contraction_knobs`; empty if there is no such knob."""
    return next((tuple(map(int, knob.values)) for knob in contraction_knobs(c, machine) if knob.name == name), ())


def pays(flops: float, traffic: float, machine: Machine) -> bool:
    """Return whether parallel execution saves more than forking and joining the threads costs.

    Args:
        flops: Floating-point operations of the work.
        traffic: Bytes read and written.
        machine: Host.
    """
    cycles = max(flops / (4 * machine.lanes), traffic / BYTES_A_CYCLE)
    return machine.threads > 1 and cycles * (1 - 1 / machine.threads) > FORK_CYCLES * log2(machine.threads)


def covers(c: Contraction, piece: Contraction, config: Config) -> bool:
    """Return whether pieces cover a contraction without remainder."""
    return (c.m, c.n) == (piece.m * pieces(config, "m"), piece.n * pieces(config, "n"))


def share_out(script: Script, op: str, c: Contraction, piece: Contraction) -> list[tuple[str, Contraction]]:
    """Tile a contraction by a parallel loop over pieces and split off the remainder; consumes `op`.

    C[0:m] = ...   ->   parallel for i:  C[i * s : (i + 1) * s] = ... ;  C[2 * s : m] = ...

    Returns:
        Handles of the op inside the parallel loop and of the remainders, each with the contraction it computes.
    """
    lead, parts, left = (1 if c.batched else 0), [], c
    for dim, name in ((1, "n"), (0, "m")):
        size, step = getattr(left, name), getattr(piece, name)
        main = size // step * step
        if main < size:
            op, rest = moves.split_at(script, op, lead + dim, main)
            parts.append((rest, replace(left, **{name: size - main})))
            left = replace(left, **{name: main})
    steps = [*([piece.batch] if c.batched else []), piece.m, piece.n, 0]
    whole = [*([c.batch] if c.batched else []), left.m, left.n, 0]
    op, loop = tile_parallel(script, op, [step if step < size else 0 for step, size in zip(steps, whole, strict=True)])
    if piece.n < left.n:
        moves.annotate(script, loop, PIECES_OF_N, piece.n)
    return [(op, piece), *reversed(parts)]


def tile_parallel(script: Script, op: str, steps: list[int]) -> tuple[str, str]:
    """Tile an op by a parallel loop (scf.forall); consumes `op`.

    C[i] = ...   ->   parallel for i0:  C[i0 * step : (i0 + 1) * step] = ...

    Args:
        script: Script that ops are appended to.
        op: Handle of a structured op.
        steps: Tile size for each loop, 0 to leave it untiled; each divides its trip count.

    Returns:
        Handles of the tiled op and of the loop.
    """
    script.say("pieces for threads")
    tiled, loop = script.fresh("piece"), script.fresh("parallel")
    sizes = ", ".join(map(str, steps))
    script.emit(
        f"{tiled}, {loop} = transform.structured.tile_using_forall {op} tile_sizes [{sizes}] "
        f": ({ANY}) -> ({ANY}, {ANY})"
    )
    return tiled, loop


def outer_loop(nest: LoopNest, lane: int) -> int | None:
    """Return the first parallel loop of an op other than the vectorized one; `None` if there is none."""
    candidates = (d for d, size in enumerate(nest.sizes) if d != lane and size > 1 and nest.iterators[d] == "parallel")
    return next(candidates, None)


def outer_counts(nest: LoopNest, lane: int, machine: Machine) -> tuple[int, ...]:
    """Return the numbers of equal pieces of an op's outer loop that end at cache line boundaries."""
    dim = outer_loop(nest, lane)
    if dim is None:
        return (1,)
    parallel = [size for size, iterator in zip(nest.sizes, nest.iterators, strict=True) if iterator == "parallel"]
    elements = prod(parallel)
    size = nest.sizes[dim]
    one_row_pieces = {size} if machine.threads > 1 and size <= MOST_PIECES else set()
    candidates = sorted({*even_counts(size, machine), *one_row_pieces})
    return tuple(count for count in candidates if count == 1 or elements // count % LINE == 0)


def outer_default(nest: LoopNest, lane: int, machine: Machine) -> dict[str, int]:
    """Return the number of pieces of an op's outer loop that minimizes the busiest thread's share; empty if fixed.

    Seven rows do not split evenly in two. In seven pieces, of which one of two threads takes four, they take 4/7 of the
    time.
    """
    candidates = outer_counts(nest, lane, machine)
    if len(candidates) == 1:
        return {}
    points = prod(nest.sizes)
    if not pays(2 * points, 2 * BYTES * points, machine):
        return {"pieces_m": 1}
    return {"pieces_m": min(candidates, key=lambda count: (ceil(count / machine.threads) / count, count))}


def share_outer(script: Script, op: str, nest: LoopNest, lane: int, config: Config) -> tuple[str, tuple[int, ...]]:
    """Split an op's outer loop among threads, if the config says so; consumes `op`.

    Returns:
        Handle of the op for one piece, and the trip counts of its loops.
    """
    op, sizes, _ = share_outer_loop(script, op, nest, lane, config)
    return op, sizes


def share_outer_loop(
    script: Script, op: str, nest: LoopNest, lane: int, config: Config
) -> tuple[str, tuple[int, ...], list[str]]:
    """Split an op's outer loop as `share_outer` does, and return the handle of the parallel loop too, if any."""
    dim, count = outer_loop(nest, lane), pieces(config, "m")
    if dim is None or count == 1:
        return op, nest.sizes, []
    sizes = tuple(size // count if d == dim else size for d, size in enumerate(nest.sizes))
    op, loop = tile_parallel(script, op, [size if d == dim else 0 for d, size in enumerate(sizes)])
    return op, sizes, [loop]
