"""Collapse the dimensions of gathered rows, so that they are copied in long vectors.

y[i, a, b] = x[index[i], a, b]   ->   Y[i, r] = X[index[i], r], of r = (a, b)
"""

from mlir import ir
from mlir.dialects import arith, linalg, tensor

from autotune.compiler.ir.module import every_op
from autotune.compiler.ir.nests import dimensions, indexing_maps, loop_nest
from autotune.compiler.ir.values import loop_of_index, maker
from autotune.compiler.normalise.emit import flat, generic, unflat

BODY = {"arith.index_cast", "linalg.index", "tensor.extract", "linalg.yield"}


def read_rows_in_one(module: ir.Module) -> None:
    """Collapse the trailing dimensions that gathers read whole, in place."""
    for op in every_op(module):
        if op.name != "linalg.generic" or (extract := only_read(op)) is None:
            continue
        if (whole := dimensions_read_whole(op, extract)) > 1:
            rewrite(op, extract, whole)


def only_read(op: ir.Operation) -> ir.Operation | None:
    """Return the only `tensor.extract` of a body if its result is yielded unchanged; `None` for any other operation."""
    nest = loop_nest(op)
    body = [inner.operation for inner in op.regions[0].blocks[0].operations]
    read = [inner for inner in body if inner.name == "tensor.extract"]
    if nest is None or nest.reduced or len(op.results) != 1 or len(read) != 1 or {i.name for i in body} - BODY:
        return None
    is_plain = indexing_maps(op)[-1] == ir.AffineMap.get_identity(len(nest.sizes))
    return read[0] if is_plain and body[-1].operands[0] == read[0].results[0] else None


def dimensions_read_whole(op: ir.Operation, extract: ir.Operation) -> int:
    """Return the number of trailing dimensions of the source that are whole trailing dimensions of the result."""
    source, *indices = extract.operands
    written, read = op.results[0].type.shape, source.type.shape
    inputs = {d for amap in indexing_maps(op)[:-1] for d in dimensions(amap)}
    count, rank = 0, len(written)
    while count < min(len(indices), rank):
        loop = rank - 1 - count
        if loop_of_index(indices[-1 - count]) != loop or written[loop] != read[-1 - count] or loop in inputs:
            break
        count += 1
    used = {loop_of_index(index) for index in indices[: len(indices) - count]}
    return count if used.isdisjoint(range(rank - count, rank)) else 0


def rewrite(op: ir.Operation, extract: ir.Operation, whole: int) -> None:
    """Rewrite an operation with its last `whole` loops collapsed."""
    source, *indices = extract.operands
    shape, lead = list(op.results[0].type.shape), len(op.results[0].type.shape) - whole
    groups = [*([d] for d in range(lead)), list(range(lead, lead + whole))]
    first = len(indices) - whole
    arguments = list(op.regions[0].blocks[0].arguments)
    *inputs, _ = op.operands

    def read(*elements: ir.Value) -> ir.Value:
        known = dict(zip(arguments, elements, strict=True))
        at = [rebuilt_index(index, known) for index in indices[:first]]
        return tensor.extract(rows, [*at, linalg.IndexOp(lead).result])

    with ir.InsertionPoint(op), op.location:
        rows = flat(source, [*([d] for d in range(first)), list(range(first, len(indices)))])
        into = flat(tensor.empty(shape, op.results[0].type.element_type), groups)
        read_by = [ir.AffineMap.get(lead + 1, 0, list(amap.results)) for amap in indexing_maps(op)[:-1]]
        maps = [*read_by, ir.AffineMap.get_identity(lead + 1)]
        result = unflat(generic(inputs, into, maps, ["parallel"] * (lead + 1), read), groups, shape)
    op.results[0].replace_all_uses_with(result)
    op.erase()


def rebuilt_index(index: ir.Value, known: dict[ir.Value, ir.Value]) -> ir.Value:
    """Rebuild an index in another body; `known` maps block arguments to the elements there."""
    if (loop := loop_of_index(index)) is not None:
        return linalg.IndexOp(loop).result
    producer = maker(index)
    if producer is not None and producer.name == "arith.index_cast":
        source = producer.operands[0]
        return arith.index_cast(ir.IndexType.get(), known.get(source, source))
    return known.get(index, index)
