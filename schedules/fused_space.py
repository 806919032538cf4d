"""The knobs of a group of ops, and the laws between them."""

from dataclasses import dataclass, replace

from autotune.core.loop_nest import Contraction, rows_of
from autotune.core.machine import Machine
from autotune.core.space import Config, Constraint, Knob, Space, Value
from autotune.core.task import Task
from schedules.blocking import DIMS, cut, nest_order
from schedules.matmul_space import columns_of, constraints, matmul_space

ROWS = (1, 2, 4, 8, 16, 32, 64, 128)
MOST_ROWS = 256  # of a block, unless it is all of them
COLUMNS = (64, 128, 256, 512, 768, 1024)
VECTORS = (1, 2, 4, 8)
ONLINE = (64, 128, 256, 512)
INHERITED = (
    "tile_n",
    "tile_k",
    "register_order",
    "register_m",
    "register_n",
    "vector_width",
    "unroll_k",
    "pack_b",
)


@dataclass(frozen=True)
class Shape:
    """What the loops of a group run over.

    Attributes:
        sizes: Trip counts of the loops that can be tiled: rows, outermost first, then columns if they can be cut.
        rows: Number of loops in `sizes` that are rows.
        contractions: Contractions in program order, each whole.
        width: Elements of a row.
        causal: A causal mask hides columns from rows; the last contraction sums over them.
        keys: Columns that may come block by block; 0 if there are none.
        along: Name of the dimension that `keys` counts, for every contraction; empty if it has none of them.
    """

    sizes: tuple[int, ...]
    rows: int
    contractions: tuple[Contraction, ...]
    width: int = 1
    causal: bool = False
    keys: int = 0
    along: tuple[str, ...] = ()

    @property
    def columns(self) -> int:
        """Columns that can be cut into blocks; 0 where rows must stay whole."""
        return self.sizes[-1] if len(self.sizes) > self.rows else 0

    @property
    def most_rows(self) -> int:
        """Trip count of the innermost loop over rows."""
        return self.sizes[self.rows - 1]


def shape_of(task: Task) -> Shape:
    """The loops of a group: the root's rows, and its columns if nothing is summed along them but in a contraction."""
    root = task.members[0]
    parallel = [s for s, i in zip(root.nest.sizes, root.nest.iterators, strict=True) if i == "parallel"]
    elementwise = len(parallel) == len(root.nest.sizes)
    rows = rows_of(root.nest.iterators, contracts=root.contraction is not None)
    cuttable = elementwise and all(m.contraction or not m.nest.reduced for m in task.members) and rows == 1
    sizes = tuple(parallel[: rows + 1]) if cuttable else tuple(parallel[:rows])
    found = [m for m in reversed(task.members) if m.contraction]
    return Shape(
        sizes,
        rows,
        task.contractions,
        width=root.nest.sizes[-1],
        causal=any(m.masked_loop is not None for m in task.members),
        keys=max((m.nest.sizes[m.online_loop] for m in task.members if m.online_loop is not None), default=0),
        along=tuple("" if m.online_loop is None else DIMS[m.online_loop - rows + 1] for m in found),
    )


def suffix(shape: Shape, index: int) -> str:
    """What the knobs of a contraction end in: nothing if it is the only one."""
    return f"_{index + 1}" if len(shape.contractions) > 1 else ""


def contraction_config(shape: Shape, config: Config, index: int) -> dict[str, Value]:
    """One contraction's config, as `schedules.matmul` knows it, for the tile it is inside the fused loops."""
    end = suffix(shape, index)
    chosen: dict[str, Value] = {name: config[name + end] for name in inherited(shape.contractions[index])}
    c = tile_of(shape, config, index)
    main_n = cut(c.n, int(chosen["tile_n"]), columns_of(chosen), powers_of_two=True)[0]
    main_k = cut(c.k, int(chosen["tile_k"]), 1)[0]
    return {**chosen, "tile_m": 0, "order": nest_order(main_n, main_k)}


def tile_of(shape: Shape, config: Config, index: int) -> Contraction:
    """A contraction as it is inside the fused loops."""
    c = replace(shape.contractions[index], batch=1, batched=False)
    if not config["fuse"]:
        return c
    c = replace(c, m=int(config["rows"]), n=block_columns(config) or c.n)
    columns, along = online_columns(config), shape.along[index]
    if not columns or not along:
        return c
    return replace(c, n=columns) if along == "n" else replace(c, k=columns)


def block_columns(config: Config) -> int:
    """Columns of a block; 0 for all of them, which is so too where they cannot be cut."""
    return int(config.get("columns", 0))


def online_columns(config: Config) -> int:
    """Columns of a block of an online softmax; 0 for whole rows."""
    return int(config.get("online", 0))


def row_blocks(rows: int) -> tuple[int, ...]:
    """Rows of a block that divide all rows: powers of two, and those times what is odd in them.

    Example:
        >>> row_blocks(196)
        (1, 2, 4, 49, 98, 196)
    """
    odd = rows // (rows & -rows)
    found = {block for power in ROWS for block in (power, power * odd) if block <= MOST_ROWS or block == rows}
    return (*sorted(block for block in found if rows % block == 0 and block < rows), rows)


def fused_space(shape: Shape, machine: Machine) -> Space:
    """Knobs whose values make sense for these sizes, and the laws between them."""
    knobs = [
        Knob("fuse", (True, False)),
        Knob("rows", row_blocks(shape.most_rows)),
        Knob("vectors", VECTORS),
    ]
    if shape.causal:
        knobs.append(Knob("hidden", ("skipped", "computed")))
    if blocks := tuple(n for n in ONLINE if n < shape.keys and shape.keys % n == 0):
        knobs.append(Knob("online", (0, *blocks)))
    if not shape.contractions:
        knobs += [Knob("prefetch_rows", (False, True)), Knob("prefetch_written", (False, True))]
    if shape.columns:
        knobs.append(Knob("columns", (0, *(n for n in COLUMNS if n < shape.columns and shape.columns % n == 0))))
    for index, c in enumerate(shape.contractions):
        inner = matmul_space(replace(c, batch=1, batched=False), machine)
        values = {knob.name: knob.values for knob in inner.knobs}
        knobs += [Knob(name + suffix(shape, index), values[name]) for name in inherited(c)]
    return Space(tuple(knobs), laws(shape, machine))


def inherited(c: Contraction) -> tuple[str, ...]:
    """Knobs of a matmul that one of a group has; what it fetches ahead is a weight."""
    return (*INHERITED, "prefetch") if c.constant_b else INHERITED


def laws(shape: Shape, machine: Machine) -> tuple[Constraint, ...]:
    """The laws between knobs, each a sentence."""

    def in_blocks(config: Config) -> bool:
        return bool(config["fuse"]) and int(config["rows"]) < shape.most_rows

    def looped(config: Config) -> bool:
        more = shape.rows > 1 or 0 < block_columns(config) < shape.columns or int(config["rows"]) < shape.most_rows
        return more if config["fuse"] else True

    def idle(config: Config) -> bool:
        return bool(config["fuse"]) or (config["rows"] == shape.most_rows and not block_columns(config))

    def skips(config: Config) -> bool:
        if config.get("hidden") != "skipped":
            return True
        last = len(shape.contractions) - 1
        summed = cut(shape.contractions[last].k, int(config["tile_k" + suffix(shape, last)]), 1)
        whole = len(summed) == 1 or online_columns(config) > 0
        return in_blocks(config) and whole

    def online(config: Config) -> bool:
        return not online_columns(config) or in_blocks(config)

    def ahead(config: Config) -> bool:
        return not config.get("prefetch_rows") or in_blocks(config)

    def written(config: Config) -> bool:
        return not config.get("prefetch_written") or bool(config["prefetch_rows"])

    def matmuls(config: Config) -> bool:
        return all(lawful(shape, config, i, machine) for i in range(len(shape.contractions)))

    def aligned(config: Config) -> bool:
        columns = block_columns(config)
        chosen = [contraction_config(shape, config, i) for i in range(len(shape.contractions))]
        return not columns or all(columns % columns_of(c) == 0 for c in chosen)

    return (
        Constraint("fusing needs a loop: blocks of fewer rows or columns than there are", looped),
        Constraint("rows is all of them and columns 0 where nothing is fused", idle),
        Constraint("columns is a multiple of the register tile of the contraction", aligned),
        Constraint("hidden is skipped only in blocks of rows, where tiles of the sum over columns divide it", skips),
        Constraint("a softmax goes online only in blocks of rows that are fused", online),
        Constraint("the next rows are prefetched only where blocks of them are fused", ahead),
        Constraint("what rows write is prefetched only where the next rows are", written),
        Constraint("every contraction obeys the laws of schedule 'matmul' for its tile", matmuls),
    )


def lawful(shape: Shape, config: Config, index: int, machine: Machine) -> bool:
    """Tell whether one contraction obeys the laws of schedule 'matmul' for its tile."""
    chosen = contraction_config(shape, config, index)
    return all(law.holds(chosen) for law in constraints(tile_of(shape, config, index), machine))
