"""Gathers: element-wise operations that index a tensor by elements of another, such as rows of an embedding."""

from collections.abc import Iterator

from mlir import ir
from mlir.dialects import linalg, tensor

from autotune.compiler.ir.nests import dimensions, indexing_maps
from autotune.compiler.ir.values import is_constant, maker
from autotune.compiler.normalise.convolution.channels_first import cut

READ = "tensor.extract"
CASTS = ("arith.index_cast", "arith.index_castui")


def read_indices_in_body(op: ir.Operation) -> None:
    """Replace index operands of a gather by `tensor.extract` in its body, in place.

        ins(ids): row = id   ->   row = ids[i]

    The vectorizer then sees that the index is uniform along a row.
    """
    if op.name != "linalg.generic":
        return
    block = op.regions[0].blocks[0]
    for argument, operand, amap in zip(block.arguments, op.operands, indexing_maps(op), strict=True):
        read, dims = is_gather_index(argument), dimensions(amap)
        if read and None not in dims and isinstance(operand.type, ir.RankedTensorType):
            with ir.InsertionPoint.at_block_begin(block), op.location:
                index = tensor.extract(operand, [linalg.IndexOp(dim).result for dim in dims])
            argument.replace_all_uses_with(index)


def cut_at_constants(op: ir.Operation) -> None:
    """Slice operands of a gather that are read at a constant index other than 0, in place.

    The upstream vectorizer does not support such indexing maps; other families emit their vectors themselves.
    """
    if op.name != "linalg.generic" or not any(inner.operation.name == READ for inner in op.regions[0].blocks[0]):
        return
    maps = indexing_maps(op)
    for number, amap in enumerate(maps[:-1]):
        fixed = {d: index for d, each in enumerate(amap.results) if (index := constant_of(each))}
        if fixed:
            source = op.operands[number]
            sizes = [1 if d in fixed else size for d, size in enumerate(source.type.shape)]
            with ir.InsertionPoint(op), op.location:
                op.operands[number] = cut(source, [fixed.get(d, 0) for d in range(len(sizes))], sizes)
            zero = ir.AffineExpr.get_constant(0)
            results = [zero if d in fixed else each for d, each in enumerate(amap.results)]
            maps[number] = ir.AffineMap.get(amap.n_dims, 0, results)
    op.attributes["indexing_maps"] = ir.ArrayAttr.get([ir.AffineMapAttr.get(amap) for amap in maps])


def constant_of(expr: ir.AffineExpr) -> int:
    """Return the value of a constant affine expression; 0 for any other."""
    return int(expr.value) if isinstance(expr, ir.AffineConstantExpr) else 0


def is_gather_index(value: ir.Value) -> bool:
    """Return whether a value is cast to an index of `tensor.extract`."""
    return any(True for _ in index_bounds(value))


def index_bounds(value: ir.Value) -> Iterator[int]:
    """Yield the size of the dimension for every `tensor.extract` that uses a value, cast to an index."""
    casts = (use.owner.operation for use in value.uses if use.owner.operation.name in CASTS)
    for use in (use for cast in casts for use in cast.results[0].uses):
        if use.owner.operation.name == READ:
            yield ir.RankedTensorType(use.owner.operation.operands[0].type).shape[use.operand_number - 1]


def gathered(op: ir.Operation) -> dict[ir.Value, int] | None:
    """Return the tensors, except constants, that the body of an operation extracts elements from.

    Returns:
        Exclusive upper bound of the elements of each tensor if they are indices, else 0. Empty if there are no such
        tensors; `None` if an index is not a constant, a loop index or an extracted element.
    """
    index_limits: dict[ir.Value, int] = {}
    for inner in op.regions[0].blocks[0].operations if op.regions else ():
        read = inner.operation
        if read.name != READ or is_constant(read.operands[0]):
            continue
        source = read.operands[0]
        if not all(is_known_index(value) for value in list(read.operands)[1:]):
            return None
        bounds = [*index_bounds(read.results[0]), *([index_limits[source]] if index_limits.get(source) else [])]
        index_limits[source] = min(bounds, default=0)
    return index_limits


def is_known_index(value: ir.Value) -> bool:
    """Return whether a value is a constant, a loop index, or an extracted element cast to an index."""
    producer = maker(value)
    if producer is not None and producer.name in CASTS:
        producer = maker(producer.operands[0])
        return producer is not None and producer.name == READ
    return is_constant(value) or (producer is not None and producer.name == "linalg.index")
