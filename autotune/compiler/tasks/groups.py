"""Fusion groups: operations that one loop over rows can compute together, so that intermediates stay in the caches.

A group has a root, whose rows are tiled, and producers that are fused into it: each is used only by operations of the
group, row by row. This rule alone finds softmax, layer norm, a contraction with its epilogue, and attention.
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

BYTES = "i8"  # element type of the factors of integer products
Read = dict[ir.Operation, Op | None]  # operations of a function as data


@dataclass
class Group:
    """Operations that are scheduled together.

    Attributes:
        ops: Operations of the group: the root first, consumers before producers.
        trips: Number of times one call of the function executes the group.
        read: Every operation of the function as data; `None` if it has no indexing maps.
        found_by: Position of a consumer of each operation, and operand number there; (0, 0) for the root.
    """

    ops: list[ir.Operation]
    trips: int
    read: Read
    found_by: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])

    @property
    def in_order(self) -> list[ir.Operation]:
        """Operations in program order."""

        def compare(mine: ir.Operation, other: ir.Operation) -> int:
            return -1 if mine.is_before_in_block(other) else 1

        return sorted(self.ops, key=cmp_to_key(compare))

    @property
    def root(self) -> Op | None:
        """Root as data; `None` if nothing can be fused with it."""
        return self.joining(self.ops[0])

    def joining(self, op: ir.Operation) -> Op | None:
        """Return an operation of the function as data; `None` if it cannot be fused with others."""
        read = self.read[op]
        return read if read is not None and can_join(op, read) else None

    def alone(self) -> list["Group"]:
        """Return each operation as a group of its own."""
        return [Group([op], self.trips, self.read) for op in self.in_order]


def can_join(op: ir.Operation, read: Op) -> bool:
    """Return whether an operation may be fused: one result in loop order, vectorizable or a sliding window, no call.

    Operations that gather or only move elements may not: once the loop around a copy is canonicalized, the operation
    disappears, and the handle of the script becomes invalid.
    """
    if read.extracts or read.results != 1 or KERNEL in op.attributes or not (read.lanes or read.vectorizes):
        return False
    written = read.operands[-1].loops
    return not moves_alone(op) and written == list(range(len(written)))


def moves_alone(op: ir.Operation) -> bool:
    """Return whether an operation only moves elements: its body only yields."""
    return len(op.regions[0].blocks[0].operations) == 1 and op.name != "linalg.fill"


def rows_in(op: Op) -> int:
    """Return the number of leading loops over rows."""
    return rows_of(op.nest.iterators, contracts(op) or op.lanes is not None)


def contracts(op: Op) -> bool:
    """Return whether an operation is a matrix product without sliding windows."""
    one_sum = op.nest.iterators.count("reduction") == 1 and len(op.operands[-1].indices) > 1
    return one_sum and op.lanes is None and is_matrix_product(op)


def is_elementwise(op: Op) -> bool:
    """Return whether every loop is parallel."""
    return "reduction" not in op.nest.iterators


def find_groups(ops: Sequence[tuple[ir.OpView, int]], roles: Sequence[str] = ()) -> list[Group]:
    """Partition structured operations into fusion groups, in order of their roots.

    Args:
        ops: Tunable operations in program order, with their trip counts.
        roles: Role of each argument of the function that contains them; without roles, no operand is a weight.
    """
    candidates = {op.operation for op, _ in ops}
    read = {op: read_op(op, roles) for op in candidates}
    grouped: set[ir.Operation] = set()
    groups = []
    for op, trips in reversed(ops):
        if op.operation not in grouped:
            group = Group([op.operation], trips, read)
            grow(group, candidates - grouped)
            grouped.update(group.ops)
            groups.append(group)
    return groups[::-1]


def grow(group: Group, candidates: set[ir.Operation]) -> None:
    """Fuse producers into a group until none fits."""
    root = group.root
    if root is None or rows_in(root) < 1 or sums_over_planes(root):
        return
    while (candidate := next_member(group, root, candidates)) is not None:
        op, position = candidate
        group.ops.append(op)
        group.found_by.append(position)


def sums_over_planes(op: Op) -> bool:
    """Return whether an operation reduces more than the columns of its rows, such as global pooling."""
    return not (contracts(op) or op.lanes) and len(op.nest.iterators) > rows_in(op) + 1


def next_member(group: Group, root: Op, candidates: set[ir.Operation]) -> tuple[ir.Operation, tuple[int, int]] | None:
    """Return the next producer to fuse, with the position of its consumer and operand; `None` if none fits."""
    for position, reader in enumerate(group.ops):
        for number, value in enumerate(list(reader.operands)[:-1]):
            op = maker(value)
            if op is None or op not in candidates or op in group.ops or op.block != reader.block:
                continue
            if fits(group, root, op):
                return op, (position, number)
    return None


def fits(group: Group, root: Op, op: ir.Operation) -> bool:
    """Return whether a producer can be computed in tiles of rows together with all its users."""

    def read_there(use: ir.OpOperand) -> bool:
        reader, number = use.owner.operation, use.operand_number
        if reader not in group.ops:
            return False
        is_written = number == len(reader.operands) - 1
        return is_written or next(objections(group, root, op, reader, number), None) is None

    return all(map(read_there, op.results[0].uses))


def objections(group: Group, root: Op, op: ir.Operation, reader: ir.Operation, number: int) -> Iterator[str]:
    """Yield reasons why a producer cannot be computed in tiles of rows together with a consumer; none if it can.

    Args:
        group: Group of the consumer.
        root: Root of that group.
        op: Producer.
        reader: Consumer.
        number: Operand number of the producer in the consumer.
    """
    producer, consumer = group.joining(op), group.joining(reader)
    if producer is None or consumer is None:
        yield "one of them moves elements about, gathers, or has no vectors"
        return
    rows = list(range(rows_in(root)))
    written = producer.operands[-1].loops
    if consumer.operands[number].loops[: len(rows)] != rows or written[: len(rows)] != rows:
        yield "rows of one are no rows of the other"
    if len(written) > len(rows) + 1:
        yield "it gives more than a row to each row"
    fused_ops = [group.joining(member) for member in group.ops]
    if producer.lanes or any(other is not None and other.lanes for other in fused_ops):
        if consumer.lanes or rows_in(producer) != len(rows) or not all(map(follows_windows, (producer, *fused_ops))):
            yield "sliding windows fuse only with element-wise ops of the same rows"
        return
    batched = len(rows) > 1
    if contracts(consumer) and not (batched and number == 0):
        yield "a product reads it again and again, so it would be computed as often"
    if contracts(consumer) and consumer.operands[number].dtype == BYTES:
        yield "a product of bytes reads them from memory, as words"
    if not contracts(producer):
        if len(producer.nest.iterators) > len(rows) + 1:
            yield "it sums over more than a row"
        return
    products = sum(other is not None and contracts(other) for other in fused_ops)
    epilogue = all(other is not None and is_elementwise(other) for other in fused_ops)
    if rows_in(producer) != len(rows) or not ((batched and products <= 1) or (epilogue and products == 0)):
        yield "a product goes with what is done to each of its elements alone"


def follows_windows(op: Op | None) -> bool:
    """Return whether an operation may be fused with sliding windows: it is one itself, or element-wise."""
    return op is not None and (op.lanes is not None or is_elementwise(op))
