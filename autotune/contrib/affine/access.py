"""Analysis of memory accesses in affine loops: invariant, contiguous, or independent between iterations."""

from collections.abc import Iterator
from dataclasses import dataclass

from mlir import ir

from autotune.compiler.ir.module import every_op
from autotune.compiler.passes.marked_loops import counter as counter_of

FOR, LOAD, STORE = "affine.for", "affine.load", "affine.store"
Terms = tuple[tuple[ir.Value, int], ...]  # values in an index with their coefficients; 0 if not linear


@dataclass(frozen=True)
class LoopAccess:
    """A load or store.

    Attributes:
        op: Operation.
        memory: Buffer that it accesses.
        indices: Values that each index depends on.
        spelled: Expressions of the indices with their operands; equal if the elements are equal.
    """

    op: ir.Operation
    memory: ir.Value
    indices: tuple[Terms, ...]
    spelled: tuple[tuple[str, tuple[ir.Value, ...]], ...]

    @classmethod
    def of(cls, op: ir.Operation) -> "LoopAccess":
        """Analyse a load or store."""
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
        """Return whether no index depends on an induction variable."""
        return all(value != counter for index in self.indices for value, _ in index)

    def follows(self, counter: ir.Value) -> bool:
        """Return whether consecutive iterations of a loop access consecutive elements in memory."""
        *outer, last = self.indices or ((),)
        strides, _ = ir.MemRefType(self.memory.type).get_strides_and_offset()
        is_last_only = all(value != counter for index in outer for value, _ in index)
        return is_last_only and bool(strides) and strides[-1] == 1 and dict(last).get(counter) == 1

    def ends_with(self, counter: ir.Value, end: int) -> bool:
        """Return whether the last iteration of a loop accesses the last element of a row, whatever other loops do."""
        if [value for value, _ in self.indices[-1]] != [counter] or not self.follows(counter):
            return False
        amap = ir.AffineMapAttr(self.op.attributes["map"]).value
        zeros = ir.AffineMap.get(0, 0, [ir.AffineConstantExpr.get(0)] * amap.n_inputs)
        start = ir.AffineConstantExpr(amap.results[len(amap.results) - 1].compose(zeros)).value
        return bool(start + end == ir.MemRefType(self.memory.type).shape[-1])


def terms(expr: ir.AffineExpr, operands: tuple[ir.Value, ...], dims: int) -> Terms:
    """Return the values that an expression depends on with their coefficients; 0 inside a division or remainder."""
    factors: dict[ir.Value, int] = {}

    def add(each: ir.AffineExpr, factor: int) -> None:
        if isinstance(each, ir.AffineDimExpr | ir.AffineSymbolExpr):
            value = operands[each.position + (dims if isinstance(each, ir.AffineSymbolExpr) else 0)]
            factors[value] = factors.get(value, 0) + factor if factor and factors.get(value) != 0 else 0
        elif isinstance(each, ir.AffineAddExpr):
            add(each.lhs, factor)
            add(each.rhs, factor)
        elif isinstance(each, ir.AffineMulExpr) and isinstance(each.rhs, ir.AffineConstantExpr):
            add(each.lhs, factor * each.rhs.value)
        elif isinstance(each, ir.AffineBinaryExpr):
            add(each.lhs, 0)
            add(each.rhs, 0)

    add(expr, 1)
    return tuple(factors.items())


def loops_of(scope: ir.Operation) -> list[ir.Operation]:
    """Return the affine loops inside an op, outer loops before inner ones."""
    return [op for op in every_op(scope) if op.name == FOR]


def accesses(scope: ir.Operation) -> Iterator[LoopAccess]:
    """Yield the loads and stores inside an op."""
    return (LoopAccess.of(op) for op in every_op(scope) if op.name in (LOAD, STORE))


def bounds(loop: ir.Operation) -> tuple[int, int] | None:
    """Return the lower and upper bound of a loop, the latter exclusive; `None` if they are not constant."""
    maps = [ir.AffineMapAttr(loop.attributes[f"{end}BoundMap"]).value for end in ("lower", "upper")]
    ends = [amap.results[0] for amap in maps if len(amap.results) == 1]
    if len(ends) < 2 or not all(isinstance(end, ir.AffineConstantExpr) for end in ends):
        return None
    first, last = (ir.AffineConstantExpr(end).value for end in ends)
    return first, last


def trips(loop: ir.Operation) -> int | None:
    """Return the trip count of a loop with lower bound 0 and step 1; `None` for any other."""
    ends = bounds(loop)
    return ends[1] if ends is not None and ends[0] == 0 and step_of(loop) == 1 else None


def step_of(loop: ir.Operation) -> int:
    """Return the step of a loop."""
    return int(ir.IntegerAttr(loop.attributes["step"]).value)


def carries(loop: ir.Operation) -> bool:
    """Return whether a loop has iteration arguments."""
    return len(loop.results) > 0


def is_affine(loop: ir.Operation) -> bool:
    """Return whether every access inside a loop has affine indices."""
    return not any(op.name.startswith("memref.") for op in every_op(loop))


def goes_on(loop: ir.Operation) -> bool:
    """Return whether every access of a loop is invariant or contiguous, and at least one is contiguous."""
    counter = counter_of(loop)
    varying = [access for access in accesses(loop) if not access.stays(counter)]
    return bool(varying) and is_affine(loop) and all(access.follows(counter) for access in varying)


def looks_contiguous(loop: ir.Operation) -> bool:
    """Return whether upstream takes a loop's accesses for contiguous: only last indices use its induction variable."""
    counter = counter_of(loop)
    return all(value != counter for access in accesses(loop) for index in access.indices[:-1] for value, _ in index)


def is_right_in_vectors(loop: ir.Operation, lanes: int) -> bool:
    """Return whether vectorizing a loop by so many lanes is correct, which upstream does not check.

    Lanes beyond a loop's last iteration are masked at the end of the buffer, not of the loop. A loop-invariant store
    would write all lanes to one element, and upstream does not vectorize the induction variable as a value.
    """
    counter, ends = counter_of(loop), bounds(loop)
    stores = [access for access in accesses(loop) if access.writes]
    if ends is None or any(use.owner.operation.name not in (LOAD, STORE) for use in counter.uses):
        return False
    is_multiple = (ends[1] - ends[0]) % lanes == 0
    return all(not access.stays(counter) and (is_multiple or access.ends_with(counter, ends[1])) for access in stores)


def can_unroll_and_jam(loop: ir.Operation) -> bool:
    """Return whether iterations of a loop may be interleaved: no iteration accesses what another writes.

    This holds if all accesses to a written buffer have one index in common that depends on this loop and on no loop
    inside.
    """
    inner = {counter_of(each) for each in loops_of(loop)} - {counter_of(loop)}
    loop_accesses = list(accesses(loop))
    if carries(loop) or not is_affine(loop):
        return False
    for memory in {access.memory for access in loop_accesses if access.writes}:
        first, *rest = [access for access in loop_accesses if access.memory == memory]
        distinguishing = [
            position
            for position, (index, spelled) in enumerate(zip(first.indices, first.spelled, strict=True))
            if dict(index).get(counter_of(loop))
            and not inner & {value for value, _ in index}
            and all(each.spelled[position] == spelled for each in rest)
        ]
        if not distinguishing:
            return False
    return True
