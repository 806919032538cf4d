"""Loops and layouts of structured ops, in the engine's own terms."""

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
    """Loop sizes and kinds, read off the indexing maps and static shapes; `None` if one cannot be told."""
    maps = indexing_maps(op)
    if not maps:
        return None
    sizes: dict[int, int] = {}
    growing: set[int] = set()
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
        growing.update(d for axis in open_dimensions(operand) if (d := dims[axis]) is not None)
        if index >= len(maps) - outputs:
            written.update(d for d in dims if d is not None)
    total = maps[0].n_dims
    if set(sizes) != set(range(total)):
        return None
    iterators = tuple("parallel" if d in written else "reduction" for d in range(total))
    return LoopNest(tuple(sizes[d] for d in range(total)), iterators, tuple(sorted(growing)))


def indexing_maps(op: ir.Operation) -> list[ir.AffineMap]:
    """Indexing map of every operand; empty for an op without loops of its own, such as ``linalg.softmax``."""
    return [attribute.value for attribute in linalg.get_indexing_maps(op) or ()]


def dimensions(amap: ir.AffineMap) -> list[int | None]:
    """The loop that each of an operand's dimensions runs over; `None` where it is not one loop alone."""
    return [e.position if isinstance(e, ir.AffineDimExpr) else None for e in amap.results]


def read_index(expr: ir.AffineExpr) -> Index:
    """An index as a sum."""
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
    """The loop that each dimension runs over, of a map where each runs over one.

    Raises:
        ValueError: One does not.
    """
    return [ir.AffineDimExpr(e).position for e in amap.results]


def element_type(value: ir.Value) -> str:
    """MLIR element type of a shaped value, or its own type."""
    kind = value.type
    return str(kind.element_type) if isinstance(kind, ir.ShapedType) else str(kind)


def structured_ops(block: ir.Block, trips: int = 1) -> Iterator[tuple[ir.OpView, int]]:
    """Linalg ops on tensors under a block, each with the number of times one call of the function executes it."""
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
    """Iterations of an scf.for with constant bounds; 1 where they are not known."""
    known = all(map(is_constant, list(loop.operands)[:3]))
    return max(0, trip_count(loop)) if known else 1


def moves_elements(op: ir.Operation) -> bool:
    """Tell whether a structured op gives the elements of its one input as they are, elsewhere or several times."""
    if len(op.operands) != 2 or len(op.results) != 1:
        return False
    block = op.regions[0].blocks[0]
    end = block.operations[0].operation
    return len(block.operations) == 1 and bool(end.operands[0] == block.arguments[0])
