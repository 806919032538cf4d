"""Copy destination tensors that are still read after an operation overwrites them.

    y = f(..);  z = insert v into y;  write y to a   ->   c = a copy of y;  z = insert v into c

One-shot bufferization would insert copies, but does not see every conflict: once y is computed in the buffer a that it
is written to (`eliminate-empty-tensors`), z may reuse that buffer as well.

The same holds for an operation that updates a loop-carried tensor and also reads it. A schedule that tiles it reads
tiles of the old tensor beside those of the new one. Upstream cannot prove that they are disjoint: it copies, which it
may not in a loop.
"""

from collections.abc import Iterator

from mlir import ir
from mlir.dialects import bufferization

from autotune.compiler.ir.module import every_op
from autotune.compiler.ir.values import maker
from autotune.compiler.normalise.shapes.dimensions import VIEWS

WRITE = "bufferization.materialize_in_destination"
STARTS = {"tensor.insert_slice": 1, "tensor.insert": 1}  # position of the destination operand
LOOPS = ("scf.for", "scf.while")
UNSHARED = ("tensor.empty", "linalg.fill")  # another rewrite separates those that several operations share


def copy_shared_starts(module: ir.Module) -> bool:
    """Let operations write to copies of destinations that are read later, in place; return whether there were any."""
    changes = [(op.operation, number) for op in every_op(module) for number in starts(op.operation)]
    shared = [
        (op, number)
        for op, number in changes
        if reads_what_is_carried(op, number) or is_read_again(op, op.operands[number])
    ]
    for op, number in shared:
        with ir.InsertionPoint(op), op.location:
            start = op.operands[number]
            copy = None if is_unread(op, number) else start
            op.operands[number] = bufferization.alloc_tensor(start.type, [], copy=copy)
    return bool(shared)


def starts(op: ir.Operation) -> Iterator[int]:
    """Yield the positions of destination operands that another operation computes or a loop carries."""
    numbers = [STARTS[op.name]] if op.name in STARTS else []
    if op.name.startswith("linalg.") and op.regions and op.results:
        numbers = list(range(len(op.operands) - len(op.results), len(op.operands)))
    for number in numbers:
        producer = maker(op.operands[number])
        if (producer is not None and producer.name not in UNSHARED) or reads_what_is_carried(op, number):
            yield number


def reads_what_is_carried(op: ir.Operation, number: int) -> bool:
    """Return whether a structured operation updates a loop-carried tensor and also reads it as another operand."""
    destination = op.operands[number]
    block = destination.owner if isinstance(destination, ir.BlockArgument) else None
    if block is None or block.owner.operation.name not in LOOPS or not op.name.startswith("linalg."):
        return False
    return any(value == destination for position, value in enumerate(op.operands) if position != number)


def is_unread(op: ir.Operation, number: int) -> bool:
    """Return whether an operation overwrites an operand without reading it."""
    return bool(op.regions) and not list(op.regions[0].blocks[0].arguments[number].uses)


def is_read_again(op: ir.Operation, value: ir.Value) -> bool:
    """Return whether the destination of an operation is used after it, or written to a memref that the caller reads."""
    users = [use.owner.operation for use in value.uses if use.owner.operation != op]
    if any(other.name == WRITE or comes_behind(other, op) for other in users):
        return True
    producer = maker(value)
    return producer is not None and producer.name in VIEWS and is_read_again(producer, producer.operands[0])


def comes_behind(other: ir.Operation, op: ir.Operation) -> bool:
    """Return whether `other`, or its ancestor in the block of `op`, comes after `op`.

    Without an ancestor in that block, it is outside of the loop or branch that contains `op` and may execute after it.
    """
    while other.block != op.block:
        other = other.parent.operation
        if other.parent is None:  # the module, which has no parent block
            return True
    return bool(op.is_before_in_block(other))
