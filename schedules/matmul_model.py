"""Default config of a matmul: register and cache tiles chosen by a small analytic model, without any search.

After Low et al., Analytical Modeling Is Enough for High-Performance BLIS (ACM TOMS 2016). The register tile hides the
latency of FMA, needs few loads, and needs no more of B than L2 delivers. Strips of A fill a share of L1 and blocks of B
a share of L2; the shares depend on whether B is stored in panels or copied into them. Each strip of A is read from L1
for every panel of the block; panels come from L2 in the order they are read.
"""

from dataclasses import dataclass, replace

from autotune.core.host.machine import Machine
from autotune.core.ops.op import Contraction
from autotune.core.space import Config, Space, Value
from schedules.blocking import cut, masked_length, nest_order
from schedules.ends import MASKED
from schedules.matmul_space import (
    by_tiles,
    columns_of,
    constraints,
    cut_columns,
    end_knobs,
    ends_of,
    may_fetch,
    tiles_of,
)
from schedules.shares import LINE, default_pieces, piece_of

BYTES = 4
FMAS_IN_FLIGHT = 8  # latency of 4 cycles times two pipes, on every x86 and Arm core of the last decade
LEAST_STEPS = 3  # of an unrolled loop over k: with fewer steps the loop disappears and C must be zero-filled first
ENOUGH_FMAS_PER_LOAD = 5 / 3  # two loads a cycle feed two FMAs, and cache fills take load slots as well
COST_OF_GATHERED = 4  # of a column of a transposed B that is in no panel, relative to one that is
COST_OF_LEFT_ROWS = 4  # of a leftover row that reads B in place, without a copy, relative to any other row
L2_BYTES_A_CYCLE = 24  # sustained by one core: half of what vendors state
BEYOND_L2_BYTES_A_CYCLE = 16  # sustained by one core from L3 or memory
DEEP = 256  # steps of k that amortize reading and writing C
TALL = 640  # rows that share a copy of B, whose cost is then a twentieth: 2 x 16 FMAs a cycle, 4 bytes of B
LEAST_TRANSPOSED_ROWS, LEAST_ROWS_APART = 5, 16  # rows that amortize panels of a transposed B: whole squares, any k
SQUARE = 4  # side of the smallest square that is transposed efficiently in registers
LEAST_PACKED_ROWS, MANY_ROWS = 32, 512  # rows that amortize a copy of B: if rows of B alias in L1, and otherwise
ALIASED_BYTES = 4096  # rows whose distance is a multiple of this map to the same few sets of L1


@dataclass(frozen=True)
class Shares:
    """Shares of the caches that may be filled: of L1 by a strip of A, of L2 by a block of B."""

    strip: float
    block: float


STORED_SHARES = Shares(strip=3 / 8, block=1 / 8)  # few blocks of k; L2 also holds A and the next block of B
COPIED_SHARES = Shares(strip=3 / 16, block=1 / 4)  # copies pass through L1, and more panels at a time pay
# With many rows, A passes through L2 once for every block of B: the larger the block, the fewer passes.
TALL_STORED_SHARES = Shares(strip=3 / 16, block=1 / 4)  # L2 also holds the next block of B
TALL_COPIED_SHARES = Shares(strip=3 / 16, block=1 / 2)  # one copy serves many rows: nothing is prefetched
RUN_OF_COPY, LEAST_PANELS = 512, 4  # elements of a row of a transposed B that are copied at a time; panels in a block
FEW_COPIED_ROWS = 16
BLOCK_OF_TILES = 5 / 8  # of L2, by B: k of packed lanes is not tiled, and a matrix unit stalls on loads from beyond L2

SHARES = {
    (True, False): STORED_SHARES,
    (False, False): COPIED_SHARES,
    (True, True): TALL_STORED_SHARES,
    (False, True): TALL_COPIED_SHARES,
}  # by whether B is stored in panels, and whether there are many rows


def default_config(c: Contraction, space: Space, machine: Machine, *, copied: bool = False) -> Config:
    """Return the valid config that the model ranks first; on several threads, the one for a thread's piece.

    Register tiles are ranked together with the cache tiles that the model derives for each: where A and C pass through
    L2, a register tile that leaves room for only a few steps of k is slow, however few loads it needs.

    Args:
        c: Contraction.
        space: Knobs and constraints of its configs.
        machine: Host that the config is for.
        copied: Whether B is in panels regardless of this contraction's own shape: enclosing loops share them.
    """
    values = {knob.name: knob.values for knob in space.knobs}
    if machine.threads > 1 and (shared := shared_default(c, space, machine)) is not None:
        return shared
    copied = copied or packing(c, machine) == "panels"
    tiles = [
        RegisterTile(int(m), int(n), int(w))
        for m in values["register_m"]
        for n in values["register_n"]
        for w in values["vector_width"]
    ]
    filled = [(score(c, tile, machine, copied=copied), fill_caches(c, values, tile, machine)) for tile in tiles]
    for _, config in sorted(filled, key=lambda pair: -pair[0] * flow(c, pair[1], machine)):
        if space.broken_constraint(config) is None:
            return config
    return next(space.configs())


def shared_default(c: Contraction, space: Space, machine: Machine) -> Config | None:
    """Return the config whose threads each run the model's choice for one piece; `None` if it violates a constraint.

    The tiles are those of the piece, whose leftovers differ from those of the whole.
    """
    single_threaded = replace(machine, threads=1)
    unshared = default_config(c, Space(space.knobs, constraints(c, single_threaded)), single_threaded)
    shared = default_pieces(c, unshared, columns_of(unshared), machine)
    piece = piece_of(c, shared, columns_of(unshared))
    piece_config = default_config(piece, Space(space.knobs, constraints(piece, single_threaded)), single_threaded)
    config = {**piece_config, **shared}
    return config if space.broken_constraint(config) is None else None


@dataclass(frozen=True)
class RegisterTile:
    """`rows` of C times `vectors` vectors of `width` columns."""

    rows: int
    vectors: int
    width: int

    @property
    def columns(self) -> int:
        """Columns of C."""
        return self.vectors * self.width


def score(c: Contraction, tile: RegisterTile, machine: Machine, *, copied: bool = False) -> float:
    """Score a register tile: higher with few loads per FMA, enough FMAs in flight, and few leftovers."""
    if by_tiles(c):
        return score_of_tiles(c, tile)
    masked = bool(end_knobs(c, machine)) and ends_of(c) == MASKED
    columns = min(tile.columns, masked_length(c.n, machine.lanes)) if masked else tile.columns
    used = max(1, -(-min(columns, c.n) // machine.lanes))
    accumulators = tile.rows * used
    if accumulators + used + 1 > machine.vector_registers:
        return 0.0
    fmas_per_load = accumulators / (tile.rows + used)
    busy = min(1.0, accumulators / FMAS_IN_FLIGHT) * min(columns, c.n) / (used * machine.lanes)
    streaming = min(
        1.0, L2_BYTES_A_CYCLE * tile.rows / (2 * BYTES * machine.lanes)
    )  # a row takes half a cycle a vector
    covered = (c.m // tile.rows * tile.rows / c.m) * (c.n // columns * columns / c.n)
    left = 0.0 if c.constant_b or copied else c.m % tile.rows / c.m * (COST_OF_LEFT_ROWS - 1)
    if copied and c.transposed_b:
        left += gathered(c, tile, machine) * (COST_OF_GATHERED - 1)
    return min(fmas_per_load, ENOUGH_FMAS_PER_LOAD) * busy * streaming * (0.5 + 0.5 * covered) / (1 + left)


def gathered(c: Contraction, tile: RegisterTile, machine: Machine) -> float:
    """Return the share of columns of a transposed B that are in no panel: the leftovers, or all if one panel is enough.

    Where panels are one vector wide, the tail of the last one is masked instead.
    """
    if ends_of(c, tile.vectors) == MASKED and end_knobs(c, machine):
        return 0.0
    panels = c.n // tile.columns
    return (c.n - panels * tile.columns if panels > 1 else c.n) / c.n


def score_of_tiles(c: Contraction, tile: RegisterTile) -> float:
    """Score a register tile of a matrix unit: higher with few loads per tile product and few leftovers."""
    config: Config = {"register_m": tile.rows, "register_n": tile.vectors, "vector_width": tile.width}
    tile_rows, tile_columns = tiles_of(c, config)
    covered = c.m * c.n / (-(-c.m // tile.rows) * tile.rows * -(-c.n // tile.columns) * tile.columns)
    return tile_rows * tile_columns / (tile_rows + tile_columns) * covered


def is_tall(c: Contraction, machine: Machine) -> bool:
    """Return whether there are so many rows that loading B is cheap and A does not stay in L2 between blocks of B."""
    return c.m >= TALL and BYTES * c.m * min(c.k, DEEP) > machine.l2_bytes // 4


def flow(c: Contraction, config: Config, machine: Machine) -> float:
    """Return the share of time spent in FMAs, given L2 traffic: A for each block of n, C for each block of k.

    Low et al., "Analytical modeling is enough for high-performance BLIS" (2016), with A and B exchanged.
    """
    if c.m < TALL:
        return 1.0
    n = cut_columns(c, config)[0]
    k = cut(c.k, int(config["tile_k"]), 1)[0]
    a = BYTES / n.cache if is_tall(c, machine) else 0.0
    stays = BYTES * c.m * n.cache <= machine.l2_bytes // 4
    bytes_an_fma = a if stays else a + 2 * BYTES / k.cache
    return 1 / (1 + bytes_an_fma * 2 * machine.lanes / BEYOND_L2_BYTES_A_CYCLE)


def fill_caches(
    c: Contraction, values: dict[str, tuple[Value, ...]], tile: RegisterTile, machine: Machine
) -> dict[str, Value]:
    """Return the cache tiles for a register tile: the largest that fit and leave few leftovers over."""
    # B that a single strip of rows reads once is streamed panel by panel: n and k need no cache tiles
    streamed = c.m <= tile.rows and BYTES * c.k * tile.columns <= machine.l2_bytes
    tall = is_tall(c, machine)
    shares = SHARES[c.constant_b, tall]
    strip = max(tile.rows, LINE) if c.transposed_a else tile.rows  # transposed A: a cache line holds LINE rows of one k
    most_k = c.k if streamed else int(machine.l1_bytes * shares.strip) // BYTES // strip
    block = int(machine.l2_bytes * shares.block)
    if is_mostly_copied(c, machine) and block // 2 >= BYTES * RUN_OF_COPY * LEAST_PANELS * tile.columns:
        most_k, block = max(most_k, RUN_OF_COPY), block // 2
    tile_k = largest(values["tile_k"], c.k, 1, most_k)
    main_k = cut(c.k, tile_k, 1)[0]
    most_n = c.n if streamed else block // BYTES // main_k.cache
    tile_n = largest(values["tile_n"], c.n, tile.columns, most_n)
    pack_b = packing(c, machine)
    panels = tile.vectors if pack_b == "panels" else 0
    ends: dict[str, Value] = {"ends": ends_of(c, panels)} if "ends" in values else {}
    widths: dict[str, Value] = {"register_n": tile.vectors, "vector_width": tile.width}
    main_n, main_m = cut_columns(c, {"tile_n": tile_n, **widths, **ends})[0], cut(c.m, 0, tile.rows)[0]
    config: dict[str, Value] = {
        "tile_m": 0,
        "tile_n": tile_n,
        "tile_k": tile_k,
        "order": nest_order(main_n, main_k),
        "register_order": "mn" if main_n.register < main_n.cache and main_m.register < main_m.cache else "nm",
        "register_m": tile.rows,
        **widths,
        "unroll_k": max((u for u in values["unroll_k"] if LEAST_STEPS * int(u) <= main_k.cache), key=int, default=1),
        "pack_b": pack_b,
    }
    fetches = may_fetch(c, {**config, **ends}) and (c.constant_b or not tall)
    return {**config, "prefetch": fetches, **ends}


def is_mostly_copied(c: Contraction, machine: Machine) -> bool:
    """Return whether copying a transposed B from beyond L2 into panels takes longer than multiplying the rows by it."""
    is_copied = c.transposed_b and not c.constant_b and not c.precision
    return is_copied and c.m <= FEW_COPIED_ROWS and BYTES * c.k * c.n > machine.l2_bytes


def blocks_of_tiles(c: Contraction, config: Config, space: Space, machine: Machine) -> Config:
    """Return the columns of B that stay in L2 while all rows of A pass, and the loop order; for a group its columns.

    A group that needs whole rows, such as a softmax after the product, has no blocks of columns.
    """
    values = {knob.name: knob.values for knob in space.knobs}
    columns, most = columns_of(config), int(machine.l2_bytes * BLOCK_OF_TILES) // (BYTES * c.k)
    if "order" not in values:
        if "columns" not in values:
            return {}
        fused = int(config["columns"])
        return {"columns": largest(values["columns"], c.n, columns, min(most, fused))} if fused > most else {}
    tile_n = largest(values["tile_n"], c.n, columns, most)
    n, k = cut_columns(c, {**config, "tile_n": tile_n})[0], cut(c.k, 0, 1)[0]
    return {"tile_m": 0, "tile_n": tile_n, "order": nest_order(n, k)}


def packing(c: Contraction, machine: Machine) -> str:
    """Return how B is packed: beforehand for a weight; in every call if B is read often and does not stay in L1.

    Contiguous rows of B are read from L2 as fast as panels are, except where they evict each other from L1. Rows of a
    batched B may be slices of longer rows, which the op does not show. A transposed B is transposed once for all row
    tiles, which takes longer if squares do not divide its columns.
    """
    if c.constant_b:
        return "beforehand"
    if c.transposed_b and not c.stored_b and not c.precision:
        return "panels" if c.m >= (LEAST_TRANSPOSED_ROWS if c.k % SQUARE == 0 else LEAST_ROWS_APART) else "none"
    displaced = c.batched or c.transposed_b or c.n * BYTES % ALIASED_BYTES == 0
    often = c.m >= (LEAST_PACKED_ROWS if displaced else MANY_ROWS)
    return "panels" if often and not c.stored_b and c.k * c.n * BYTES > machine.l1_bytes // 2 else "none"


def largest(values: tuple[Value, ...], size: int, register: int, most: int) -> int:
    """Return the largest cache tile of at most `most` elements; 0 (no tile) if the whole dimension fits.

    A tile that divides the part covered by register tiles is preferred to a larger one that leaves a remainder.
    """
    whole = size // register * register
    if whole <= most:
        return 0
    fitting = [int(v) for v in values if 0 < int(v) <= most and int(v) >= register]
    even = [v for v in fitting if whole and whole % (v // register * register) == 0]
    if not fitting:
        return min((int(v) for v in values if int(v) > 0), default=0)
    return max(even) if even and max(even) * 2 >= max(fitting) else max(fitting)
