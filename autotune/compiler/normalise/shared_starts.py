"""Tensors that an op changes and something else still reads: the op is given a copy.

    y = f(..);  z = insert v into y;  write y to a   ->   c = a copy of y;  z = insert v into c

Bufferization would copy, too, but not know all that it must keep: once y is computed in the buffer a, where it is to be
written (`eliminate-empty-tensors`), z may take that buffer as well.

So is an op that changes a tensor that a loop carries and reads it, too. A schedule that tiles it reads tiles of the old
tensor beside those of the new one. Upstream does not know that they are apart: it copies, and may not in a loop.
"""

from collections.abc import Iterator

from mlir import ir
from mlir.dialects import bufferization

from autotune.compiler.ir.module import every_op
from autotune.compiler.ir.values import maker
from autotune.compiler.normalise.shapes.dimensions import VIEWS

WRITE = "bufferization.materialize_in_destination"
STARTS = {"tensor.insert_slice": 1, "tensor.insert": 1}  # the operand that an op gives changed
LOOPS = ("scf.for", "scf.while")
UNSHARED = ("tensor.empty", "linalg.fill")  # those that ops share are made apart elsewhere


def copy_shared_starts(module: ir.Module) -> bool:
    """Let ops change copies of what is read behind them, in place; tells whether there were any."""
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
    """Numbers of operands that an op gives changed, those of them that some op computes or a loop carries."""
    numbers = [STARTS[op.name]] if op.name in STARTS else []
    if op.name.startswith("linalg.") and op.regions and op.results:
        numbers = list(range(len(op.operands) - len(op.results), len(op.operands)))
    for number in numbers:
        made_by = maker(op.operands[number])
        if (made_by is not None and made_by.name not in UNSHARED) or reads_what_is_carried(op, number):
            yield number


def reads_what_is_carried(op: ir.Operation, number: int) -> bool:
    """Tell whether a structured op reads the tensor that it changes besides, which a loop carries."""
    changed = op.operands[number]
    block = changed.owner if isinstance(changed, ir.BlockArgument) else None
    if block is None or block.owner.operation.name not in LOOPS or not op.name.startswith("linalg."):
        return False
    return any(value == changed for position, value in enumerate(op.operands) if position != number)


def is_unread(op: ir.Operation, number: int) -> bool:
    """Tell whether an op writes over an operand without reading it."""
    return bool(op.regions) and not list(op.regions[0].blocks[0].arguments[number].uses)


def is_read_again(op: ir.Operation, value: ir.Value) -> bool:
    """Tell whether a value that an op changes is read behind it, or written to where a caller reads it."""
    others = [use.owner.operation for use in value.uses if use.owner.operation != op]
    if any(other.name == WRITE or comes_behind(other, op) for other in others):
        return True
    made_by = maker(value)
    return made_by is not None and made_by.name in VIEWS and is_read_again(made_by, made_by.operands[0])


def comes_behind(other: ir.Operation, op: ir.Operation) -> bool:
    """Tell whether an op, or one that it is in, follows another in the block of that one.

    One that is nowhere in that block is outside of the loop or branch that the other is in, and may run behind it.
    """
    while other.block != op.block:
        other = other.parent.operation
        if other.parent is None:  # the module, which is in no block
            return True
    return bool(op.is_before_in_block(other))
