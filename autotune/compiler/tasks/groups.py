"""Groups: ops that one loop over rows can compute together, so that what flows between them stays in the caches.

A group has a root, whose rows are cut into blocks, and members that feed it: each is read by ops of the group alone,
row by row. Softmax, layer norm, a contraction with what is added to it, and attention are found by this one rule.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from mlir import ir
from mlir.dialects import linalg

from autotune.compiler.ir.nests import dimensions, indexing_maps
from autotune.compiler.ir.values import maker
from autotune.compiler.tasks.gathers import gathered
from autotune.compiler.tasks.vectors import lanes_of, vectorizes
from autotune.core.ops.loop_nest import rows_of
from autotune.core.scripts.marks import KERNEL


@dataclass
class Group:
    """Ops that are scheduled together.

    Attributes:
        ops: Root first, every op before those that it reads.
        trips: Number of times one call of the function executes the group.
        found_by: Position of an op that reads each op, and operand number there; (0, 0) for the root.
    """

    ops: list[ir.Operation]
    trips: int
    found_by: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])

    @property
    def in_order(self) -> list[ir.Operation]:
        """The ops in program order."""
        members = set(self.ops)
        return [op.operation for op in self.ops[0].block.operations if op.operation in members]

    def alone(self) -> list["Group"]:
        """Every op as a group of its own."""
        return [Group([op], self.trips) for op in self.in_order]


@dataclass(frozen=True)
class GroupShape:
    """What grouping wants to know of an op.

    Attributes:
        maps: Indexing map of every operand.
        iterators: Kind of every loop.
        contraction: Whether the op is a matmul of some kind.
        windows: Whether the op reads windows, as a convolution does.
    """

    maps: list[ir.AffineMap]
    iterators: list[str]
    contraction: bool
    windows: bool

    @property
    def rows(self) -> int:
        """Leading loops that are rows."""
        return rows_of(self.iterators, self.contraction or self.windows)

    @property
    def elementwise(self) -> bool:
        """Every loop is parallel."""
        return "reduction" not in self.iterators


def shape_of(op: ir.Operation) -> GroupShape | None:
    """An op as grouping sees it; `None` if it moves elements about, has no vectors, is a call, or of unusual order."""
    maps = indexing_maps(op)
    if gathered(op) != {} or len(op.results) != 1 or KERNEL in op.attributes:
        return None
    windows = lanes_of(op) is not None
    if not (windows or vectorizes(op)) or moves_alone(op):
        return None
    written = dimensions(maps[-1])
    iterators = ["parallel" if d in written else "reduction" for d in range(maps[-1].n_dims)]
    if written != list(range(len(written))):
        return None
    contraction = iterators.count("reduction") == 1 and len(written) > 1 and not windows and multiplies(op)
    return GroupShape(maps, iterators, contraction, windows)


def multiplies(op: ir.Operation) -> bool:
    """Tell whether an op is a product of two matrices, perhaps of a batch of them; no matrix with a vector."""
    if not linalg.isa_contraction_op(op):
        return False
    loops = linalg.infer_contraction_dimensions(op)
    return bool(len(loops.batch) or (len(loops.m) and len(loops.n)))


def moves_alone(op: ir.Operation) -> bool:
    """Tell whether an op computes nothing: a loop around it simplified, it is gone, and a script's handle with it."""
    body = op.regions[0].blocks[0].operations
    return len(body) == 1 and op.name != "linalg.fill"


def find_groups(ops: Sequence[tuple[ir.OpView, int]]) -> list[Group]:
    """Sort structured ops into groups, in order of their roots; an op that fits nowhere is a group of its own.

    Args:
        ops: Tunable ops in program order, with their trip counts.
    """
    candidates = {op.operation for op, _ in ops}
    taken: set[ir.Operation] = set()
    groups = []
    for op, trips in reversed(ops):
        if op.operation not in taken:
            group = Group([op.operation], trips)
            grow(group, candidates - taken)
            taken.update(group.ops)
            groups.append(group)
    return groups[::-1]


def grow(group: Group, candidates: set[ir.Operation]) -> None:
    """Add producers to a group until none fits."""
    root = shape_of(group.ops[0])
    if root is None or root.rows < 1 or sums_over_planes(root):
        return
    while (found := next_member(group, root, candidates)) is not None:
        op, place = found
        group.ops.append(op)
        group.found_by.append(place)


def sums_over_planes(shape: GroupShape) -> bool:
    """Tell whether an op reduces more than the columns of its rows, as a pool over all places does."""
    return not (shape.contraction or shape.windows) and len(shape.iterators) > shape.rows + 1


def next_member(
    group: Group, root: GroupShape, candidates: set[ir.Operation]
) -> tuple[ir.Operation, tuple[int, int]] | None:
    """A producer that fits: read by the group alone, and row by row."""
    for position, reader in enumerate(group.ops):
        for number, value in enumerate(list(reader.operands)[:-1]):
            op = maker(value)
            if op is None or op not in candidates or op in group.ops or op.block != reader.block:
                continue
            if all(use.owner.operation in group.ops for use in op.results[0].uses) and fits(
                group, root, op, reader, number
            ):
                return op, (position, number)
    return None


def fits(group: Group, root: GroupShape, op: ir.Operation, reader: ir.Operation, number: int) -> bool:
    """Tell whether a producer can be computed block of rows by block of rows, where its reader is."""
    return next(objections(group, root, op, reader, number), None) is None


def objections(group: Group, root: GroupShape, op: ir.Operation, reader: ir.Operation, number: int) -> Iterator[str]:
    """Why a producer cannot be computed block of rows by block of rows, where its reader is; nothing if it can.

    Args:
        group: Group of the reader.
        root: Shape of its root.
        op: Producer.
        reader: Op that reads it.
        number: Operand number there.
    """
    mine, theirs = shape_of(op), shape_of(reader)
    if mine is None or theirs is None:
        yield "one of them moves elements about, gathers, or has no vectors"
        return
    rows = list(range(root.rows))
    if dimensions(theirs.maps[number])[: len(rows)] != rows or dimensions(mine.maps[-1])[: len(rows)] != rows:
        yield "rows of one are no rows of the other"
    if len(dimensions(mine.maps[-1])) > len(rows) + 1:
        yield "it gives more than a row to each row"
    others = [shape_of(member) for member in group.ops]
    if mine.windows or any(other is not None and other.windows for other in others):
        if theirs.windows or mine.rows != root.rows or not all(map(follows_windows, (mine, *others))):
            yield "sliding windows fuse only with element-wise ops of the same rows"
        return
    batched = len(rows) > 1
    if theirs.contraction and not (batched and number == 0):
        yield "a product reads it again and again, so it would be computed as often"
    if not mine.contraction:
        if len(mine.iterators) > len(rows) + 1:
            yield "it sums over more than a row"
        return
    contractions = sum(other is not None and other.contraction for other in others)
    epilogue = all(other is not None and other.elementwise for other in others)
    if mine.rows != root.rows or not ((batched and contractions <= 1) or (epilogue and contractions == 0)):
        yield "a product goes with what is done to each of its elements alone"


def follows_windows(shape: GroupShape | None) -> bool:
    """Tell whether an op may be in one group with such that read windows: it is one itself, or element-wise."""
    return shape is not None and (shape.windows or shape.elementwise)
