"""Iteration spaces and indexing maps of structured ops, as the data classes of `autotune.core.ops`."""

from collections.abc import Iterator

from mlir import ir
from mlir.dialects import linalg

from autotune.compiler.ir.extents import extent_of, open_dimensions, static_shape
from autotune.compiler.ir.values import is_constant, trip_count
from autotune.core.ops.op import Index, IndexPart, LoopNest

DIVISIONS: dict[type[ir.AffineExpr], str] = {
    ir.AffineFloorDivExpr: "floordiv",
    ir.AffineCeilDivExpr: "ceildiv",
    ir.AffineModExpr: "mod",
}
UNTUNABLE = ("linalg.fill", "linalg.copy", "linalg.yield", "linalg.index", "linalg.pack", "linalg.unpack")


def loop_nest(op: ir.Operation) -> LoopNest | None:
    """Derive the iteration space from indexing maps and shapes; `None` if a trip count is unknown."""
    maps = indexing_maps(op)
    if not maps:
        return None
    sizes: dict[int, int] = {}
    dynamic: set[int] = set()
    written: set[int] = set()
    outputs = len(op.results)
    for index, (operand, amap) in enumerate(zip(op.operands, maps, strict=False)):
        if not isinstance(operand.type, ir.RankedTensorType):
            if isinstance(operand.type, ir.ShapedType):
                return None
            continue
        if not operand.type.has_static_shape and extent_of(operand) is None:
            return None
        dims = dimensions(amap)
        sizes.update((d, size) for d, size in zip(dims, static_shape(operand), strict=True) if d is not None)
        dynamic.update(d for axis in open_dimensions(operand) if (d := dims[axis]) is not None)
        if index >= len(maps) - outputs:
            written.update(d for d in dims if d is not None)
    total = maps[0].n_dims
    if set(sizes) != set(range(total)):
        return None
    iterators = tuple("parallel" if d in written else "reduction" for d in range(total))
    return LoopNest(tuple(sizes[d] for d in range(total)), iterators, tuple(sorted(dynamic)))


def indexing_maps(op: ir.Operation) -> list[ir.AffineMap]:
    """Return the indexing map of every operand; empty for an op without them, such as ``linalg.softmax``."""
    return [attribute.value for attribute in linalg.get_indexing_maps(op) or ()]


def dimensions(amap: ir.AffineMap) -> list[int | None]:
    """Return the loop that indexes each dimension of an operand; `None` where the expression is not a single loop."""
    return [e.position if isinstance(e, ir.AffineDimExpr) else None for e in amap.results]


def read_index(expr: ir.AffineExpr) -> Index:
    """Convert an affine expression to a sum of terms."""
    if isinstance(expr, ir.AffineDimExpr):
        return Index(((expr.position, 1),))
    if isinstance(expr, ir.AffineConstantExpr):
        return Index(constant=expr.value)
    left, right = read_index(expr.lhs), read_index(expr.rhs)
    if isinstance(expr, ir.AffineAddExpr):
        return left.plus(right)
    if isinstance(expr, ir.AffineMulExpr):
        return left.times(right.constant) if right.is_constant else right.times(left.constant)
    return Index(
        parts=(IndexPart(next(DIVISIONS[kind] for kind in DIVISIONS if isinstance(expr, kind)), left, right.constant),)
    )


def projected(amap: ir.AffineMap) -> list[int]:
    """Return the loop of each dimension of a projected permutation.

    Raises:
        ValueError: An expression of the map is not a single loop.
    """
    return [ir.AffineDimExpr(e).position for e in amap.results]


def element_type(value: ir.Value) -> str:
    """Return the element type of a shaped value, or the type of any other, as text."""
    value_type = value.type
    return str(value_type.element_type) if isinstance(value_type, ir.ShapedType) else str(value_type)


def structured_ops(block: ir.Block, trips: int = 1) -> Iterator[tuple[ir.OpView, int]]:
    """Yield the linalg ops on tensors nested in a block, with how often one call of the function executes each."""
    for op in block.operations:
        name = op.operation.name
        if name.startswith("linalg.") and name not in UNTUNABLE and len(op.operation.results) > 0:
            yield op, trips
            continue
        inner = trips * trips_of(op.operation) if name == "scf.for" else trips
        for region in op.regions:
            for nested in region.blocks:
                yield from structured_ops(nested, inner)


def trips_of(loop: ir.Operation) -> int:
    """Return the trip count of an scf.for with constant bounds; 1 if they are not constant."""
    known = all(map(is_constant, list(loop.operands)[:3]))
    return max(0, trip_count(loop)) if known else 1


def moves_elements(op: ir.Operation) -> bool:
    """Return whether a structured op only moves elements of its single input, such as a transpose or broadcast."""
    if len(op.operands) != 2 or len(op.results) != 1:
        return False
    block = op.regions[0].blocks[0]
    terminator = block.operations[0].operation
    return len(block.operations) == 1 and bool(terminator.operands[0] == block.arguments[0])
