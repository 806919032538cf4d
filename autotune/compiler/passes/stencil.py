"""Stencils in vectors: element-wise ops that read neighbours, in steps, or at indices that repeat or wrap around.

    y[w : w + 16] = max(x[2 w + 0], x[2 w + 1], ...)   ->   a = x[2 w : 2 w + 16], b = x[2 w + 16 : 2 w + 32];
                                                            y[..] = max(even of (a, b), odd of (a, b), ...)

A schedule marks a tile of the op, with the elements that a vector has. Every index in a tile is known here: what
neighbours in a result read lies in a few vectors, of which lanes are chosen. As marked, the script is right: what is
left as it is becomes plain loops.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product

from mlir import ir
from mlir.dialects import arith, memref, vector

from autotune.compiler.ir.nests import indexing_maps
from autotune.compiler.ir.values import index, is_constant, maker, static_slice
from autotune.compiler.passes.marked_loops import marked, marked_numbers
from autotune.core.ops.traversal import INDICES
from autotune.core.scripts.marks import STENCIL

Lane = tuple[int, int]
Point = tuple[int, ...]
# By the number of the predicate; from `UNSIGNED` on those of numbers without a sign follow, in the same order.
COMPARISONS = (int.__eq__, int.__ne__, int.__lt__, int.__le__, int.__gt__, int.__ge__)
UNSIGNED, WIDTH = len(COMPARISONS), 64  # bits of an index


class StencilBody:
    """The body of an op, to be written for many elements at once.

    Args:
        op: The op.
    """

    def __init__(self, op: ir.Operation) -> None:
        self._block = op.regions[0].blocks[0]
        *self._ops, self._end = (inner.operation for inner in self._block.operations)
        self._known: set[ir.Value] = set()  # what follows from the index of an element, by whole numbers alone
        for step in self._ops:
            if step.name in INDICES and all(v in self._known or is_number(v) for v in step.operands):
                self._known.add(step.results[0])

    def wanted(self, points: Sequence[Point]) -> list[list[bool]]:
        """For every input, which lanes matter: not those that a selection by indices leaves out."""
        known = self._index_values(points)
        found = []
        for argument in list(self._block.arguments)[:-1]:
            users = [use.owner.operation for use in argument.uses]
            masks = [known.get(op.operands[0]) if is_choice(op, argument) else None for op in users]
            masked = [mask for mask in masks if mask is not None]
            plain = len(masked) < len(masks)
            found.append([plain or any(mask[lane] for mask in masked) for lane in range(len(points))])
        return found

    def write(self, points: Sequence[Point], inputs: Sequence[ir.Value]) -> ir.Value:
        """The body on vectors, one lane a point; gives what it yields."""
        known, width = self._index_values(points), len(points)
        values: dict[ir.Value, ir.Value] = dict(zip(self._block.arguments, inputs, strict=False))

        def of(value: ir.Value) -> ir.Value:
            if value not in values:
                values[value] = constants(known[value], value.type) if value in known else splat(value, width)
            return values[value]

        for op in self._ops:
            if op.results[0] in self._known or op.name == "arith.constant":
                continue
            kinds = [ir.VectorType.get([width], result.type) for result in op.results]
            attributes = {name: op.attributes[name] for name in op.attributes}
            made = ir.Operation.create(op.name, kinds, [of(value) for value in op.operands], attributes)
            values |= dict(zip(op.results, made.results, strict=True))
        return of(self._end.operands[0])

    def _index_values(self, points: Sequence[Point]) -> dict[ir.Value, list[int]]:
        """Values that follow from indices of loops, at every point."""
        found: dict[ir.Value, list[int]] = {}
        for op in (op for op in self._ops if op.results[0] in self._known):
            if op.name == "linalg.index":
                dim = ir.IntegerAttr(op.attributes["dim"]).value
                found[op.results[0]] = [point[dim] for point in points]
                continue
            operands = [found[v] if v in found else [number(v)] * len(points) for v in op.operands]
            found[op.results[0]] = [compute(op, pair) for pair in zip(*operands, strict=True)]
        return found


def is_number(value: ir.Value) -> bool:
    """Tell whether a value is a constant whole number."""
    return is_constant(value) and not isinstance(value.type, ir.FloatType)


def number(value: ir.Value) -> int:
    """The whole number that a constant is."""
    return int(ir.IntegerAttr(value.owner.attributes["value"]).value)


def compute(op: ir.Operation, operands: Sequence[int]) -> int:
    """One of `INDICES` on numbers."""
    first, second = operands
    if op.name == "arith.cmpi":
        predicate = ir.IntegerAttr(op.attributes["predicate"]).value
        if predicate >= UNSIGNED:
            width = op.operands[0].type.width if isinstance(op.operands[0].type, ir.IntegerType) else WIDTH
            first, second, predicate = first % (1 << width), second % (1 << width), predicate - UNSIGNED + 2
        return int(COMPARISONS[predicate](first, second))
    return {"arith.addi": first + second, "arith.muli": first * second, "arith.andi": first & second}[op.name]


def is_choice(op: ir.Operation, value: ir.Value) -> bool:
    """Tell whether an op takes a value only where a condition holds."""
    return op.name == "arith.select" and bool(op.operands[1] == value) and bool(op.operands[2] != value)


def constants(numbers: Sequence[int], kind: ir.Type) -> ir.Value:
    """A vector of numbers."""
    held = ir.VectorType.get([len(numbers)], kind)
    elements = [ir.IntegerAttr.get(kind, each) for each in numbers]
    return arith.constant(held, ir.DenseElementsAttr.get(elements, held))


def splat(value: ir.Value, width: int) -> ir.Value:
    """A value from outside of a body, in every lane: a constant, or what is computed of constants once."""
    kind = ir.VectorType.get([width], value.type)
    made_by = maker(value)
    if made_by is None or not is_constant(value):
        return vector.broadcast(kind, value)
    return arith.constant(kind, ir.DenseElementsAttr.get_splat(kind, made_by.attributes["value"]))


MOST_LOADS = 4  # of whose lanes one vector is made; element by element where it takes more
Indices = tuple[int, ...]


def write_stencils(module: ir.Module) -> None:
    """Replace marked ops of a bufferized module by vector operations, in place."""
    for op in marked(module.operation, STENCIL):
        (lanes,) = marked_numbers(op, STENCIL)
        with ir.InsertionPoint(op), op.location:
            StencilTile(op, lanes).write()
        op.erase()


def chunks(columns: int, lanes: int) -> Iterator[tuple[int, int]]:
    """Start and length of the vectors that cover a row; the last one overlaps the one before where it must.

    Example:
        >>> list(chunks(31, 16)), list(chunks(7, 16))
        ([(0, 16), (15, 16)], [(0, 4), (3, 4)])
    """
    width = min(lanes, 1 << columns.bit_length() - 1)
    for start in range(0, columns, width):
        yield min(start, columns - width), width


@dataclass
class StencilTile:
    """A tile of a stencil.

    Attributes:
        op: The op, on buffers of static shape, all of whose loops are parallel.
        lanes: Elements of a vector.
        loads: Vectors and elements that have been read, by what they are read from and where.
    """

    op: ir.Operation
    lanes: int
    loads: dict[tuple[object, Indices, int], ir.Value] = field(default_factory=dict)

    def write(self) -> None:
        """Write every row of the tile in vectors."""
        *inputs, into = self.op.operands
        *maps, _ = indexing_maps(self.op)
        *rows, columns = into.type.shape
        body = StencilBody(self.op)
        for row in product(*map(range, rows)):
            for start, width in chunks(columns, self.lanes):
                points = [(*row, start + lane) for lane in range(width)]
                wanted = body.wanted(points)
                reads = [
                    Read(
                        value,
                        origin(value),
                        [at(amap, point) if needed else None for point, needed in zip(points, use, strict=True)],
                    )
                    for value, amap, use in zip(inputs, maps, wanted, strict=True)
                ]
                result = body.write(points, [self.read(each, reads) for each in reads])
                store(result, into, points[0])

    def read(self, wanted: "Read", reads: Sequence["Read"]) -> ir.Value:
        """The vector that a read gives; loads are shared with others of the same row."""
        known = [indices for indices in wanted.indices if indices is not None]
        if len(set(known)) <= 1:
            indices = known[0] if known else (0,) * wanted.value.type.rank
            kind = ir.VectorType.get([len(wanted.indices)], wanted.value.type.element_type)
            return vector.broadcast(kind, self.element(wanted, indices))
        if not wanted.is_row:
            return self.gather(wanted)
        near = [each for each in reads if each.is_row and (each.origin, each.row) == (wanted.origin, wanted.row)]
        columns = [indices[-1] for each in near for indices in each.indices if indices is not None]
        found = cover(wanted.columns, min(columns), max(columns))
        if len(found.starts) > MOST_LOADS:
            return self.gather(wanted)
        vectors = [self.load(wanted, (*wanted.row, start), found.width) for start in found.starts]
        return choose(vectors, [found.lane_of(column) for column in wanted.columns])

    def element(self, wanted: "Read", indices: Indices) -> ir.Value:
        """One element."""
        key = (wanted.origin, indices, 0)
        if key not in self.loads:
            self.loads[key] = memref.load(wanted.value, [index(d) for d in indices])
        return self.loads[key]

    def load(self, wanted: "Read", indices: Indices, width: int) -> ir.Value:
        """Neighbours from an index on."""
        key = (wanted.origin, indices, width)
        if key not in self.loads:
            kind = ir.VectorType.get([width], wanted.value.type.element_type)
            self.loads[key] = vector.load(kind, wanted.value, [index(d) for d in indices])
        return self.loads[key]

    def gather(self, wanted: "Read") -> ir.Value:
        """A vector, element by element."""
        first = next(indices for indices in wanted.indices if indices is not None)
        kind = ir.VectorType.get([len(wanted.indices)], wanted.value.type.element_type)
        return vector.from_elements(kind, [self.element(wanted, indices or first) for indices in wanted.indices])


@dataclass(frozen=True)
class Read:
    """What the lanes of a vector read of an operand.

    Attributes:
        value: The operand.
        origin: What it begins with in memory: equal for views that begin at the same element.
        indices: Indices of every lane; `None` where it does not matter what is read.
    """

    value: ir.Value
    origin: object
    indices: list[Indices | None]

    @property
    def row(self) -> Indices:
        """All indices but the last, of the first lane that matters."""
        return next((indices[:-1] for indices in self.indices if indices is not None), ())

    @property
    def is_row(self) -> bool:
        """Whether all lanes lie in one row, whose elements follow each other in memory."""
        strides, _ = self.value.type.get_strides_and_offset()
        return bool(strides) and strides[-1] == 1 and all(p is None or p[:-1] == self.row for p in self.indices)

    @property
    def columns(self) -> list[int | None]:
        """The last index of every lane."""
        return [indices[-1] if indices is not None else None for indices in self.indices]


@dataclass(frozen=True)
class Cover:
    """Loads of so many neighbours, from some columns on, that hold all that is wanted."""

    starts: tuple[int, ...]
    width: int

    def lane_of(self, column: int | None) -> Lane | None:
        """The number of a load that holds a column, and the lane there."""
        if column is None:
            return None
        return next((n, column - start) for n, start in enumerate(self.starts) if start <= column < start + self.width)


def cover(columns: Sequence[int | None], first: int, last: int) -> Cover:
    """Loads for the columns of one vector; none reads before `first` or behind `last`.

    Loads begin where those of other reads of the row do, as far as steps go: ``x[2 w]`` and ``x[2 w + 1]`` share them.
    """
    wanted = sorted({column for column in columns if column is not None})
    width = min(len(columns), 1 << (last - first + 1).bit_length() - 1)
    step = max(1, min((b - a for a, b in pairwise(wanted)), default=1))
    start = wanted[0] - (wanted[0] - first) % step
    starts = range(min(start, last - width + 1), wanted[-1] + 1, width)
    return Cover(tuple(dict.fromkeys(min(each, last - width + 1) for each in starts)), width)


def choose(vectors: Sequence[ir.Value], lanes: Sequence[Lane | None]) -> ir.Value:
    """A vector of lanes of others, two at a time."""
    first, width = vectors[0], vectors[0].type.shape[0]
    if len(vectors) == 1:
        picked = [lane[1] if lane is not None else number % width for number, lane in enumerate(lanes)]
        return first if picked == list(range(width)) else vector.shuffle(first, first, picked)
    mixed = [lane[0] * width + lane[1] if lane is not None and lane[0] < 2 else 0 for lane in lanes]
    found = vector.shuffle(first, vectors[1], mixed)
    for number, each in enumerate(vectors[2:], 2):
        mask = [
            len(lanes) + lane[1] if lane is not None and lane[0] == number else position
            for position, lane in enumerate(lanes)
        ]
        found = vector.shuffle(found, each, mask)
    return found


def store(result: ir.Value, into: ir.Value, indices: Indices) -> None:
    """Write neighbours in a row; element by element where they are none in memory."""
    strides, _ = into.type.get_strides_and_offset()
    if strides[-1] == 1:
        vector.store(result, into, [index(d) for d in indices])
        return
    *row, column = indices
    for lane in range(result.type.shape[0]):
        element = vector.extract(result, [], [lane])
        memref.store(element, into, [index(d) for d in (*row, column + lane)])


def at(amap: ir.AffineMap, point: Indices) -> Indices:
    """Where a map leads from a point."""
    constants = ir.AffineMap.get(0, 0, [ir.AffineConstantExpr.get(d) for d in point])
    return tuple(ir.AffineConstantExpr(expr.compose(constants)).value for expr in amap.results)


def origin(value: ir.Value) -> object:
    """What names the element that a view begins with, and its strides."""
    made_by = maker(value)
    if made_by is None or made_by.name != "memref.subview":
        return value
    offsets, _, strides = static_slice(made_by)
    source, shape = made_by.operands[0], made_by.results[0].type.shape
    if not any(offsets) and all(stride == 1 for stride in strides) and len(shape) == len(offsets):
        return origin(source)
    dynamic = list(made_by.operands)[1:]
    kept, _ = made_by.results[0].type.get_strides_and_offset()  # of the dimensions that are not dropped
    return (origin(source), tuple(offsets), tuple(dynamic), tuple(strides), tuple(kept))
