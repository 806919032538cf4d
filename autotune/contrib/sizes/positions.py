"""Where programs on buffers read and write: counters of loops, added, along each dimension of what views are of."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from mlir import ir

from autotune.compiler.ir.values import constant, is_constant, kept_dimensions, maker, reassociation
from autotune.compiler.ir.views import DYNAMIC, numbers_of

READS = {"memref.load": 0, "vector.load": 0, "vector.transfer_read": 0}  # which operand is the array
WRITES = {"memref.store": 1, "vector.store": 1, "vector.transfer_write": 1}
VIEWS = ("memref.subview", "memref.collapse_shape", "memref.expand_shape", "memref.cast")
UNTOUCHED = ("memref.dim", "memref.dealloc", "memref.prefetch", "memref.assume_alignment")  # all others may touch all


@dataclass(frozen=True)
class Position:
    """Counters of loops and a number, added, and divided.

    Attributes:
        counters: The counters, each once.
        number: The number.
        per: What the sum is divided by, rounded down: positions of a block, of an array in blocks.
        width: How many elements are touched from there on.
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
    """An op that reads or writes an array.

    Attributes:
        op: The op.
        root: The array, of which the op may have a view.
        positions: Position along each dimension; `None` where it is unknown.
        loops: Counters of the loops around it, outermost first.
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
        """Whether it reads at indices that were read."""
        return self.reads and None in self.positions and any(map(is_read, self.op.operands))


def position_of(value: ir.Value, element: Sequence[int] = ()) -> Position | None:
    """A number of type index as a sum of counters; `None` where it is none.

    Args:
        value: The number, or a vector of such.
        element: Which element of the vector.
    """
    made, found = maker(value), None
    if made is None:
        loop = value.owner.owner.operation
        return Position(frozenset({value})) if loop.name == "scf.for" and value.arg_number == 0 else None
    match made.name:
        case "arith.constant" if isinstance(value.type, ir.IndexType):
            found = Position(number=constant(value))
        case "arith.divui" if is_constant(made.operands[1]):
            found = divided(position_of(made.operands[0], element), constant(made.operands[1]))
        case "arith.addi":
            found = summed(position_of(each, element) for each in made.operands)
        case "vector.broadcast":
            source = made.operands[0]
            rank = ir.VectorType(source.type).rank if isinstance(source.type, ir.VectorType) else 0
            found = position_of(source, element[len(element) - rank :])
        case "vector.step" if element:
            found = Position(number=element[-1])
        case "vector.extract":
            found = position_of(made.operands[0], list(ir.DenseI64ArrayAttr(made.attributes["static_position"])))
        case "affine.apply":
            amap = ir.AffineMapAttr(made.attributes["map"]).value
            found = mapped(amap.results[0], amap.n_dims, list(made.operands))
    return found


def mapped(expr: ir.AffineExpr, dims: int, operands: Sequence[ir.Value]) -> Position | None:
    """An affine expression of numbers as a sum of counters; `None` where it is none."""
    if isinstance(expr, ir.AffineAddExpr):
        return summed(mapped(each, dims, operands) for each in (expr.lhs, expr.rhs))
    if isinstance(expr, ir.AffineFloorDivExpr | ir.AffineCeilDivExpr) and isinstance(expr.rhs, ir.AffineConstantExpr):
        found, per = mapped(expr.lhs, dims, operands), expr.rhs.value
        rounds = isinstance(expr, ir.AffineFloorDivExpr) or (found is not None and is_multiple(found, per))
        return divided(found, per) if rounds else None
    if isinstance(expr, ir.AffineConstantExpr):
        return Position(number=expr.value)
    if isinstance(expr, ir.AffineDimExpr):
        return position_of(operands[expr.position])
    if isinstance(expr, ir.AffineSymbolExpr):
        return position_of(operands[dims + expr.position])
    return None


def summed(parts: Iterable[Position | None]) -> Position | None:
    """The sum of positions; `None` where one is unknown, a counter is in two, or a part is of blocks."""
    found = list(parts)
    if None in found:
        return None
    terms = [part for part in found if part is not None and part != Position()]
    if len(terms) == 1:
        return terms[0]
    total = Position()
    for part in terms:
        if total.counters & part.counters or part.per > 1:
            return None
        total = total + part
    return total


def is_multiple(position: Position, per: int) -> bool:
    """Tell whether a position is a multiple of a number."""
    return position.number % per == 0 and all(is_plain(each) and step_of(each) % per == 0 for each in position.counters)


def divided(position: Position | None, per: int) -> Position | None:
    """A position in blocks; `None` where it is unknown, or is of blocks."""
    if position is None or position.per > 1:
        return None
    return Position(position.counters, position.number, per, -(-position.width // per))


def accesses(block: ir.Block, loops: tuple[ir.Value, ...] = ()) -> Iterator[ArrayAccess]:
    """What reads and writes arrays in a block, and in blocks inside it.

    Args:
        block: The block.
        loops: Counters of the loops around it, outermost first.
    """
    for made in block.operations:
        op = made.operation
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
                    does = op.name != "linalg.fill", number >= inputs_of(op)
                    yield access(op, array, [Position(width=size) for size in array.type.shape], loops, does)


def widened(op: ir.Operation, positions: list[Position | None]) -> list[Position | None]:
    """Positions of a read or write with what its vector touches: elements along the last dimensions."""
    value = op.results[0] if op.results else op.operands[0]
    sizes = list(value.type.shape) if isinstance(value.type, ir.VectorType) else []
    widths = ([1] * len(positions) + sizes)[len(sizes) :]
    if op.name in ("vector.transfer_read", "vector.transfer_write"):  # in whatever order
        widths = [max(sizes, default=1)] * len(positions)
    return [
        replace(position, width=width) if position is not None else None
        for position, width in zip(positions, widths, strict=True)
    ]


def inputs_of(op: ir.Operation) -> int:
    """How many operands a structured op only reads; 0 of any other op, which may write them all."""
    return int(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"])[0]) if op.name.startswith("linalg.") else 0


def access(
    op: ir.Operation,
    array: ir.Value,
    indices: Sequence[Position | None],
    loops: tuple[ir.Value, ...],
    does: tuple[bool, bool],
) -> ArrayAccess:
    """An access by indices of a view, as one of the array that it is of.

    Args:
        op: What reads or writes.
        array: The view, or the array.
        indices: Position along each dimension of that.
        loops: Counters of the loops around it.
        does: Whether it reads, and whether it writes.
    """
    made = maker(array)
    if made is None or made.name not in VIEWS:
        return ArrayAccess(op, array, tuple(indices), loops, *does)
    return access(op, made.operands[0], indices_behind(made, indices), loops, does)


def indices_behind(view: ir.Operation, indices: Sequence[Position | None]) -> list[Position | None]:
    """Indices of what a view is of."""
    before, after = list(view.operands[0].type.shape), list(view.results[0].type.shape)
    if view.name == "memref.cast":
        return list(indices)
    if view.name == "memref.subview":
        given = iter(view.operands[1:])
        offsets = ir.DenseI64ArrayAttr(view.attributes["static_offsets"])
        starts = [position_of(next(given)) if each == DYNAMIC else Position(number=each) for each in offsets]
        _, sizes, strides = numbers_of(view)
        of_view = iter(indices)
        kept = [next(of_view) if keep else Position() for keep in kept_dimensions(sizes, after)]
        steps = zip(starts, kept, strides, strict=True)
        return [summed((start, along)) if step == 1 else None for start, along, step in steps]
    found: list[Position | None] = []
    for number, group in enumerate(reassociation(view)):
        if view.name == "memref.collapse_shape":
            wide = [dim for dim in group if before[dim] != 1]
            found += [(indices[number] if len(wide) == 1 else None) if dim in wide else Position() for dim in group]
        else:
            wide = [dim for dim in group if after[dim] != 1]
            found.append(indices[wide[0]] if len(wide) == 1 else (None if wide else Position()))
    return found


def is_read(value: ir.Value) -> bool:
    """Tell whether a number is computed of what an array holds."""
    made = maker(value)
    if made is None or isinstance(value.type, ir.MemRefType):
        return False
    return made.name in READS or any(map(is_read, made.operands))


def is_plain(counter: ir.Value) -> bool:
    """Tell whether a loop begins at 0 and has a constant step."""
    lower, _, step = list(loop_of(counter).operands)[:3]
    return is_constant(step) and is_constant(lower) and constant(lower) == 0


def step_of(counter: ir.Value) -> int:
    """Step of a loop, by its counter."""
    return constant(loop_of(counter).operands[2])


def loop_of(counter: ir.Value) -> ir.Operation:
    """The loop that counts with a value."""
    return counter.owner.owner.operation
