"""Search space of a matmul: its knobs and the constraints between them."""

from functools import partial
from itertools import permutations

from autotune.core.errors import ScheduleError
from autotune.core.host.machine import Machine
from autotune.core.host.matrix_unit import ROWS
from autotune.core.ops.op import Contraction
from autotune.core.precision import precision_named
from autotune.core.space import Config, Constraint, Knob, Space
from autotune.core.task import Task
from schedules.blocking import DIMS, Piece, cut, regions, register_loops
from schedules.ends import MASKED, PEELED, is_masked, knobs_of_ends
from schedules.shares import contraction_knobs, covers, few_pieces, piece_of, pieces

BYTES = 4  # of an f32
TILE_M = (0, 32, 64, 128, 256, 512)  # 0: no cache loop over this dimension
TILE_N = (0, 64, 128, 256, 512, 1024)
TILE_K = (0, 64, 128, 256, 384, 512, 768)
REGISTER_M = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14)
REGISTER_N = (1, 2, 4)  # vectors; LLVM lowers three of them to scalar code
TILED_M, TILED_N = (16, 32, 48), (1, 2, 3, 4)  # rows and vectors of whole tiles of a matrix unit
MOST_TILES, TILES_OF_C = 8, 4  # tile registers of the unit, and those of them that hold accumulators
UNROLLS = (1, 2, 4)
# B read in place; packed into panels as wide as a register tile in every call; or packed once before any call
PACKINGS = ("none", "panels", "beforehand")
MOST_REGIONS = 32
MOST_FMAS = 768  # vector FMAs after unrolling, over all k loops; compile time grows with it


def contraction_of(task: Task) -> Contraction:
    """Return the task's contraction.

    Raises:
        ScheduleError: The task has no contraction.
    """
    if task.contraction is None:
        raise ScheduleError(f"schedule 'matmul' needs a contraction, got {task.tag}; try schedule 'vectorize'")
    return task.contraction


def matmul_space(c: Contraction, machine: Machine) -> Space:
    """Return the knobs whose values make sense for these sizes, with the constraints between them."""
    ends = end_knobs(c, machine)
    widths = (machine.lanes, machine.lanes // 2) if machine.lanes >= 8 else (machine.lanes,)
    rows = tuple(r for r in rows_of_tiles(c) if not c.transposed_a or r & (r - 1) == 0)
    vectors = below(REGISTER_N, max(2, c.n // widths[-1] + 1))
    if by_tiles(c):
        widths = (ROWS,)
        rows, vectors = below(TILED_M, c.m + ROWS), below(TILED_N, -(-c.n // ROWS) + 1)
    knobs: tuple[Knob, ...] = (
        Knob("tile_m", below(TILE_M, c.m)),
        Knob("tile_n", below(TILE_N, c.n)),
        Knob("tile_k", below(TILE_K, c.k)),
        Knob("order", tuple("".join(p) for p in permutations(DIMS))),
        Knob("register_order", ("nm", "mn")),
        Knob("register_m", rows),
        Knob("register_n", vectors),
        Knob("vector_width", tuple(w for w in widths if w <= c.n or (ends and w < 2 * c.n)) or widths[-1:]),
        Knob("unroll_k", below(UNROLLS, max(2, c.k))),
        Knob("pack_b", packings(c)),
        Knob("prefetch", (False, True)),
        *ends,
        *contraction_knobs(c, machine),
    )
    return Space(knobs, constraints(c, machine) if machine.threads == 1 else shared_constraints(c, machine))


def rows_of_tiles(c: Contraction) -> tuple[int, ...]:
    """Return the candidate rows of a register tile; for few rows including those that split them evenly.

    With tiles of eight, nine rows would leave a single row over, which is bound by the latency of its sums.
    """
    few = c.m <= 2 * REGISTER_M[-1] and not c.precision
    return tuple(sorted({*below(REGISTER_M, c.m + 1), *(even_tiles(c.m) if few else ())}))


def even_tiles(rows: int) -> set[int]:
    """Return the heights of register tiles that split the rows evenly, except for the last tile."""
    return {-(-rows // parts) for parts in range(-(-rows // REGISTER_M[-1]), rows + 1)}


def end_knobs(c: Contraction, machine: Machine) -> tuple[Knob, ...]:
    """Return the knob ``ends`` for rows of C and B; none for packed lanes."""
    return () if c.precision else knobs_of_ends((c.n,), machine, is_tiled=True)


def ends_of(c: Contraction, vectors: int = 0) -> str:
    """Return the default for tails of C's rows: peeled for a transposed, non-constant B, as masks scalarize its loads.

    Args:
        c: Contraction.
        vectors: Vectors per panel that columns are copied to; 0 without copies. Panels of one vector may be masked.
    """
    return PEELED if c.transposed_b and not c.constant_b and vectors != 1 else MASKED


def masked_lanes(config: Config) -> int:
    """Return the length of a masked vector in elements; 0 if tails are not masked."""
    return int(config["vector_width"]) if is_masked(config) else 0


def shared_constraints(c: Contraction, machine: Machine) -> tuple[Constraint, ...]:
    """Return the constraints of a contraction split among threads: those of one piece, and those between pieces."""

    def piece(config: Config) -> Contraction:
        return piece_of(c, config, columns_of(config))

    def whole_tiles(config: Config) -> bool:
        own_piece = piece(config)
        return own_piece.n > 0 and own_piece.m >= (
            min(int(config["register_m"]), c.m) if pieces(config, "m") > 1 else 1
        )

    def whole_batches(config: Config) -> bool:
        return not c.batched or covers(c, piece(config), config)

    def of_piece(number: int, config: Config) -> bool:
        return not whole_tiles(config) or constraints(piece(config), machine)[number].holds(config)

    inherited = [
        Constraint(constraint.sentence, partial(of_piece, i)) for i, constraint in enumerate(constraints(c, machine))
    ]
    return (
        Constraint("a piece has whole register tiles, and ends where a cache line does", whole_tiles),
        Constraint("tiles of a batch's products divide it", whole_batches),
        few_pieces(machine),
        *inherited,
    )


def packings(c: Contraction) -> tuple[str, ...]:
    """Return how B may be packed; only f32 is packed in the call."""
    return tuple(p for p in PACKINGS if (p != "panels" or not c.stored_b) and (p != "beforehand" or c.constant_b))


def below(values: tuple[int, ...], bound: int) -> tuple[int, ...]:
    """Return the values less than a bound; the first one if there is none."""
    return tuple(v for v in values if v < bound) or values[:1]


def columns_of(config: Config) -> int:
    """Return the columns of a register tile: whole vectors."""
    return int(config["register_n"]) * int(config["vector_width"])


def by_tiles(c: Contraction) -> bool:
    """Return whether a matrix unit computes a contraction; register tiles are then whole tiles of the unit."""
    return bool(c.precision) and precision_named(c.precision).by_tiles


def cut_columns(c: Contraction, config: Config) -> tuple[Piece, ...]:
    """Return the pieces of n for the cache tile and the register tile of a config."""
    whole = by_tiles(c)
    masked = 0 if c.precision else masked_lanes(config)
    return cut(c.n, int(config["tile_n"]), columns_of(config), powers_of_two=not whole, one=whole, masked=masked)


def cut_all(c: Contraction, config: Config) -> dict[str, tuple[Piece, ...]]:
    """Return the pieces of every dimension."""
    rows = int(config["register_m"])
    return {
        "m": cut(c.m, int(config["tile_m"]), rows, powers_of_two=c.transposed_a, one=by_tiles(c)),
        "n": cut_columns(c, config),
        "k": cut(c.k, int(config["tile_k"]), 1),
    }


def tiles_of(c: Contraction, config: Config) -> tuple[int, int]:
    """Return the height and width of a register tile in tiles of a matrix unit."""
    height, columns = min(int(config["register_m"]), c.m), min(columns_of(config), c.n)
    return -(-height // ROWS), -(-columns // ROWS)


def fits_unit(c: Contraction, config: Config) -> bool:
    """Return whether the unit holds a register tile's accumulators, its operands along one side, and one more."""
    tile_rows, tile_columns = tiles_of(c, config)
    return (
        tile_rows * tile_columns <= TILES_OF_C
        and tile_rows * tile_columns + min(tile_rows, tile_columns) + 1 <= MOST_TILES
    )


def may_fetch(c: Contraction, config: Config) -> bool:
    """Return whether B has a next block to prefetch: there are several, in panels that the call does not transpose."""
    main = next(regions(cut_all(c, config)))
    in_panels = config["pack_b"] == "beforehand" or (config["pack_b"] == "panels" and not c.transposed_b)
    return in_panels and (main["n"].looped or main["k"].looped)


def constraints(c: Contraction, machine: Machine) -> tuple[Constraint, ...]:
    """Return the constraints between knobs, each described by a sentence."""
    lanes = machine.lanes

    def registers(config: Config) -> bool:
        if by_tiles(c):
            return fits_unit(c, config)
        rows, vectors = min(int(config["register_m"]), c.m), -(-min(columns_of(config), c.n) // lanes)
        return rows * vectors + vectors + 1 <= machine.vector_registers

    def narrow(config: Config) -> bool:
        return by_tiles(c) or int(config["vector_width"]) == lanes or int(config["register_n"]) == 1

    def panel(config: Config) -> bool:
        depth = cut(c.k, int(config["tile_k"]), 1)[0].cache
        if BYTES * depth * columns_of(config) <= machine.l2_bytes:
            return True
        if c.precision:
            return int(config["register_n"]) == 1  # k of packed words is not tiled: no panel is smaller
        return int(config["tile_k"]) == smallest_k

    smallest_k = min((v for v in below(TILE_K, c.k) if v), default=0)

    def size(config: Config) -> bool:
        parts = list(regions(cut_all(c, config)))
        fmas = sum(p["m"].register * -(-p["n"].register // lanes) for p in parts) * int(config["unroll_k"])
        return len(parts) <= MOST_REGIONS and fmas <= MOST_FMAS

    def settled(config: Config) -> bool:
        main = next(regions(cut_all(c, config)))
        return str(config["order"]).endswith("".join(d for d in DIMS if not main[d].looped))

    def ordered(config: Config) -> bool:
        main = next(regions(cut_all(c, config)))
        return len(register_loops(main, "nm")) == 2 or config["register_order"] == "nm"

    def fetched(config: Config) -> bool:
        return not config.get("prefetch") or may_fetch(c, config)

    capacity = f"{MOST_TILES} tiles" if by_tiles(c) else f"{machine.vector_registers} registers"
    return (
        Constraint(f"accumulators, a row of B and an element of A fit {capacity}", registers),
        Constraint("vectors narrower than the machine's come alone (two of them are a full one)", narrow),
        Constraint(f"a panel of B (tile_k x register tile) fits the L2 cache of {machine.l2_bytes} bytes", panel),
        Constraint(f"at most {MOST_REGIONS} regions and {MOST_FMAS} unrolled vector FMAs", size),
        Constraint("order names dimensions without a cache loop last, as m, n, k", settled),
        Constraint(
            "the next block of B is prefetched only where there are several, in panels, not transposed", fetched
        ),
        Constraint("register_order is nm where there are not two register loops to order", ordered),
    )
