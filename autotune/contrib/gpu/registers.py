"""Values kept in registers: what a thread stored itself it does not load, and what nobody loads is not stored.

    store %v, C[r, c]; barrier; %w = load C[r, c]    ->    store %v, C[r, c]; barrier; %w = %v

A store is known until something else may write its element. Of a kernel without races that is: a store of the same
thread to what is not proved to be another element; and one beyond a barrier on either side, which another thread may
make to this element. One between the same two barriers as the store or the load would race with it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from mlir import ir

from autotune.compiler.ir.module import every_op
from autotune.compiler.ir.values import constant, is_constant, maker

LOADS, STORES = ("memref.load", "vector.load"), ("memref.store", "vector.store")
HARMLESS = ("memref.alloc", "memref.dealloc")
Access = tuple[ir.Value, ir.Type, tuple[tuple[ir.Value | None, int], ...]]  # memory, type, index less a constant, that


@dataclass
class ThreadStore:
    """What a thread stored by an access.

    Attributes:
        value: The value.
        passed: Barriers passed before it.
        late: Whether another thread may have written there since: it is known up to the next barrier.
    """

    value: ir.Value
    passed: int
    late: bool = False


def keep_in_registers(launch: ir.Operation) -> None:
    """Forward stores of a launch to its loads, and erase stores and buffers that nobody loads from then."""
    body = launch.regions[0].blocks[0]
    forward(body)
    erase_overwritten(body)
    erase_unread(launch)


def forward(block: ir.Block) -> None:
    """Use what was stored instead of loads of it, in one block; loops in it may store what they like."""
    known: dict[Access, ThreadStore] = {}
    passed = 0  # barriers
    for each in list(block.operations):
        op = each.operation
        if any(inner.name == "gpu.barrier" for inner in every_op(op)):
            passed += 1
            known = {access: stored for access, stored in known.items() if not stored.late}
        if op.name in LOADS:
            found = known.get(access_of(op))
            if found is not None:
                op.results[0].replace_all_uses_with(found.value)
                op.erase()
        elif op.name in STORES:
            mine = access_of(op)
            known = {access: stored for access, stored in known.items() if are_apart(access, mine)}
            for access, stored in known.items():
                stored.late |= access[0] == mine[0] and stored.passed < passed
            known[mine] = ThreadStore(op.operands[0], passed)
        else:
            touched = set(written_in(op))
            known = {access: stored for access, stored in known.items() if access[0] not in touched}


def erase_overwritten(block: ir.Block) -> None:
    """Erase stores of one block to what the thread stores to again before anybody loads from that memory."""
    later: set[Access] = set()
    for each in reversed(list(block.operations)):
        op = each.operation
        if op.name in STORES:
            mine = access_of(op)
            if mine in later:
                op.erase()
            else:
                later.add(mine)
        else:
            touched = set(read_in(op))
            later = {access for access in later if access[0] not in touched}


def erase_unread(launch: ir.Operation) -> None:
    """Erase buffers of a block that are only stored to."""
    for alloc in [op for op in every_op(launch) if op.name == "memref.alloc"]:
        users = [use.owner.operation for use in alloc.results[0].uses]
        if all(op.name in ("memref.dealloc", *STORES) for op in users):
            for op in (*users, alloc):
                op.erase()


def access_of(op: ir.Operation) -> Access:
    """What a load or a store touches."""
    operands = list(op.operands)
    stores = op.name in STORES
    memory, at = operands[1 if stores else 0], operands[2 if stores else 1 :]
    return memory, operands[0].type if stores else op.results[0].type, tuple(map(split, at))


def split(index: ir.Value) -> tuple[ir.Value | None, int]:
    """An index as a value and a constant that is added to it; `None` for no value."""
    added = 0
    while (op := maker(index)) is not None:
        if is_constant(index):
            return None, added + constant(index)
        if op.name != "arith.addi" or not is_constant(op.operands[1]):
            break
        index, added = op.operands[0], added + constant(op.operands[1])
    return index, added


def are_apart(first: Access, second: Access) -> bool:
    """Whether one thread's accesses are proved to share no element: an index differs by more than their lengths."""
    if first[0] != second[0]:
        return True
    last = len(first[2]) - 1
    for number, ((value, added), (other, more)) in enumerate(zip(first[2], second[2], strict=True)):
        if value == other and added != more:
            lower = first if added < more else second
            if number < last or abs(added - more) >= length_of(lower[1]):
                return True
    return False


def length_of(kind: ir.Type) -> int:
    """Elements of a value."""
    return ir.VectorType(kind).shape[0] if isinstance(kind, ir.VectorType) else 1


def written_in(op: ir.Operation) -> Iterator[ir.Value]:
    """Memory that an op, or one within it, may write to."""
    return touched_in(op, STORES, LOADS)


def read_in(op: ir.Operation) -> Iterator[ir.Value]:
    """Memory that an op, or one within it, may read."""
    return touched_in(op, LOADS, STORES)


def touched_in(op: ir.Operation, kinds: Sequence[str], others: Sequence[str]) -> Iterator[ir.Value]:
    """Memory of the loads or stores in an op, and of all in it that is neither."""
    for each in every_op(op):
        if each.name in kinds:
            yield each.operands[1 if each.name in STORES else 0]
        elif each.name not in (*others, *HARMLESS):
            yield from memory_of(each.operands)


def memory_of(values: Iterable[ir.Value]) -> Iterator[ir.Value]:
    """Buffers among values."""
    return (value for value in values if isinstance(value.type, ir.MemRefType))
