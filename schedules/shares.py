"""How work is shared out among threads: in how many pieces along which dimension, and what a piece is.

A piece is a stretch of rows, columns or batches of the result, and a parallel loop runs over the pieces. No two threads
write to one cache line: a piece ends where a line does. What equal pieces leave over, one thread computes afterwards.
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
MOST_A_THREAD = 4  # pieces, so that threads which finish early take another
MOST_PIECES = 32  # of one row each, where nothing else is even
FORK_CYCLES = 3_000  # to wake two threads and to wait for both; as many more whenever their number doubles
BYTES_A_CYCLE = 8  # that a core sustains from memory


def counts(size: int, machine: Machine) -> tuple[int, ...]:
    """Numbers of pieces of a dimension: one, fewer than there are threads, as many, and a few times as many."""
    threads = machine.threads
    if threads == 1:
        return (1,)
    fewer = tuple(2**power for power in range(1, threads.bit_length()) if 2**power < threads)
    more = tuple(times * threads for times in (1, 2, MOST_A_THREAD))
    return tuple(count for count in (1, *fewer, *more) if count <= max(1, size))


def even_counts(size: int, machine: Machine) -> tuple[int, ...]:
    """Numbers of equal pieces of a dimension; its own size too, where that is few pieces a thread."""
    if machine.threads == 1:
        return (1,)
    few = {size} if size <= MOST_A_THREAD * machine.threads else set()
    return tuple(sorted(count for count in {*counts(size, machine), *few} if size % count == 0))


def knobs_for(values: dict[str, tuple[int, ...]]) -> tuple[Knob, ...]:
    """A knob for every dimension that may be cut; none on one thread."""
    return tuple(Knob(f"pieces_{dim}", found) for dim, found in values.items() if len(found) > 1)


def pieces(config: Config, dim: str) -> int:
    """Pieces that a config cuts a dimension in."""
    return int(config.get(f"pieces_{dim}", 1))


def few_pieces(machine: Machine) -> Constraint:
    """Of all dimensions together there are few pieces for each thread."""

    def few(config: Config) -> bool:
        return prod(pieces(config, dim) for dim in "bmn") <= MOST_A_THREAD * machine.threads

    return Constraint(f"at most {MOST_A_THREAD} pieces a thread", few)


def is_shared(config: Config) -> bool:
    """Tell whether a config shares the work out."""
    return any(pieces(config, dim) > 1 for dim in "bmn")


def stretch(size: int, count: int, grain: int) -> int:
    """Length of each of so many pieces, a multiple of `grain`; the whole of a dimension that is not cut.

    Example:
        >>> stretch(50257, 2, 64)
        25088
    """
    return size if count == 1 else size // count // grain * grain


def row_grain(columns: int) -> int:
    """Rows that end where a cache line does."""
    return LINE // gcd(columns, LINE)


def piece_of(c: Contraction, config: Config, columns: int) -> Contraction:
    """What one thread computes at a time, for a register tile of so many columns; with 0 rows if a piece has none."""
    m = stretch(c.m, pieces(config, "m"), row_grain(c.n))
    n = stretch(c.n, pieces(config, "n"), columns * LINE // gcd(columns, LINE))
    return replace(c, m=m, n=n, batch=c.batch // pieces(config, "b"))


def contraction_knobs(c: Contraction, machine: Machine) -> tuple[Knob, ...]:
    """Pieces of batches, rows and columns of a contraction; none on one thread."""
    batches = even_counts(c.batch, machine) if c.batched else (1,)
    return knobs_for({"b": batches, "m": counts(c.m, machine), "n": counts(c.n, machine)})


def default_pieces(c: Contraction, config: Config, columns: int, machine: Machine) -> dict[str, int]:
    """Pieces of each dimension: as many as threads along one of them, or one where there is too little to do.

    Whole products go first, then columns, of which each thread brings and packs its own B; rows where A is the larger.
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
    """Values of one of `contraction_knobs`; empty if there is no such knob."""
    return next((tuple(map(int, knob.values)) for knob in contraction_knobs(c, machine) if knob.name == name), ())


def pays(flops: float, traffic: float, machine: Machine) -> bool:
    """Tell whether threads save more than it costs to wake them and to wait for the last.

    Args:
        flops: Floating-point operations of the work.
        traffic: Bytes that it reads and writes.
        machine: Host.
    """
    cycles = max(flops / (4 * machine.lanes), traffic / BYTES_A_CYCLE)
    return machine.threads > 1 and cycles * (1 - 1 / machine.threads) > FORK_CYCLES * log2(machine.threads)


def covers(c: Contraction, piece: Contraction, config: Config) -> bool:
    """Tell whether pieces leave nothing of a contraction over."""
    return (c.m, c.n) == (piece.m * pieces(config, "m"), piece.n * pieces(config, "n"))


def share_out(script: Script, op: str, c: Contraction, piece: Contraction) -> list[tuple[str, Contraction]]:
    """A parallel loop over pieces of a contraction, and what they leave over; consumes `op`.

    C[0:m] = ...   ->   parallel for i:  C[i * s : (i + 1) * s] = ... ;  C[2 * s : m] = ...

    Returns:
        The op inside the parallel loop and those of the rest, each with what it computes.
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
    """Put a parallel loop around an op, in steps of so many elements along each of its loops; consumes `op`.

    C[i] = ...   ->   parallel for i0:  C[i0 * step : (i0 + 1) * step] = ...

    Args:
        script: Script that ops are appended to.
        op: Handle of a structured op.
        steps: Elements of a piece for each loop, 0 for all of them; each divides its trip count.

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
    """The first parallel loop of an op around the one that becomes vectors; `None` where there is none."""
    found = (d for d, size in enumerate(nest.sizes) if d != lane and size > 1 and nest.iterators[d] == "parallel")
    return next(found, None)


def outer_counts(nest: LoopNest, lane: int, machine: Machine) -> tuple[int, ...]:
    """Numbers of equal pieces of an op's outer loop, each of which ends where a cache line does."""
    dim = outer_loop(nest, lane)
    if dim is None:
        return (1,)
    parallel = [size for size, kind in zip(nest.sizes, nest.iterators, strict=True) if kind == "parallel"]
    elements = prod(parallel)
    size = nest.sizes[dim]
    each = {size} if machine.threads > 1 and size <= MOST_PIECES else set()
    found = sorted({*even_counts(size, machine), *each})
    return tuple(count for count in found if count == 1 or elements // count % LINE == 0)


def outer_default(nest: LoopNest, lane: int, machine: Machine) -> dict[str, int]:
    """Pieces of an op's outer loop, with which the busiest thread has least; nothing where there is no choice.

    Seven rows in two pieces would not be even; in seven, four of them on one thread, two take 4/7 of the time.
    """
    found = outer_counts(nest, lane, machine)
    if len(found) == 1:
        return {}
    points = prod(nest.sizes)
    if not pays(2 * points, 2 * BYTES * points, machine):
        return {"pieces_m": 1}
    return {"pieces_m": min(found, key=lambda count: (ceil(count / machine.threads) / count, count))}


def share_outer(script: Script, op: str, nest: LoopNest, lane: int, config: Config) -> tuple[str, tuple[int, ...]]:
    """Share an op's outer loop out, if the config says so; consumes `op`.

    Returns:
        The op, and the trip counts of its loops, of one piece.
    """
    op, sizes, _ = share_outer_loop(script, op, nest, lane, config)
    return op, sizes


def share_outer_loop(
    script: Script, op: str, nest: LoopNest, lane: int, config: Config
) -> tuple[str, tuple[int, ...], list[str]]:
    """Like `share_outer`; gives the parallel loop too, where there is one."""
    dim, count = outer_loop(nest, lane), pieces(config, "m")
    if dim is None or count == 1:
        return op, nest.sizes, []
    sizes = tuple(size // count if d == dim else size for d, size in enumerate(nest.sizes))
    op, loop = tile_parallel(script, op, [size if d == dim else 0 for d, size in enumerate(sizes)])
    return op, sizes, [loop]
