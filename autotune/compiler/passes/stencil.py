"""Vectorize stencils: element-wise ops that read neighbours, with strides, or at indices that repeat or wrap around.

    y[w : w + 16] = max(x[2 w + 0], x[2 w + 1], ...)   ->   a = x[2 w : 2 w + 16], b = x[2 w + 16 : 2 w + 32];
                                                            y[..] = max(even of (a, b), odd of (a, b), ...)

A schedule marks a tile of the op with the number of vector lanes. All indices in a tile are constants here, so what
neighbouring results read is in a few vectors, whose lanes are shuffled. A marked op that is not rewritten is lowered to
scalar loops, so the script is correct either way.
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
# Indexed by predicate of arith.cmpi; unsigned predicates follow from `UNSIGNED` on, in the same order.
COMPARISONS = (int.__eq__, int.__ne__, int.__lt__, int.__le__, int.__gt__, int.__ge__)
UNSIGNED, WIDTH = len(COMPARISONS), 64  # bits of an index


class StencilBody:
    """Body of a stencil op, to be vectorized.

    Args:
        op: Stencil op.
    """

    def __init__(self, op: ir.Operation) -> None:
        self._block = op.regions[0].blocks[0]
        *self._ops, self._end = (inner.operation for inner in self._block.operations)
        self._known: set[ir.Value] = set()  # values computed from loop indices and integer constants only
        for step in self._ops:
            if step.name in INDICES and all(v in self._known or is_number(v) for v in step.operands):
                self._known.add(step.results[0])

    def wanted(self, points: Sequence[Point]) -> list[list[bool]]:
        """Return the lanes of every input that are used, at `points`; a select on indices may leave lanes unused."""
        known = self._index_values(points)
        used = []
        for argument in list(self._block.arguments)[:-1]:
            users = [use.owner.operation for use in argument.uses]
            masks = [known.get(op.operands[0]) if is_choice(op, argument) else None for op in users]
            masked = [mask for mask in masks if mask is not None]
            unmasked = len(masked) < len(masks)
            used.append([unmasked or any(mask[lane] for mask in masked) for lane in range(len(points))])
        return used

    def write(self, points: Sequence[Point], inputs: Sequence[ir.Value]) -> ir.Value:
        """Clone the body on vectors with one lane per point; return the yielded vector."""
        known, width = self._index_values(points), len(points)
        values: dict[ir.Value, ir.Value] = dict(zip(self._block.arguments, inputs, strict=False))

        def of(value: ir.Value) -> ir.Value:
            if value not in values:
                values[value] = constants(known[value], value.type) if value in known else splat(value, width)
            return values[value]

        for op in self._ops:
            if op.results[0] in self._known or op.name == "arith.constant":
                continue
            vector_types = [ir.VectorType.get([width], result.type) for result in op.results]
            attributes = {name: op.attributes[name] for name in op.attributes}
            clone = ir.Operation.create(op.name, vector_types, [of(value) for value in op.operands], attributes)
            values |= dict(zip(op.results, clone.results, strict=True))
        return of(self._end.operands[0])

    def _index_values(self, points: Sequence[Point]) -> dict[ir.Value, list[int]]:
        """Evaluate the values computed from loop indices at every point."""
        evaluated: dict[ir.Value, list[int]] = {}
        for op in (op for op in self._ops if op.results[0] in self._known):
            if op.name == "linalg.index":
                dim = ir.IntegerAttr(op.attributes["dim"]).value
                evaluated[op.results[0]] = [point[dim] for point in points]
                continue
            operands = [evaluated[v] if v in evaluated else [number(v)] * len(points) for v in op.operands]
            evaluated[op.results[0]] = [compute(op, pair) for pair in zip(*operands, strict=True)]
        return evaluated


def is_number(value: ir.Value) -> bool:
    """Return whether a value is an integer constant."""
    return is_constant(value) and not isinstance(value.type, ir.FloatType)


def number(value: ir.Value) -> int:
    """Return the value of an integer constant."""
    return int(ir.IntegerAttr(value.owner.attributes["value"]).value)


def compute(op: ir.Operation, operands: Sequence[int]) -> int:
    """Constant-fold an op of `INDICES`."""
    first, second = operands
    if op.name == "arith.cmpi":
        predicate = ir.IntegerAttr(op.attributes["predicate"]).value
        if predicate >= UNSIGNED:
            width = op.operands[0].type.width if isinstance(op.operands[0].type, ir.IntegerType) else WIDTH
            first, second, predicate = first % (1 << width), second % (1 << width), predicate - UNSIGNED + 2
        return int(COMPARISONS[predicate](first, second))
    return {"arith.addi": first + second, "arith.muli": first * second, "arith.andi": first & second}[op.name]


def is_choice(op: ir.Operation, value: ir.Value) -> bool:
    """Return whether an op is a select that takes a value only if its condition is true."""
    return op.name == "arith.select" and bool(op.operands[1] == value) and bool(op.operands[2] != value)


def constants(numbers: Sequence[int], mlir_type: ir.Type) -> ir.Value:
    """Build a vector constant of integers."""
    vector_type = ir.VectorType.get([len(numbers)], mlir_type)
    elements = [ir.IntegerAttr.get(mlir_type, each) for each in numbers]
    return arith.constant(vector_type, ir.DenseElementsAttr.get(elements, vector_type))


def splat(value: ir.Value, width: int) -> ir.Value:
    """Broadcast a value from outside of a body to all lanes; a constant is rebuilt as a splat."""
    vector_type = ir.VectorType.get([width], value.type)
    made_by = maker(value)
    if made_by is None or not is_constant(value):
        return vector.broadcast(vector_type, value)
    return arith.constant(vector_type, ir.DenseElementsAttr.get_splat(vector_type, made_by.attributes["value"]))


MOST_LOADS = 4  # vectors shuffled into one; if more are needed, elements are gathered one by one
Indices = tuple[int, ...]


def write_stencils(module: ir.Module) -> None:
    """Vectorize the marked ops of a bufferized module, in place."""
    for op in marked(module.operation, STENCIL):
        (lanes,) = marked_numbers(op, STENCIL)
        with ir.InsertionPoint(op), op.location:
            StencilTile(op, lanes).write()
        op.erase()


def chunks(columns: int, lanes: int) -> Iterator[tuple[int, int]]:
    """Yield start and length of the vectors that cover a row; the last one may overlap the one before.

    Example:
        >>> list(chunks(31, 16)), list(chunks(7, 16))
        ([(0, 16), (15, 16)], [(0, 4), (3, 4)])
    """
    width = min(lanes, 1 << columns.bit_length() - 1)
    for start in range(0, columns, width):
        yield min(start, columns - width), width


@dataclass
class StencilTile:
    """Code generator of a stencil tile.

    Attributes:
        op: Stencil op on memrefs of static shape, all of whose loops are parallel.
        lanes: Elements of a vector.
        loads: Cache of loaded vectors and elements, by origin, indices and length.
    """

    op: ir.Operation
    lanes: int
    loads: dict[tuple[object, Indices, int], ir.Value] = field(default_factory=dict)

    def write(self) -> None:
        """Build the vector code of every row of the tile."""
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
        """Build the vector of a read; loads are shared with other reads of the same row."""
        known = [indices for indices in wanted.indices if indices is not None]
        if len(set(known)) <= 1:
            indices = known[0] if known else (0,) * wanted.value.type.rank
            vector_type = ir.VectorType.get([len(wanted.indices)], wanted.value.type.element_type)
            return vector.broadcast(vector_type, self.element(wanted, indices))
        if not wanted.is_row:
            return self.gather(wanted)
        same_row = [each for each in reads if each.is_row and (each.origin, each.row) == (wanted.origin, wanted.row)]
        columns = [indices[-1] for each in same_row for indices in each.indices if indices is not None]
        covering = cover(wanted.columns, min(columns), max(columns))
        if len(covering.starts) > MOST_LOADS:
            return self.gather(wanted)
        vectors = [self.load(wanted, (*wanted.row, start), covering.width) for start in covering.starts]
        return choose(vectors, [covering.lane_of(column) for column in wanted.columns])

    def element(self, wanted: "Read", indices: Indices) -> ir.Value:
        """Load one element, or reuse an earlier load."""
        key = (wanted.origin, indices, 0)
        if key not in self.loads:
            self.loads[key] = memref.load(wanted.value, [index(d) for d in indices])
        return self.loads[key]

    def load(self, wanted: "Read", indices: Indices, width: int) -> ir.Value:
        """Load a contiguous vector, or reuse an earlier load."""
        key = (wanted.origin, indices, width)
        if key not in self.loads:
            vector_type = ir.VectorType.get([width], wanted.value.type.element_type)
            self.loads[key] = vector.load(vector_type, wanted.value, [index(d) for d in indices])
        return self.loads[key]

    def gather(self, wanted: "Read") -> ir.Value:
        """Build a vector from scalar loads."""
        first = next(indices for indices in wanted.indices if indices is not None)
        vector_type = ir.VectorType.get([len(wanted.indices)], wanted.value.type.element_type)
        return vector.from_elements(vector_type, [self.element(wanted, indices or first) for indices in wanted.indices])


@dataclass(frozen=True)
class Read:
    """Elements of an operand that the lanes of a vector read.

    Attributes:
        value: Operand of the op.
        origin: Key of its first element and strides: equal for views that alias in the same way.
        indices: Indices of every lane; `None` for unused lanes.
    """

    value: ir.Value
    origin: object
    indices: list[Indices | None]

    @property
    def row(self) -> Indices:
        """All indices but the last, of the first used lane."""
        return next((indices[:-1] for indices in self.indices if indices is not None), ())

    @property
    def is_row(self) -> bool:
        """Whether all used lanes are in one row that is contiguous in memory."""
        strides, _ = self.value.type.get_strides_and_offset()
        return bool(strides) and strides[-1] == 1 and all(p is None or p[:-1] == self.row for p in self.indices)

    @property
    def columns(self) -> list[int | None]:
        """Last index of every lane; `None` for unused lanes."""
        return [indices[-1] if indices is not None else None for indices in self.indices]


@dataclass(frozen=True)
class Cover:
    """Loads of `width` neighbours from the columns `starts` on that cover all lanes of a read."""

    starts: tuple[int, ...]
    width: int

    def lane_of(self, column: int | None) -> Lane | None:
        """Return the number of a load that covers a column, and the lane in it; `None` for an unused lane."""
        if column is None:
            return None
        return next((n, column - start) for n, start in enumerate(self.starts) if start <= column < start + self.width)


def cover(columns: Sequence[int | None], first: int, last: int) -> Cover:
    """Choose loads that cover the columns of one vector; none reads before `first` or after `last`.

    Starts are aligned to the stride from `first`, so that reads of the row share loads: ``x[2 w]`` and ``x[2 w + 1]``.
    """
    wanted = sorted({column for column in columns if column is not None})
    width = min(len(columns), 1 << (last - first + 1).bit_length() - 1)
    step = max(1, min((b - a for a, b in pairwise(wanted)), default=1))
    # Round the first column down to a multiple of the stride from `first`, so that interleaved reads share loads.
    start = wanted[0] - (wanted[0] - first) % step
    starts = range(min(start, last - width + 1), wanted[-1] + 1, width)
    return Cover(tuple(dict.fromkeys(min(each, last - width + 1) for each in starts)), width)


def choose(vectors: Sequence[ir.Value], lanes: Sequence[Lane | None]) -> ir.Value:
    """Shuffle lanes of several vectors into one, two vectors at a time."""
    first, width = vectors[0], vectors[0].type.shape[0]
    if len(vectors) == 1:
        picked = [lane[1] if lane is not None else number % width for number, lane in enumerate(lanes)]
        return first if picked == list(range(width)) else vector.shuffle(first, first, picked)
    mixed = [lane[0] * width + lane[1] if lane is not None and lane[0] < 2 else 0 for lane in lanes]
    result = vector.shuffle(first, vectors[1], mixed)
    for number, each in enumerate(vectors[2:], 2):
        mask = [
            len(lanes) + lane[1] if lane is not None and lane[0] == number else position
            for position, lane in enumerate(lanes)
        ]
        result = vector.shuffle(result, each, mask)
    return result


def store(result: ir.Value, into: ir.Value, indices: Indices) -> None:
    """Store a vector along a row; by scalar stores if the row is not contiguous in memory."""
    strides, _ = into.type.get_strides_and_offset()
    if strides[-1] == 1:
        vector.store(result, into, [index(d) for d in indices])
        return
    *row, column = indices
    for lane in range(result.type.shape[0]):
        element = vector.extract(result, [], [lane])
        memref.store(element, into, [index(d) for d in (*row, column + lane)])


def at(amap: ir.AffineMap, point: Indices) -> Indices:
    """Evaluate an affine map at a point."""
    point_map = ir.AffineMap.get(0, 0, [ir.AffineConstantExpr.get(d) for d in point])
    return tuple(ir.AffineConstantExpr(expr.compose(point_map)).value for expr in amap.results)


def origin(value: ir.Value) -> object:
    """Return a key of the first element and strides of a view."""
    made_by = maker(value)
    if made_by is None or made_by.name != "memref.subview":
        return value
    offsets, _, strides = static_slice(made_by)
    source, shape = made_by.operands[0], made_by.results[0].type.shape
    if not any(offsets) and all(stride == 1 for stride in strides) and len(shape) == len(offsets):
        return origin(source)
    dynamic = list(made_by.operands)[1:]
    kept_strides, _ = made_by.results[0].type.get_strides_and_offset()  # strides of the dimensions that are not dropped
    return (origin(source), tuple(offsets), tuple(dynamic), tuple(strides), tuple(kept_strides))
