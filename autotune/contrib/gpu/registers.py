"""Values kept in registers: what a thread stored itself it does not load, and what nobody loads is not stored.

    store %v, C[r, c]; barrier; %w = load C[r, c]    ->    store %v, C[r, c]; barrier; %w = %v

A store is known until something else may write its element. Of a kernel without races that is: a store of the same
thread to what is not proved to be another element; and one beyond a barrier on either side, which another thread may
make to this element. One between the same two barriers as the store or the load would race with it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from mlir import ir

from autotune.compiler.ir.module import every_op

LOADS, STORES = ("memref.load", "vector.load"), ("memref.store", "vector.store")
HARMLESS = ("memref.alloc", "memref.dealloc")
Place = tuple[ir.Value, ir.Type, tuple[tuple[ir.Value | None, int], ...]]  # memory, type, index less a constant, that


@dataclass
class ThreadStore:
    """What a thread stored to a place.

    Attributes:
        value: The value.
        late: Whether another thread may have written there since: it is known up to the next barrier.
    """

    value: ir.Value
    late: bool = False


def keep_in_registers(launch: ir.Operation) -> None:
    """Forward stores of a launch to its loads, and erase stores and buffers that nobody loads from then."""
    body = launch.regions[0].blocks[0]
    forward(body)
    erase_overwritten(body)
    erase_unread(launch)


def forward(block: ir.Block) -> None:
    """Use what was stored in place of loads of it, in one block; loops in it may store what they like."""
    known: dict[Place, ThreadStore] = {}
    passed = 0  # barriers
    since: dict[Place, int] = {}  # barriers passed when it was stored
    for each in list(block.operations):
        op = each.operation
        if any(inner.name == "gpu.barrier" for inner in every_op(op)):
            passed += 1
            known = {place: stored for place, stored in known.items() if not stored.late}
        if op.name in LOADS:
            found = known.get(place_of(op))
            if found is not None:
                op.results[0].replace_all_uses_with(found.value)
                op.erase()
        elif op.name in STORES:
            mine = place_of(op)
            known = {place: stored for place, stored in known.items() if are_apart(place, mine)}
            for place, stored in known.items():
                stored.late |= place[0] == mine[0] and since[place] < passed
            known[mine], since[mine] = ThreadStore(op.operands[0]), passed
        else:
            touched = set(written_in(op))
            known = {place: stored for place, stored in known.items() if place[0] not in touched}


def erase_overwritten(block: ir.Block) -> None:
    """Erase stores of one block to what the thread stores to again before anybody loads from that memory."""
    later: set[Place] = set()
    for each in reversed(list(block.operations)):
        op = each.operation
        if op.name in STORES:
            mine = place_of(op)
            if mine in later:
                op.erase()
            else:
                later.add(mine)
        else:
            touched = set(read_in(op))
            later = {place for place in later if place[0] not in touched}


def erase_unread(launch: ir.Operation) -> None:
    """Erase buffers of a block that are only stored to."""
    for alloc in [op for op in every_op(launch) if op.name == "memref.alloc"]:
        users = [use.owner.operation for use in alloc.results[0].uses]
        if all(op.name in ("memref.dealloc", *STORES) for op in users):
            for op in (*users, alloc):
                op.erase()


def place_of(op: ir.Operation) -> Place:
    """What a load or a store touches."""
    operands = list(op.operands)
    stores = op.name in STORES
    memory, at = operands[1 if stores else 0], operands[2 if stores else 1 :]
    return memory, operands[0].type if stores else op.results[0].type, tuple(map(split, at))


def split(index: ir.Value) -> tuple[ir.Value | None, int]:
    """An index as a value and a constant that is added to it; `None` for no value."""
    constant = 0
    while not isinstance(index, ir.BlockArgument):
        op = index.owner
        if op.name == "arith.constant":
            return None, constant + int(ir.IntegerAttr(op.attributes["value"]).value)
        if op.name != "arith.addi":
            break
        first, second = op.operands
        number = number_of(second)
        if number is None:
            break
        index, constant = first, constant + number
    return index, constant


def number_of(value: ir.Value) -> int | None:
    """A constant's number; `None` of what is none."""
    if isinstance(value, ir.BlockArgument) or value.owner.name != "arith.constant":
        return None
    return int(ir.IntegerAttr(value.owner.attributes["value"]).value)


def are_apart(first: Place, second: Place) -> bool:
    """Whether one thread's accesses are proved to share no element: an index differs by more than their lengths."""
    if first[0] != second[0]:
        return True
    last = len(first[2]) - 1
    for number, ((value, constant), (other, another)) in enumerate(zip(first[2], second[2], strict=True)):
        if value == other and constant != another:
            lower = first if constant < another else second
            if number < last or abs(constant - another) >= length_of(lower[1]):
                return True
    return False


def length_of(kind: ir.Type) -> int:
    """Elements of a value."""
    return ir.VectorType(kind).shape[0] if isinstance(kind, ir.VectorType) else 1


def written_in(op: ir.Operation) -> Iterator[ir.Value]:
    """Memory that an op, or one within it, may write to."""
    for each in every_op(op):
        if each.name in STORES:
            yield each.operands[1]
        elif each.name not in (*LOADS, *HARMLESS):
            yield from memory_of(each.operands)


def read_in(op: ir.Operation) -> Iterator[ir.Value]:
    """Memory that an op, or one within it, may read."""
    for each in every_op(op):
        if each.name in LOADS:
            yield each.operands[0]
        elif each.name not in (*STORES, *HARMLESS):
            yield from memory_of(each.operands)


def memory_of(values: Iterable[ir.Value]) -> Iterator[ir.Value]:
    """Buffers among values."""
    return (value for value in values if isinstance(value.type, ir.MemRefType))
