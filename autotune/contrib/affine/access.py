"""What affine loops read and write: which of their accesses stay, follow each other, or never meet."""

from collections.abc import Iterator
from dataclasses import dataclass

from mlir import ir

from autotune.compiler.ir.module import every_op
from autotune.compiler.passes.marked_loops import counter as counter_of

FOR, LOAD, STORE = "affine.for", "affine.load", "affine.store"
Terms = tuple[tuple[ir.Value, int], ...]  # values that an index depends on, with their factor; 0 where it is no factor


@dataclass(frozen=True)
class LoopAccess:
    """A load or a store.

    Attributes:
        op: The op.
        memory: Buffer that it reads or writes.
        indices: What each index depends on.
        spelled: The indices as they are written: equal for equal elements.
    """

    op: ir.Operation
    memory: ir.Value
    indices: tuple[Terms, ...]
    spelled: tuple[tuple[str, tuple[ir.Value, ...]], ...]

    @classmethod
    def of(cls, op: ir.Operation) -> "LoopAccess":
        """What a load or a store says."""
        first = 1 if op.name == STORE else 0
        amap = ir.AffineMapAttr(op.attributes["map"]).value
        operands = tuple(op.operands)[first + 1 :]
        indices = tuple(terms(expr, operands, amap.n_dims) for expr in amap.results)
        spelled = tuple((str(expr), operands) for expr in amap.results)
        return cls(op, op.operands[first], indices, spelled)

    @property
    def writes(self) -> bool:
        """Whether it is a store."""
        return bool(self.op.name == STORE)

    def stays(self, counter: ir.Value) -> bool:
        """Whether no index depends on a loop's counter."""
        return all(value != counter for index in self.indices for value, _ in index)

    def follows(self, counter: ir.Value) -> bool:
        """Whether a step of a loop leads to the next element in memory."""
        *outer, last = self.indices or ((),)
        strides, _ = ir.MemRefType(self.memory.type).get_strides_and_offset()
        beside = all(value != counter for index in outer for value, _ in index)
        return beside and bool(strides) and strides[-1] == 1 and dict(last).get(counter) == 1

    def ends_with(self, counter: ir.Value, end: int) -> bool:
        """Whether the last step of a loop leads to the last element of a row, whatever other loops count."""
        if [value for value, _ in self.indices[-1]] != [counter] or not self.follows(counter):
            return False
        amap = ir.AffineMapAttr(self.op.attributes["map"]).value
        zeros = ir.AffineMap.get(0, 0, [ir.AffineConstantExpr.get(0)] * amap.n_inputs)
        start = ir.AffineConstantExpr(amap.results[len(amap.results) - 1].compose(zeros)).value
        return bool(start + end == ir.MemRefType(self.memory.type).shape[-1])


def terms(expr: ir.AffineExpr, operands: tuple[ir.Value, ...], dims: int) -> Terms:
    """What an expression depends on, with factors: 0 inside of a division or a remainder."""
    found: dict[ir.Value, int] = {}

    def add(each: ir.AffineExpr, factor: int) -> None:
        if isinstance(each, ir.AffineDimExpr | ir.AffineSymbolExpr):
            value = operands[each.position + (dims if isinstance(each, ir.AffineSymbolExpr) else 0)]
            found[value] = found.get(value, 0) + factor if factor and found.get(value) != 0 else 0
        elif isinstance(each, ir.AffineAddExpr):
            add(each.lhs, factor)
            add(each.rhs, factor)
        elif isinstance(each, ir.AffineMulExpr) and isinstance(each.rhs, ir.AffineConstantExpr):
            add(each.lhs, factor * each.rhs.value)
        elif isinstance(each, ir.AffineBinaryExpr):
            add(each.lhs, 0)
            add(each.rhs, 0)

    add(expr, 1)
    return tuple(found.items())


def loops_of(scope: ir.Operation) -> list[ir.Operation]:
    """Affine loops inside an op, an outer one before those inside of it."""
    return [op for op in every_op(scope) if op.name == FOR]


def accesses(scope: ir.Operation) -> Iterator[LoopAccess]:
    """Loads and stores inside an op."""
    return (LoopAccess.of(op) for op in every_op(scope) if op.name in (LOAD, STORE))


def bounds(loop: ir.Operation) -> tuple[int, int] | None:
    """First count of a loop and the one behind its last; `None` where they are not constant."""
    maps = [ir.AffineMapAttr(loop.attributes[f"{end}BoundMap"]).value for end in ("lower", "upper")]
    ends = [amap.results[0] for amap in maps if len(amap.results) == 1]
    if len(ends) < 2 or not all(isinstance(end, ir.AffineConstantExpr) for end in ends):
        return None
    first, last = (ir.AffineConstantExpr(end).value for end in ends)
    return first, last


def trips(loop: ir.Operation) -> int | None:
    """Steps of a loop that counts from 0 by ones; `None` of any other."""
    ends = bounds(loop)
    return ends[1] if ends is not None and ends[0] == 0 and step_of(loop) == 1 else None


def step_of(loop: ir.Operation) -> int:
    """Step of a loop."""
    return int(ir.IntegerAttr(loop.attributes["step"]).value)


def carries(loop: ir.Operation) -> bool:
    """Return whether a loop carries values."""
    return len(loop.results) > 0


def is_affine(loop: ir.Operation) -> bool:
    """Return whether every access inside a loop is one with affine indices."""
    return not any(op.name.startswith("memref.") for op in every_op(loop))


def goes_on(loop: ir.Operation) -> bool:
    """Return whether every access of a loop stays or goes on to the next element, and one does."""
    counter = counter_of(loop)
    going = [access for access in accesses(loop) if not access.stays(counter)]
    return bool(going) and is_affine(loop) and all(access.follows(counter) for access in going)


def is_taken(loop: ir.Operation) -> bool:
    """Return whether upstream takes a loop for one whose accesses go on: none but a last index has its counter."""
    counter = counter_of(loop)
    return all(value != counter for access in accesses(loop) for index in access.indices[:-1] for value, _ in index)


def is_right_in_vectors(loop: ir.Operation, lanes: int) -> bool:
    """Return whether vectors of so many lanes compute what a loop does, which upstream takes for granted.

    Lanes behind a loop's last step are masked where the buffer ends, not where the loop does. A store that stays would
    write all lanes to one element, and what is computed from the counter itself upstream has no vectors of.
    """
    counter, ends = counter_of(loop), bounds(loop)
    stores = [access for access in accesses(loop) if access.writes]
    if ends is None or any(use.owner.operation.name not in (LOAD, STORE) for use in counter.uses):
        return False
    whole = (ends[1] - ends[0]) % lanes == 0
    return all(not access.stays(counter) and (whole or access.ends_with(counter, ends[1])) for access in stores)


def can_be_jammed(loop: ir.Operation) -> bool:
    """Return whether steps of a loop may be taken beside each other: what one writes, no other reads or writes.

    That is so where every access to a buffer that is written has an index that is equal in all of them, and depends on
    this loop and on none inside of it.
    """
    inner = {counter_of(each) for each in loops_of(loop)} - {counter_of(loop)}
    found = list(accesses(loop))
    if carries(loop) or not is_affine(loop):
        return False
    for memory in {access.memory for access in found if access.writes}:
        first, *rest = [access for access in found if access.memory == memory]
        apart = [
            position
            for position, (index, spelled) in enumerate(zip(first.indices, first.spelled, strict=True))
            if dict(index).get(counter_of(loop))
            and not inner & {value for value, _ in index}
            and all(each.spelled[position] == spelled for each in rest)
        ]
        if not apart:
            return False
    return True
