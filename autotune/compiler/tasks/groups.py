"""Groups: ops that one loop over rows can compute together, so that what flows between them stays in the caches.

A group has a root, whose rows are cut into blocks, and members that feed it: each is read by ops of the group alone,
row by row. Softmax, layer norm, a contraction with what is added to it, and attention are found by this one rule.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cmp_to_key

from mlir import ir

from autotune.compiler.ir.values import maker
from autotune.compiler.tasks.read_op import read_op
from autotune.core.ops.op import Op, rows_of
from autotune.core.ops.traversal import is_matrix_product
from autotune.core.scripts.marks import KERNEL

BYTES = "i8"  # what products of whole numbers multiply
Read = dict[ir.Operation, Op | None]  # ops of a function as they were read


@dataclass
class Group:
    """Ops that are scheduled together.

    Attributes:
        ops: Root first, every op before those that it reads.
        trips: Number of times one call of the function executes the group.
        read: Every op of the function, read once; `None` of one without loops of its own.
        found_by: Position of an op that reads each op, and operand number there; (0, 0) for the root.
    """

    ops: list[ir.Operation]
    trips: int
    read: Read
    found_by: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])

    @property
    def in_order(self) -> list[ir.Operation]:
        """The ops in program order."""

        def compare(mine: ir.Operation, other: ir.Operation) -> int:
            return -1 if mine.is_before_in_block(other) else 1

        return sorted(self.ops, key=cmp_to_key(compare))

    @property
    def root(self) -> Op | None:
        """The root; `None` if nothing can be grouped with it."""
        return self.joining(self.ops[0])

    def joining(self, op: ir.Operation) -> Op | None:
        """An op of the function; `None` if it can be in no group of several."""
        read = self.read[op]
        return read if read is not None and can_join(op, read) else None

    def alone(self) -> list["Group"]:
        """Every op as a group of its own."""
        return [Group([op], self.trips, self.read) for op in self.in_order]


def can_join(op: ir.Operation, read: Op) -> bool:
    """Return whether an op may be in a group: no call, one result in order of its loops, and vectors or windows.

    One that moves elements about or gathers may not, nor one that computes nothing: a loop around it simplified, it is
    gone, and a script's handle with it.
    """
    if read.extracts or read.results != 1 or KERNEL in op.attributes or not (read.lanes or read.vectorizes):
        return False
    written = read.operands[-1].loops
    return not moves_alone(op) and written == list(range(len(written)))


def moves_alone(op: ir.Operation) -> bool:
    """Return whether an op computes nothing: its body only yields."""
    return len(op.regions[0].blocks[0].operations) == 1 and op.name != "linalg.fill"


def rows_in(op: Op) -> int:
    """Leading loops of an op that are rows."""
    return rows_of(op.nest.iterators, contracts(op) or op.lanes is not None)


def contracts(op: Op) -> bool:
    """Return whether an op is a matmul of some kind, read without windows."""
    one_sum = op.nest.iterators.count("reduction") == 1 and len(op.operands[-1].indices) > 1
    return one_sum and op.lanes is None and is_matrix_product(op)


def is_elementwise(op: Op) -> bool:
    """Return whether every loop is parallel."""
    return "reduction" not in op.nest.iterators


def find_groups(ops: Sequence[tuple[ir.OpView, int]], roles: Sequence[str] = ()) -> list[Group]:
    """Sort structured ops into groups, in order of their roots; an op that fits nowhere is a group of its own.

    Args:
        ops: Tunable ops in program order, with their trip counts.
        roles: Role of each argument of the function that they are in; without them, nothing is a weight.
    """
    candidates = {op.operation for op, _ in ops}
    read = {op: read_op(op, roles) for op in candidates}
    taken: set[ir.Operation] = set()
    groups = []
    for op, trips in reversed(ops):
        if op.operation not in taken:
            group = Group([op.operation], trips, read)
            grow(group, candidates - taken)
            taken.update(group.ops)
            groups.append(group)
    return groups[::-1]


def grow(group: Group, candidates: set[ir.Operation]) -> None:
    """Add producers to a group until none fits."""
    root = group.root
    if root is None or rows_in(root) < 1 or sums_over_planes(root):
        return
    while (found := next_member(group, root, candidates)) is not None:
        op, position = found
        group.ops.append(op)
        group.found_by.append(position)


def sums_over_planes(op: Op) -> bool:
    """Return whether an op reduces more than the columns of its rows, as a pool over all pixels does."""
    return not (contracts(op) or op.lanes) and len(op.nest.iterators) > rows_in(op) + 1


def next_member(group: Group, root: Op, candidates: set[ir.Operation]) -> tuple[ir.Operation, tuple[int, int]] | None:
    """A producer that fits: read by the group alone, and row by row."""
    for position, reader in enumerate(group.ops):
        for number, value in enumerate(list(reader.operands)[:-1]):
            op = maker(value)
            if op is None or op not in candidates or op in group.ops or op.block != reader.block:
                continue
            if fits(group, root, op):
                return op, (position, number)
    return None


def fits(group: Group, root: Op, op: ir.Operation) -> bool:
    """Return whether a producer can be computed block of rows by block of rows, where all that read it are."""

    def read_there(use: ir.OpOperand) -> bool:
        reader, number = use.owner.operation, use.operand_number
        if reader not in group.ops:
            return False
        is_written = number == len(reader.operands) - 1
        return is_written or next(objections(group, root, op, reader, number), None) is None

    return all(map(read_there, op.results[0].uses))


def objections(group: Group, root: Op, op: ir.Operation, reader: ir.Operation, number: int) -> Iterator[str]:
    """Why a producer cannot be computed block of rows by block of rows, where its reader is; nothing if it can.

    Args:
        group: Group of the reader.
        root: Root of that group.
        op: Producer.
        reader: Op that reads it.
        number: Operand number there.
    """
    mine, theirs = group.joining(op), group.joining(reader)
    if mine is None or theirs is None:
        yield "one of them moves elements about, gathers, or has no vectors"
        return
    rows = list(range(rows_in(root)))
    written = mine.operands[-1].loops
    if theirs.operands[number].loops[: len(rows)] != rows or written[: len(rows)] != rows:
        yield "rows of one are no rows of the other"
    if len(written) > len(rows) + 1:
        yield "it gives more than a row to each row"
    others = [group.joining(member) for member in group.ops]
    if mine.lanes or any(other is not None and other.lanes for other in others):
        if theirs.lanes or rows_in(mine) != len(rows) or not all(map(follows_windows, (mine, *others))):
            yield "sliding windows fuse only with element-wise ops of the same rows"
        return
    batched = len(rows) > 1
    if contracts(theirs) and not (batched and number == 0):
        yield "a product reads it again and again, so it would be computed as often"
    if contracts(theirs) and theirs.operands[number].dtype == BYTES:
        yield "a product of bytes reads them from memory, as words"
    if not contracts(mine):
        if len(mine.nest.iterators) > len(rows) + 1:
            yield "it sums over more than a row"
        return
    products = sum(other is not None and contracts(other) for other in others)
    epilogue = all(other is not None and is_elementwise(other) for other in others)
    if rows_in(mine) != len(rows) or not ((batched and products <= 1) or (epilogue and products == 0)):
        yield "a product goes with what is done to each of its elements alone"


def follows_windows(op: Op | None) -> bool:
    """Return whether an op may be in one group with such that read windows: it is one itself, or element-wise."""
    return op is not None and (op.lanes is not None or is_elementwise(op))
