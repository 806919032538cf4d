"""Shape of a fusion group: sizes of its rows and columns, and its contractions as they are inside the fused loops."""

from dataclasses import dataclass, replace

from autotune.core.ops.op import Contraction, rows_of
from autotune.core.space import Config, Value
from autotune.core.task import Task
from schedules.blocking import DIMS, cut, nest_order
from schedules.matmul_space import BYTES, cut_columns
from schedules.shares import is_shared, pieces

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
    """Iteration space of a group's loops.

    Attributes:
        sizes: Trip counts of the loops that can be tiled: rows, outermost first, then columns if they can be tiled.
        rows: Number of loops in `sizes` that are rows.
        contractions: Contractions in program order, each whole.
        width: Elements of a row.
        written: Bytes per element of the root's result.
        lengths: Trip counts of the vectorized loops, of all ops of the group.
        causal: Whether a causal mask hides columns from rows; the last contraction sums over them.
        period: Rows after which that mask repeats, so that no block of rows may straddle them; 0 if it does not repeat.
        keys: Columns that an online softmax may process in blocks; 0 if there are none.
        along: Dimension of each contraction that `keys` counts; empty if it has none of them.
    """

    sizes: tuple[int, ...]
    rows: int
    contractions: tuple[Contraction, ...]
    width: int = 1
    written: int = BYTES
    lengths: tuple[int, ...] = ()
    causal: bool = False
    period: int = 0
    keys: int = 0
    along: tuple[str, ...] = ()

    @property
    def columns(self) -> int:
        """Columns that can be tiled; 0 if rows must stay whole."""
        return self.sizes[-1] if len(self.sizes) > self.rows else 0

    @property
    def most_rows(self) -> int:
        """Trip count of the innermost loop over rows."""
        return self.sizes[self.rows - 1]


def shape_of(task: Task) -> Shape:
    """Return the iteration space of a group: the root's rows, and its columns if only contractions reduce them."""
    root = task.ops[0]
    parallel = [s for s, i in zip(root.nest.sizes, root.nest.iterators, strict=True) if i == "parallel"]
    elementwise = len(parallel) == len(root.nest.sizes)
    rows = rows_of(root.nest.iterators, contracts=root.contraction is not None)
    cuttable = elementwise and all(m.contraction or not m.nest.reduced for m in task.ops) and rows == 1
    sizes = tuple(parallel[: rows + 1]) if cuttable else tuple(parallel[:rows])
    contractions = [m for m in reversed(task.ops) if m.contraction]
    return Shape(
        sizes,
        rows,
        task.contractions,
        width=root.nest.sizes[-1],
        written=max((output.element_bytes for output in root.outputs), default=BYTES),
        lengths=tuple(member.contraction.n if member.contraction else member.nest.sizes[-1] for member in task.ops),
        causal=any(m.masked_loop is not None for m in task.ops),
        period=max(m.mask_period for m in task.ops),
        keys=max((m.nest.sizes[m.online_loop] for m in task.ops if m.online_loop is not None), default=0),
        along=tuple("" if m.online_loop is None else DIMS[m.online_loop - rows + 1] for m in contractions),
    )


def suffix(shape: Shape, index: int) -> str:
    """Return the suffix of a contraction's knob names: empty if it is the only contraction."""
    return f"_{index + 1}" if len(shape.contractions) > 1 else ""


def contraction_config(shape: Shape, config: Config, index: int) -> dict[str, Value]:
    """Return one contraction's config in terms of `schedules.matmul`, for its tile inside the fused loops."""
    end = suffix(shape, index)
    inner_config: dict[str, Value] = {name: config[name + end] for name in inherited(shape.contractions[index])}
    if "ends" in config:
        inner_config["ends"] = config["ends"]
    c = tile_of(shape, config, index)
    main_n = cut_columns(c, inner_config)[0]
    main_k = cut(c.k, int(inner_config["tile_k"]), 1)[0]
    return {**inner_config, "tile_m": 0, "order": nest_order(main_n, main_k)}


def tile_of(shape: Shape, config: Config, index: int) -> Contraction:
    """Return a contraction of the size it has inside the fused loops."""
    c = replace(shape.contractions[index], batch=1, batched=False)
    if not config["fuse"]:
        return c
    c = replace(c, m=int(config["rows"]), n=block_columns(config) or c.n)
    columns, along = online_columns(config), shape.along[index]
    if not columns or not along:
        return c
    return replace(c, n=columns) if along == "n" else replace(c, k=columns)


def block_columns(config: Config) -> int:
    """Return the columns per block; 0 for all of them, also where they cannot be tiled."""
    return int(config.get("columns", 0))


def online_columns(config: Config) -> int:
    """Return the columns per block of an online softmax; 0 for whole rows."""
    return int(config.get("online", 0))


def inherited(c: Contraction) -> tuple[str, ...]:
    """Return the matmul knobs that a contraction of a group has; only a constant B is prefetched."""
    return (*INHERITED, "prefetch") if c.constant_b else INHERITED


def piece_of_group(shape: Shape, config: Config) -> Shape:
    """Return the shape of the piece that one thread computes; the shape itself if nothing is split among threads."""
    if not is_shared(config):
        return shape
    sizes, columns = list(shape.sizes), pieces(config, "n")
    sizes[0] //= pieces(config, "b")
    sizes[shape.rows - 1] //= pieces(config, "m")
    if not shape.columns:
        return replace(shape, sizes=tuple(sizes))
    sizes[-1] //= columns
    return replace(
        shape, sizes=tuple(sizes), contractions=tuple(replace(c, n=c.n // columns) for c in shape.contractions)
    )
