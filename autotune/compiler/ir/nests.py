"""Loops and layouts of structured ops, in the engine's own terms."""

from collections.abc import Iterator

from mlir import ir
from mlir.dialects import linalg

from autotune.compiler.ir.extents import extent_of, open_dimensions, static_shape
from autotune.compiler.ir.module import every_op
from autotune.compiler.ir.values import is_constant, trip_count
from autotune.core.ops.facts import Terms
from autotune.core.ops.loop_nest import Contraction, LoopNest

WIDENED = ("f32", "f16", "bf16", "i8")  # what B may be stored in
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
        growing.update(d for place in open_dimensions(operand) if (d := dims[place]) is not None)
        if index >= len(maps) - outputs:
            written.update(d for d in dims if d is not None)
    total = maps[0].n_dims
    if set(sizes) != set(range(total)):
        return None
    iterators = tuple("parallel" if d in written else "reduction" for d in range(total))
    return LoopNest(tuple(sizes[d] for d in range(total)), iterators, tuple(sorted(growing)))


def counts_reduced(op: ir.Operation, nest: LoopNest) -> bool:
    """Tell whether an op computes with the count of a loop that it reduces."""
    counted = [ir.IntegerAttr(each.attributes["dim"]).value for each in every_op(op) if each.name == "linalg.index"]
    return any(nest.iterators[loop] == "reduction" for loop in counted)


def describe_contraction(op: ir.Operation, nest: LoopNest) -> Contraction | None:
    """Sizes and layout of a plain or batched matmul with loops in the order (b,) m, n, k; `None` for anything else."""
    if nest.growing or not linalg.isa_contraction_op(op):
        return None
    dims = linalg.infer_contraction_dimensions(op)
    b, m, n, k = (list(group) for group in (dims.batch, dims.m, dims.n, dims.k))
    rank = len(nest.sizes)
    if [*b, *m, *n, *k] != list(range(rank)) or [len(m), len(n), len(k)] != [1, 1, 1] or len(b) > 1:
        return None
    layouts = [dimensions(amap) for amap in indexing_maps(op)]
    batch = [0] if b else []
    plain_a, plain_b = [*batch, *m, *k], [*batch, *k, *n]
    turned_a, turned_b = [*batch, *k, *m], [*batch, *n, *k]
    if layouts[0] not in (plain_a, turned_a) or layouts[1] not in (plain_b, turned_b):
        return None
    if layouts[2] != [*batch, *m, *n] or not is_widened_f32(op):
        return None
    return Contraction(
        m=nest.sizes[m[0]],
        n=nest.sizes[n[0]],
        k=nest.sizes[k[0]],
        batch=nest.sizes[0] if b else 1,
        transposed_a=layouts[0] == turned_a,
        transposed_b=layouts[1] == turned_b,
        batched=bool(b),
        stored_b=stored if (stored := element_type(op.operands[1])) != "f32" else "",
    )


def is_widened_f32(op: ir.Operation) -> bool:
    """Tell whether a contraction is one of f32, B perhaps stored in less."""
    a, b, c = (element_type(value) for value in op.operands)
    return a == c == "f32" and b in WIDENED


def indexing_maps(op: ir.Operation) -> list[ir.AffineMap]:
    """Indexing map of every operand; empty for an op without loops of its own, such as ``linalg.softmax``."""
    return [attribute.value for attribute in linalg.get_indexing_maps(op) or ()]


def dimensions(amap: ir.AffineMap) -> list[int | None]:
    """The loop that each of an operand's dimensions runs over; `None` where it is not one loop alone."""
    return [e.position if isinstance(e, ir.AffineDimExpr) else None for e in amap.results]


def terms_of(expr: ir.AffineExpr) -> Terms:
    """Loops and coefficients that an index is a sum of; what is no such sum counts its loops once."""
    if isinstance(expr, ir.AffineDimExpr):
        return ((expr.position, 1),)
    if isinstance(expr, ir.AffineConstantExpr):
        return ()
    if isinstance(expr, ir.AffineMulExpr):
        for one, other in ((expr.lhs, expr.rhs), (expr.rhs, expr.lhs)):
            if isinstance(other, ir.AffineConstantExpr):
                return tuple((loop, c * other.value) for loop, c in terms_of(one))
    if isinstance(expr, ir.AffineBinaryExpr):
        return (*terms_of(expr.lhs), *terms_of(expr.rhs))
    return ()


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
