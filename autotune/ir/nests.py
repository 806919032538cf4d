"""Loops and layouts of structured ops, in the engine's own terms."""

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import linalg

from autotune.task import Contraction, LoopNest


def loop_nest(op: ir.Operation) -> LoopNest | None:
    """Loop sizes and kinds, read off the indexing maps and static shapes; `None` if one cannot be told."""
    try:
        maps = linalg.get_indexing_maps(op)
    except (ValueError, RuntimeError):
        return None
    if not maps:
        return None
    affine = [ir.AffineMapAttr(m).value if isinstance(m, ir.AffineMapAttr) else m for m in maps]
    sizes: dict[int, int] = {}
    written: set[int] = set()
    outputs = len(op.results)
    for index, (operand, amap) in enumerate(zip(op.operands, affine, strict=False)):
        if not isinstance(operand.type, ir.RankedTensorType) or not operand.type.has_static_shape:
            if isinstance(operand.type, ir.ShapedType):
                return None
            continue
        dims = [e.position for e in amap.results if isinstance(e, ir.AffineDimExpr)]
        if len(dims) != len(list(amap.results)):
            continue
        sizes.update(zip(dims, operand.type.shape, strict=True))
        if index >= len(affine) - outputs:
            written.update(dims)
    total = affine[0].n_dims
    if set(sizes) != set(range(total)):
        return None
    iterators = tuple("parallel" if d in written else "reduction" for d in range(total))
    return LoopNest(tuple(sizes[d] for d in range(total)), iterators)


def describe_contraction(op: ir.Operation, nest: LoopNest) -> Contraction | None:
    """Sizes and layout of a plain or batched matmul with loops in the order (b,) m, n, k; `None` for anything else."""
    if not linalg.isa_contraction_op(op):
        return None
    dims = linalg.infer_contraction_dimensions(op)
    b, m, n, k = (list(group) for group in (dims.batch, dims.m, dims.n, dims.k))
    rank = len(nest.sizes)
    if [*b, *m, *n, *k] != list(range(rank)) or [len(m), len(n), len(k)] != [1, 1, 1] or len(b) > 1:
        return None
    layouts = operand_layouts(op)
    batch = [0] if b else []
    plain_a, plain_b = [*batch, *m, *k], [*batch, *k, *n]
    turned_a, turned_b = [*batch, *k, *m], [*batch, *n, *k]
    if layouts[0] not in (plain_a, turned_a) or layouts[1] not in (plain_b, turned_b):
        return None
    if layouts[2] != [*batch, *m, *n] or {element_type(v) for v in op.operands} != {"f32"}:
        return None
    return Contraction(
        m=nest.sizes[m[0]],
        n=nest.sizes[n[0]],
        k=nest.sizes[k[0]],
        batch=nest.sizes[0] if b else 1,
        transposed_a=layouts[0] == turned_a,
        transposed_b=layouts[1] == turned_b,
        batched=bool(b),
    )


def operand_layouts(op: ir.Operation) -> Sequence[list[int]]:
    """For each operand, the loops its dimensions run over."""
    maps = linalg.get_indexing_maps(op)
    affine = [ir.AffineMapAttr(m).value if isinstance(m, ir.AffineMapAttr) else m for m in maps]
    return [[e.position if isinstance(e, ir.AffineDimExpr) else -1 for e in amap.results] for amap in affine]


def element_type(value: ir.Value) -> str:
    """MLIR element type of a shaped value, or its own type."""
    kind = value.type
    return str(kind.element_type) if isinstance(kind, ir.ShapedType) else str(kind)
