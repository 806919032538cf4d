"""Interchange loops of reductions, so that the innermost loop runs along the last dimension of the output.

By default a reduction is the innermost loop: additions form a dependence chain, and a matmul reads B with a stride.
With the last dimension of the output innermost, all accesses are contiguous, and LLVM vectorizes. The terms of every
sum and their order stay the same, so results are bitwise identical.

    for i: for j: for k: C[i, j] += A[i, k] * B[k, j]   ->   for i: for k: for j: C[i, j] += A[i, k] * B[k, j]
"""

from math import inf, prod

from mlir import ir
from mlir.dialects import linalg, tensor

from autotune.compiler.ir.module import context, every_op, parse, run_passes
from autotune.compiler.ir.nests import dimensions, indexing_maps, loop_nest, structured_ops

GENERALIZE = "builtin.module(func.func(linalg-generalize-named-ops))"
QUICK = 1 << 24  # iterations of an op, which take 15 ms unoptimized; LLVM takes longer to optimize them


def in_row_order(text: str) -> str:
    """Return a module of linalg ops with its reductions in row order.

    Raises:
        CompileError: The text does not parse.
    """
    with context():
        module = parse(text, "payload")
        run_passes(module, GENERALIZE)
        for op in generic_ops(module):
            reorder(op)
        return str(module)


def is_quick(text: str) -> bool:
    """Return whether a module runs faster unoptimized than LLVM optimizes it: every op has few iterations.

    Raises:
        CompileError: The text does not parse.
    """
    with context(writes=False):
        counts = [
            trips * prod(nest.sizes) if (nest := loop_nest(op.operation)) is not None else inf
            for function in parse(text, "payload").body.operations
            for region in function.regions
            for block in region.blocks
            for op, trips in structured_ops(block)
        ]
    return max(counts, default=inf) <= QUICK


def generic_ops(module: ir.Module) -> list[ir.Operation]:
    """Return every linalg.generic of a module, at any depth."""
    return [op for op in every_op(module) if op.name == "linalg.generic"]


def reorder(op: ir.Operation) -> None:
    """Put an op in row order, in place, if it is a reduction with one result and without linalg.index.

    The last dimension of the result must be a parallel loop.
    """
    iterators = list(op.attributes["iterator_types"])
    sums = ["reduction" in str(iterator) for iterator in iterators]
    maps = indexing_maps(op)
    *_, last = dimensions(maps[-1]) or [None]
    if len(op.results) > 1 or last is None or sums[last] or not any(sums) or asks_for_index(op):
        return
    maps = [*(along(op, index, amap, last) for index, amap in enumerate(maps[:-1])), maps[-1]]
    parallel = [d for d, is_sum in enumerate(sums) if not is_sum and d != last]
    # Parallel loops outermost, reductions in their order, so that sums keep it, and the row of the output innermost.
    order = [*parallel, *(d for d, is_sum in enumerate(sums) if is_sum), last]
    dims = [ir.AffineDimExpr.get(order.index(d)) for d in range(len(order))]
    permutation = ir.AffineMap.get(len(order), 0, dims)
    maps = [ir.AffineMap.get(len(order), 0, [each.compose(permutation) for each in amap.results]) for amap in maps]
    op.attributes["iterator_types"] = ir.ArrayAttr.get([iterators[d] for d in order])
    op.attributes["indexing_maps"] = ir.ArrayAttr.get([ir.AffineMapAttr.get(amap) for amap in maps])


def along(op: ir.Operation, position: int, amap: ir.AffineMap, last: int) -> ir.AffineMap:
    """Transpose an operand, if needed, so that its last dimension runs along a loop; return its new indexing map."""
    operand_type, loops = op.operands[position].type, dimensions(amap)
    is_static = isinstance(operand_type, ir.RankedTensorType) and operand_type.has_static_shape
    if not is_static or last not in loops[:-1]:
        return amap
    source_axis = loops.index(last)
    order = [*(number for number in range(len(loops)) if number != source_axis), source_axis]
    with ir.InsertionPoint(op), op.location:
        empty = tensor.empty([operand_type.shape[number] for number in order], operand_type.element_type)
        op.operands[position] = linalg.transpose(op.operands[position], outs=[empty], permutation=order).result[0]
    return ir.AffineMap.get(amap.n_dims, 0, [amap.results[number] for number in order])


def asks_for_index(op: ir.Operation) -> bool:
    """Return whether the body of an op contains a linalg.index."""
    return any(inner.operation.name == "linalg.index" for inner in op.regions[0].blocks[0].operations)
