"""The config a matmul gets without any search: registers and caches filled by a small analytic model.

After Low et al., Analytical Modeling Is Enough for High-Performance BLIS (ACM TOMS 2016): the register tile hides
the latency of FMA, needs few loads, and no more of B than L2 delivers; and strips of A and blocks of B fill
shares of L1 and L2 that differ with who makes the panels. Each strip of A is read from L1 for every panel of the block;
panels come from L2 in reading order.
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
LEAST_STEPS = 3  # of an unrolled loop over k: of fewer no loop is left, and C must be filled with zeros before
ENOUGH_FMAS_PER_LOAD = 5 / 3  # two loads a cycle feed two FMAs, and caches are filled besides
COST_OF_GATHERED = 4  # times that of others, of columns of a transposed B that no panel holds
COST_OF_LEFT_ROWS = 4  # times that of others, where they read B in place for want of a copy
L2_BYTES_A_CYCLE = 24  # that a core sustains: half of what its makers promise
BEYOND_L2_BYTES_A_CYCLE = 16  # that a core sustains from what lies behind its L2
DEEP = 256  # steps of k that make up for reading and writing C
TALL = 640  # rows that share a copy of B which then takes a twentieth of the time: 2 x 16 FMAs a cycle, 4 bytes of B
LEAST_TRANSPOSED_ROWS, LEAST_ROWS_APART = 5, 16  # that share panels of a transposed B: of whole squares, and of any
SQUARE = 4  # side of the least square that is transposed in registers at some speed
LEAST_PACKED_ROWS, MANY_ROWS = 32, 512  # that share a copy of B: of rows that displace each other, and of any others
ALIASED_BYTES = 4096  # rows that are multiples of it apart compete for the same few lines of L1


@dataclass(frozen=True)
class Shares:
    """What may be filled: of L1 by a strip of A, of L2 by a block of B."""

    strip: float
    block: float


STORED_SHARES = Shares(strip=3 / 8, block=1 / 8)  # few blocks of k; the next block of B and A are in L2 besides
COPIED_SHARES = Shares(strip=3 / 16, block=1 / 4)  # copies pass through L1, and are worth more panels at a time
# Of many rows, A passes through L2 for every block of B: the larger that is, the less often.
TALL_STORED_SHARES = Shares(strip=3 / 16, block=1 / 4)  # the next block of B is in L2 besides
TALL_COPIED_SHARES = Shares(strip=3 / 16, block=1 / 2)  # a copy is made once for so many rows: nothing is fetched ahead
BLOCK_OF_TILES = 5 / 8  # of L2, by B: k of words is whole, and a matrix unit waits for what comes from beyond

SHARES = {
    (True, False): STORED_SHARES,
    (False, False): COPIED_SHARES,
    (True, True): TALL_STORED_SHARES,
    (False, True): TALL_COPIED_SHARES,
}  # by whether B is stored in panels, and whether there are many rows


def default_config(c: Contraction, space: Space, machine: Machine, *, copied: bool = False) -> Config:
    """The best config by the model that obeys the space's constraints; for the piece of a thread, if that is another.

    Register tiles are scored together with the cache tiles the model gives for each: where A and C pass through L2, a
    tile that leaves k room for a few steps only is slow, however few loads it has.

    Args:
        c: Contraction.
        space: Knobs and constraints of its configs.
        machine: Host that the config is for.
        copied: B is in panels, whatever is right for this contraction alone: loops around it share them.
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
    """The config of a contraction whose threads compute what the model likes best of a piece; `None` where none obeys.

    Tiles are those of the piece, which are cut otherwise than those of the whole.
    """
    one = replace(machine, threads=1)
    alone = default_config(c, Space(space.knobs, constraints(c, one)), one)
    shared = default_pieces(c, alone, columns_of(alone), machine)
    piece = piece_of(c, shared, columns_of(alone))
    chosen = default_config(piece, Space(space.knobs, constraints(piece, one)), one)
    config = {**chosen, **shared}
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
    """Higher for register tiles with few loads per FMA, enough FMAs in flight, and little left over."""
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
    """Share of the columns of a transposed B that are in no panel: what panels leave over, or all where one is enough.

    Where panels are one vector wide, the last one's end is masked instead.
    """
    if ends_of(c, tile.vectors) == MASKED and end_knobs(c, machine):
        return 0.0
    panels = c.n // tile.columns
    return (c.n - panels * tile.columns if panels > 1 else c.n) / c.n


def score_of_tiles(c: Contraction, tile: RegisterTile) -> float:
    """Higher for register tiles of a matrix unit with few loads for their products, and little of them left over."""
    config: Config = {"register_m": tile.rows, "register_n": tile.vectors, "vector_width": tile.width}
    high, wide = tiles_of(c, config)
    covered = c.m * c.n / (-(-c.m // tile.rows) * tile.rows * -(-c.n // tile.columns) * tile.columns)
    return high * wide / (high + wide) * covered


def is_tall(c: Contraction, machine: Machine) -> bool:
    """Tell whether rows are many: bringing B costs little, and A does not stay in L2 between blocks of B."""
    return c.m >= TALL and BYTES * c.m * min(c.k, DEEP) > machine.l2_bytes // 4


def flow(c: Contraction, config: Config, machine: Machine) -> float:
    """Share of the time that FMAs take, of that and what passes through L2: A for a block of n, C for a block of k.

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
    """Cache tiles for a register tile: the largest that fit, few enough pieces left over."""
    # B that is used once, by a single strip of rows, is streamed: panel after panel, each whole
    streamed = c.m <= tile.rows and BYTES * c.k * tile.columns <= machine.l2_bytes
    tall = is_tall(c, machine)
    shares = SHARES[c.constant_b, tall]
    strip = max(tile.rows, LINE) if c.transposed_a else tile.rows  # whose elements of k lie in a cache line each
    most_k = c.k if streamed else int(machine.l1_bytes * shares.strip) // BYTES // strip
    tile_k = largest(values["tile_k"], c.k, 1, most_k)
    main_k = cut(c.k, tile_k, 1)[0]
    most_n = c.n if streamed else int(machine.l2_bytes * shares.block) // BYTES // main_k.cache
    tile_n = largest(values["tile_n"], c.n, tile.columns, most_n)
    pack_b = packing(c, machine)
    panels = tile.vectors if pack_b == "panels" else 0
    ends: dict[str, Value] = {"ends": ends_of(c, panels)} if "ends" in values else {}
    widths: dict[str, Value] = {"register_n": tile.vectors, "vector_width": tile.width}
    main_n, main_m = cut_columns(c, {"tile_n": tile_n, **widths, **ends})[0], cut(c.m, 0, tile.rows)[0]
    chosen: dict[str, Value] = {
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
    fetches = may_fetch(c, {**chosen, **ends}) and (c.constant_b or not tall)
    return {**chosen, "prefetch": fetches, **ends}


def blocks_of_tiles(c: Contraction, config: Config, space: Space, machine: Machine) -> Config:
    """Columns of B that stay in L2 while all rows of A pass, and the loops around them; for a group its columns.

    A group that needs whole rows, as a softmax behind the product does, has no blocks of columns.
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
    """B in panels beforehand if it is a weight; a copy in every call if it is read often and does not stay in L1.

    Rows of B that lie side by side are read from L2 as fast as panels are, but where they displace each other in L1.
    Those of a batch's products may be parts of longer rows, of which the op does not tell. A transposed B is
    transposed once for all tiles of rows, which takes longer where squares do not divide its columns.
    """
    if c.constant_b:
        return "beforehand"
    if c.transposed_b and not c.stored_b and not c.precision:
        return "panels" if c.m >= (LEAST_TRANSPOSED_ROWS if c.k % SQUARE == 0 else LEAST_ROWS_APART) else "none"
    displaced = c.batched or c.transposed_b or c.n * BYTES % ALIASED_BYTES == 0
    often = c.m >= (LEAST_PACKED_ROWS if displaced else MANY_ROWS)
    return "panels" if often and not c.stored_b and c.k * c.n * BYTES > machine.l1_bytes // 2 else "none"


def largest(values: tuple[Value, ...], size: int, register: int, most: int) -> int:
    """The largest cache tile of at most `most` elements; 0 (no tile) if the whole dimension fits.

    A tile that divides what register tiles cover is taken before a larger one that leaves a piece over.
    """
    whole = size // register * register
    if whole <= most:
        return 0
    fitting = [int(v) for v in values if 0 < int(v) <= most and int(v) >= register]
    even = [v for v in fitting if whole and whole % (v // register * register) == 0]
    if not fitting:
        return min((int(v) for v in values if int(v) > 0), default=0)
    return max(even) if even and max(even) * 2 >= max(fitting) else max(fitting)
