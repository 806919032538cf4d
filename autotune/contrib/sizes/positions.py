"""Analysis of memory accesses on buffers: indices as sums of induction variables, along each dimension of a buffer."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from mlir import ir

from autotune.compiler.ir.values import constant, is_constant, kept_dimensions, maker, reassociation
from autotune.compiler.ir.views import DYNAMIC, numbers_of

READS = {"memref.load": 0, "vector.load": 0, "vector.transfer_read": 0}  # operand number of the buffer
WRITES = {"memref.store": 1, "vector.store": 1, "vector.transfer_write": 1}
VIEWS = ("memref.subview", "memref.collapse_shape", "memref.expand_shape", "memref.cast")
UNTOUCHED = ("memref.dim", "memref.dealloc", "memref.prefetch", "memref.assume_alignment")  # access no elements


@dataclass(frozen=True)
class Position:
    """An index: a sum of induction variables and a constant, possibly divided.

    Attributes:
        counters: Induction variables, each with coefficient 1.
        number: Constant.
        per: Divisor of the sum, rounding down, for the block index of a blocked buffer.
        width: Number of elements accessed from that index on.
    """

    counters: frozenset[ir.Value] = frozenset()
    number: int = 0
    per: int = 1
    width: int = 1

    def __add__(self, other: "Position") -> "Position":
        counters, number = self.counters | other.counters, self.number + other.number
        return Position(counters, number, self.per, self.width + other.width - 1)


@dataclass(frozen=True)
class ArrayAccess:
    """An op that reads or writes a buffer.

    Attributes:
        op: Operation.
        root: Underlying buffer, of which the op may access a view.
        positions: Index along each dimension; `None` if unknown.
        loops: Induction variables of the enclosing loops, outermost first.
        reads: Whether it reads.
        writes: Whether it writes.
    """

    op: ir.Operation
    root: ir.Value
    positions: tuple[Position | None, ...]
    loops: tuple[ir.Value, ...]
    reads: bool
    writes: bool

    @property
    def looks_up(self) -> bool:
        """Whether it is a gather: it reads at indices that were loaded from memory."""
        return self.reads and None in self.positions and any(map(is_read, self.op.operands))


def position_of(value: ir.Value, element: Sequence[int] = ()) -> Position | None:
    """Return a value of type index as a sum of induction variables; `None` if it is not one.

    Args:
        value: Index value, or a vector of index values.
        element: Indices of the element in that vector.
    """
    producer, position = maker(value), None
    if producer is None:
        loop = value.owner.owner.operation
        return Position(frozenset({value})) if loop.name == "scf.for" and value.arg_number == 0 else None
    match producer.name:
        case "arith.constant" if isinstance(value.type, ir.IndexType):
            position = Position(number=constant(value))
        case "arith.divui" if is_constant(producer.operands[1]):
            position = divided(position_of(producer.operands[0], element), constant(producer.operands[1]))
        case "arith.addi":
            position = summed(position_of(each, element) for each in producer.operands)
        case "vector.broadcast":
            source = producer.operands[0]
            rank = ir.VectorType(source.type).rank if isinstance(source.type, ir.VectorType) else 0
            position = position_of(source, element[len(element) - rank :])
        case "vector.step" if element:
            position = Position(number=element[-1])
        case "vector.extract":
            position = position_of(
                producer.operands[0], list(ir.DenseI64ArrayAttr(producer.attributes["static_position"]))
            )
        case "affine.apply":
            amap = ir.AffineMapAttr(producer.attributes["map"]).value
            position = mapped(amap.results[0], amap.n_dims, list(producer.operands))
    return position


def mapped(expr: ir.AffineExpr, dims: int, operands: Sequence[ir.Value]) -> Position | None:
    """Return an affine expression as a sum of induction variables; `None` if it is not one."""
    if isinstance(expr, ir.AffineAddExpr):
        return summed(mapped(each, dims, operands) for each in (expr.lhs, expr.rhs))
    if isinstance(expr, ir.AffineFloorDivExpr | ir.AffineCeilDivExpr) and isinstance(expr.rhs, ir.AffineConstantExpr):
        dividend, per = mapped(expr.lhs, dims, operands), expr.rhs.value
        rounds = isinstance(expr, ir.AffineFloorDivExpr) or (dividend is not None and is_multiple(dividend, per))
        return divided(dividend, per) if rounds else None
    if isinstance(expr, ir.AffineConstantExpr):
        return Position(number=expr.value)
    if isinstance(expr, ir.AffineDimExpr):
        return position_of(operands[expr.position])
    if isinstance(expr, ir.AffineSymbolExpr):
        return position_of(operands[dims + expr.position])
    return None


def summed(parts: Iterable[Position | None]) -> Position | None:
    """Return the sum of positions; `None` if one is unknown or divided, or an induction variable occurs twice."""
    positions = list(parts)
    if None in positions:
        return None
    terms = [part for part in positions if part is not None and part != Position()]
    if len(terms) == 1:
        return terms[0]
    total = Position()
    for part in terms:
        if total.counters & part.counters or part.per > 1:
            return None
        total = total + part
    return total


def is_multiple(position: Position, per: int) -> bool:
    """Return whether a position is a multiple of a number."""
    return position.number % per == 0 and all(is_plain(each) and step_of(each) % per == 0 for each in position.counters)


def divided(position: Position | None, per: int) -> Position | None:
    """Return a position divided by `per`; `None` if it is unknown or already divided."""
    if position is None or position.per > 1:
        return None
    return Position(position.counters, position.number, per, -(-position.width // per))


def accesses(block: ir.Block, loops: tuple[ir.Value, ...] = ()) -> Iterator[ArrayAccess]:
    """Yield all accesses to buffers in a block and in nested blocks.

    Args:
        block: The block.
        loops: Induction variables of the enclosing loops, outermost first.
    """
    for op_view in block.operations:
        op = op_view.operation
        for region in op.regions:
            for inner in region.blocks:
                yield from accesses(inner, (*loops, inner.arguments[0]) if op.name == "scf.for" else loops)
        if op.name in READS or op.name in WRITES:
            at = READS.get(op.name, WRITES.get(op.name, 0))
            array, indices = op.operands[at], list(op.operands)[at + 1 :]
            positions = widened(op, [position_of(each) for each in indices[: array.type.rank]])
            yield access(op, array, positions, loops, (op.name in READS, op.name in WRITES))
        elif op.name not in VIEWS and op.name not in UNTOUCHED:
            for number, array in enumerate(op.operands):
                if isinstance(array.type, ir.MemRefType):
                    effects = op.name != "linalg.fill", number >= inputs_of(op)
                    yield access(op, array, [Position(width=size) for size in array.type.shape], loops, effects)


def widened(op: ir.Operation, positions: list[Position | None]) -> list[Position | None]:
    """Return the positions of a read or write with the widths of its vector along the last dimensions."""
    value = op.results[0] if op.results else op.operands[0]
    sizes = list(value.type.shape) if isinstance(value.type, ir.VectorType) else []
    widths = ([1] * len(positions) + sizes)[len(sizes) :]
    if op.name in ("vector.transfer_read", "vector.transfer_write"):  # the permutation map may be any
        widths = [max(sizes, default=1)] * len(positions)
    return [
        replace(position, width=width) if position is not None else None
        for position, width in zip(positions, widths, strict=True)
    ]


def inputs_of(op: ir.Operation) -> int:
    """Return the number of operands that a structured op only reads; 0 for other ops, which may write to all."""
    return int(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"])[0]) if op.name.startswith("linalg.") else 0


def access(
    op: ir.Operation,
    array: ir.Value,
    indices: Sequence[Position | None],
    loops: tuple[ir.Value, ...],
    does: tuple[bool, bool],
) -> ArrayAccess:
    """Resolve an access to a view into one to the underlying buffer.

    Args:
        op: Operation that reads or writes.
        array: View or buffer.
        indices: Index along each of its dimensions.
        loops: Induction variables of the enclosing loops.
        does: Whether it reads, and whether it writes.
    """
    producer = maker(array)
    if producer is None or producer.name not in VIEWS:
        return ArrayAccess(op, array, tuple(indices), loops, *does)
    return access(op, producer.operands[0], indices_behind(producer, indices), loops, does)


def indices_behind(view: ir.Operation, indices: Sequence[Position | None]) -> list[Position | None]:
    """Translate indices of a view into indices of its source."""
    before, after = list(view.operands[0].type.shape), list(view.results[0].type.shape)
    if view.name == "memref.cast":
        return list(indices)
    if view.name == "memref.subview":
        dynamic_offsets = iter(view.operands[1:])
        offsets = ir.DenseI64ArrayAttr(view.attributes["static_offsets"])
        starts = [position_of(next(dynamic_offsets)) if each == DYNAMIC else Position(number=each) for each in offsets]
        _, sizes, strides = numbers_of(view)
        of_view = iter(indices)
        view_positions = [next(of_view) if keep else Position() for keep in kept_dimensions(sizes, after)]
        steps = zip(starts, view_positions, strides, strict=True)
        return [summed((start, along)) if step == 1 else None for start, along, step in steps]
    source_indices: list[Position | None] = []
    for number, group in enumerate(reassociation(view)):
        if view.name == "memref.collapse_shape":
            wide = [dim for dim in group if before[dim] != 1]
            source_indices += [
                (indices[number] if len(wide) == 1 else None) if dim in wide else Position() for dim in group
            ]
        else:
            wide = [dim for dim in group if after[dim] != 1]
            source_indices.append(indices[wide[0]] if len(wide) == 1 else (None if wide else Position()))
    return source_indices


def is_read(value: ir.Value) -> bool:
    """Return whether a value is computed from elements of a buffer."""
    producer = maker(value)
    if producer is None or isinstance(value.type, ir.MemRefType):
        return False
    return producer.name in READS or any(map(is_read, producer.operands))


def is_plain(counter: ir.Value) -> bool:
    """Return whether a loop has lower bound 0 and a constant step."""
    lower, _, step = list(loop_of(counter).operands)[:3]
    return is_constant(step) and is_constant(lower) and constant(lower) == 0


def step_of(counter: ir.Value) -> int:
    """Return the step of a loop, given its induction variable."""
    return constant(loop_of(counter).operands[2])


def loop_of(counter: ir.Value) -> ir.Operation:
    """Return the loop of an induction variable."""
    return counter.owner.owner.operation
