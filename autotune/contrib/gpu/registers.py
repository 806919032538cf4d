"""Store-to-load forwarding and dead store elimination in kernels, across barriers.

    store %v, C[r, c]; barrier; %w = load C[r, c]    ->    store %v, C[r, c]; barrier; %w = %v

A stored value is forwarded until its element may be overwritten. In a kernel without races, it may be overwritten by a
store of the same thread that may alias, and by a store of another thread that barriers separate from both the forwarded
store and the load; without such barriers, that store would race with one of them.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from mlir import ir

from autotune.compiler.ir.module import every_op
from autotune.compiler.ir.values import constant, is_constant, maker

LOADS, STORES = ("memref.load", "vector.load"), ("memref.store", "vector.store")
HARMLESS = ("memref.alloc", "memref.dealloc")
Access = tuple[ir.Value, ir.Type, tuple[tuple[ir.Value | None, int], ...]]  # memory, type, indices split by `split`


@dataclass
class ThreadStore:
    """A store whose value may be forwarded.

    Attributes:
        value: Stored value.
        passed: Number of barriers before the store.
        late: Whether another thread may have overwritten it since; it is then invalid after the next barrier.
    """

    value: ir.Value
    passed: int
    late: bool = False


def keep_in_registers(launch: ir.Operation) -> None:
    """Forward stores of a launch to its loads, then erase dead stores and unread buffers."""
    body = launch.regions[0].blocks[0]
    forward(body)
    erase_overwritten(body)
    erase_unread(launch)


def forward(block: ir.Block) -> None:
    """Replace loads by previously stored values, in one block; nested regions invalidate the memory that they write."""
    known: dict[Access, ThreadStore] = {}
    passed = 0  # barriers
    for each in list(block.operations):
        op = each.operation
        if any(inner.name == "gpu.barrier" for inner in every_op(op)):
            passed += 1
            known = {access: stored for access, stored in known.items() if not stored.late}
        if op.name in LOADS:
            stored_value = known.get(access_of(op))
            if stored_value is not None:
                op.results[0].replace_all_uses_with(stored_value.value)
                op.erase()
        elif op.name in STORES:
            access_ = access_of(op)
            known = {access: stored for access, stored in known.items() if are_apart(access, access_)}
            for access, stored in known.items():
                stored.late |= access[0] == access_[0] and stored.passed < passed
            known[access_] = ThreadStore(op.operands[0], passed)
        else:
            touched = set(written_in(op))
            known = {access: stored for access, stored in known.items() if access[0] not in touched}


def erase_overwritten(block: ir.Block) -> None:
    """Erase stores of one block that a later store overwrites before any load from that memory."""
    later: set[Access] = set()
    for each in reversed(list(block.operations)):
        op = each.operation
        if op.name in STORES:
            access_ = access_of(op)
            if access_ in later:
                op.erase()
            else:
                later.add(access_)
        else:
            touched = set(read_in(op))
            later = {access for access in later if access[0] not in touched}


def erase_unread(launch: ir.Operation) -> None:
    """Erase workgroup buffers that are only stored to."""
    for alloc in [op for op in every_op(launch) if op.name == "memref.alloc"]:
        users = [use.owner.operation for use in alloc.results[0].uses]
        if all(op.name in ("memref.dealloc", *STORES) for op in users):
            for op in (*users, alloc):
                op.erase()


def access_of(op: ir.Operation) -> Access:
    """Return the memory, value type and indices of a load or store."""
    operands = list(op.operands)
    stores = op.name in STORES
    memory, indices = operands[1 if stores else 0], operands[2 if stores else 1 :]
    return memory, operands[0].type if stores else op.results[0].type, tuple(map(split, indices))


def split(index: ir.Value) -> tuple[ir.Value | None, int]:
    """Split an index into a value and an added constant; the value is `None` for a constant index."""
    added = 0
    while (op := maker(index)) is not None:
        if is_constant(index):
            return None, added + constant(index)
        if op.name != "arith.addi" or not is_constant(op.operands[1]):
            break
        index, added = op.operands[0], added + constant(op.operands[1])
    return index, added


def are_apart(first: Access, second: Access) -> bool:
    """Return whether two accesses of a thread are proved disjoint: an index differs by at least the access length."""
    if first[0] != second[0]:
        return True
    last = len(first[2]) - 1
    for number, ((value, added), (other, more)) in enumerate(zip(first[2], second[2], strict=True)):
        if value == other and added != more:
            lower = first if added < more else second
            if number < last or abs(added - more) >= length_of(lower[1]):
                return True
    return False


def length_of(mlir_type: ir.Type) -> int:
    """Return the number of elements of a scalar or vector type."""
    return ir.VectorType(mlir_type).shape[0] if isinstance(mlir_type, ir.VectorType) else 1


def written_in(op: ir.Operation) -> Iterator[ir.Value]:
    """Yield the memory that an operation, or one nested in it, may write."""
    return touched_in(op, STORES, LOADS)


def read_in(op: ir.Operation) -> Iterator[ir.Value]:
    """Yield the memory that an operation, or one nested in it, may read."""
    return touched_in(op, LOADS, STORES)


def touched_in(op: ir.Operation, kinds: Sequence[str], others: Sequence[str]) -> Iterator[ir.Value]:
    """Yield the memory of nested operations of the given kinds, and all operands of unknown operations."""
    for each in every_op(op):
        if each.name in kinds:
            yield each.operands[1 if each.name in STORES else 0]
        elif each.name not in (*others, *HARMLESS):
            yield from memory_of(each.operands)


def memory_of(values: Iterable[ir.Value]) -> Iterator[ir.Value]:
    """Yield the memrefs among values."""
    return (value for value in values if isinstance(value.type, ir.MemRefType))
