"""Mappings of a program to a mesh: number of stages, their placement, and the loops distributed over cores.

Contractions have a knob each; every other op follows the layout of its operands.
"""

from dataclasses import dataclass

from autotune.contrib.costs.mesh.grid import Grid
from autotune.contrib.costs.mesh.layout import Spread
from autotune.contrib.costs.mesh.placement import ORDERS
from autotune.contrib.costs.mesh.program import MeshOp, MeshProgram
from autotune.core.space import Config, Knob, Space, Value

NONE = "none"
STAGES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
BALANCES = ("bytes", "time")


@dataclass(frozen=True)
class Mapping:
    """Mapping of a program to a mesh.

    Attributes:
        stages: Number of pipeline stages, with a region each.
        stage_rows: Number of rows of regions.
        order: Order of the regions.
        balance: Quantity that is balanced between stages: ``bytes`` of weights and caches, or ``time``.
        spread: Whether ops without a knob distribute a loop along an axis where their operands are replicated.
        spreads: Distribution of each contraction, by its number.
    """

    stages: int
    stage_rows: int
    order: str
    balance: str
    spread: bool
    spreads: dict[int, Spread]


def read_mapping(program: MeshProgram, config: Config) -> Mapping:
    """Return the mapping of a config."""
    rows, columns = map(int, str(config["regions"]).split("x"))
    spreads = {number: read_spread(config[op.name]) for number, op in program.ops.items() if op.contracts}
    return Mapping(rows * columns, rows, str(config["order"]), str(config["balance"]), bool(config["spread"]), spreads)


def read_spread(value: Value) -> Spread:
    """Parse the loops that a knob distributes over rows and columns of cores, such as ``d2,d1``."""
    rows, columns = (None if name == NONE else int(name[1:]) for name in str(value).split(","))
    return Spread((rows, columns))


def space_of(program: MeshProgram, grid: Grid) -> Space:
    """Return the search space of a program on a grid; a mapping may need more memory than a core has."""
    knobs = [
        Knob("regions", tuple(f"{rows}x{columns}" for rows, columns in regions_for(program, grid))),
        Knob("order", ORDERS),
        Knob("balance", BALANCES),
        Knob("spread", (False, True)),
    ]
    for op in program.ops.values():
        if op.contracts:
            loops = [*(f"d{loop}" for loop, size in enumerate(op.facts.sizes) if size > 1), NONE]
            pairs = [f"{a},{b}" for a in loops for b in loops if a != b or a == NONE]
            knobs.append(Knob(op.name, tuple(pairs)))
    return Space(tuple(knobs))


def regions_for(program: MeshProgram, grid: Grid) -> list[tuple[int, int]]:
    """Return the partitions of a grid into rows and columns of regions, fewest regions first, then most square ones."""
    partitions = []
    for stages in STAGES:
        if stages <= min(len(program.units), grid.cores):
            rows = [count for count in range(1, stages + 1) if stages % count == 0]
            cuts = [(count, stages // count) for count in rows if fits_grid(grid, count, stages // count)]
            partitions += sorted(cuts, key=lambda cut: lopsided(grid, *cut))
    return partitions


def fits_grid(grid: Grid, rows: int, columns: int) -> bool:
    """Return whether a grid has at least one core for each region."""
    return rows <= grid.rows and columns <= grid.columns


def defaults_of(program: MeshProgram, grid: Grid) -> list[dict[str, Value]]:
    """Return the start configs, fewest stages first."""
    spreads: dict[str, Value] = {}
    behind: dict[int, int] = {}  # how many products with weights lie behind a value
    for number, op in program.ops.items():
        behind[number] = max((behind.get(access.source or 0, 0) for access in op.values), default=0)
        if op.contracts:
            rows, columns = best_loops(op)
            if op.stored_weights:
                if behind[number] % 2:  # what one gives over columns, the next sums over columns: nothing has to move
                    rows, columns = columns, rows
                behind[number] += 1
            spreads[op.name] = f"{rows},{columns}"
    return [
        {"regions": f"{rows}x{columns}", "order": ORDERS[0], "balance": BALANCES[0], "spread": spread, **spreads}
        for rows, columns in regions_for(program, grid)
        for spread in (True, False)
    ]


def lopsided(grid: Grid, rows: int, columns: int) -> float:
    """Return the aspect ratio of a region, longer side over shorter."""
    height, width = grid.rows // rows, grid.columns // columns
    return max(height, width) / min(height, width)


def best_loops(op: MeshOp) -> tuple[str, str]:
    """Return the default loops for rows and columns of cores.

    For an op with weights, two loops of the weights, which minimise the memory of a core, the reduction over rows; for
    any other, the loop that indexes all arrays (heads) over columns, and the longest of the others over rows.
    """
    sizes = op.facts.sizes
    arrays = [{loop for terms in access.terms for loop, _ in terms} for access in (*op.reads, op.result)]
    weights = {loop for access in op.stored_weights for terms in access.terms for loop, _ in terms}
    loops = [loop for loop, size in enumerate(sizes) if size > 1]
    if weights:
        loops.sort(key=lambda loop: (loop not in weights, -sizes[loop]))
        chosen = sorted(loops[:2], key=lambda loop: loop not in op.reduced)
    else:
        loops.sort(key=lambda loop: (not all(loop in each for each in arrays), -sizes[loop]))
        chosen = loops[:2][::-1]
    names = [*(f"d{loop}" for loop in chosen), NONE, NONE]
    return names[0], names[1]
