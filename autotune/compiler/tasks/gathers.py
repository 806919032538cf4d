"""Gathers: element-wise ops that read a tensor at indices which another one holds, such as the rows of an embedding."""

from collections.abc import Iterator

from mlir import ir
from mlir.dialects import linalg, tensor

from autotune.compiler.ir.nests import dimensions, indexing_maps
from autotune.compiler.ir.values import is_constant, maker
from autotune.compiler.normalise.convolution.channels_first import cut

READ = "tensor.extract"
CASTS = ("arith.index_cast", "arith.index_castui")


def read_indices_in_body(op: ir.Operation) -> None:
    """Let a body read the indices it gathers from where they lie, instead of being given one an iteration; in place.

        ins(ids): row = id   ->   row = ids[i]

    Vectors along a row then see that its index is the same for all of them.
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
    """Let an op that gathers read what it reads at a constant index, other than 0, of a slice there; in place.

    Upstream vectorizes no op that has such an index, and of other families each writes its vectors itself.
    """
    if op.name != "linalg.generic" or not any(inner.operation.name == READ for inner in op.regions[0].blocks[0]):
        return
    maps = indexing_maps(op)
    for number, amap in enumerate(maps[:-1]):
        fixed = {d: index for d, each in enumerate(amap.results) if (index := constant_of(each))}
        if fixed:
            whole = op.operands[number]
            sizes = [1 if d in fixed else size for d, size in enumerate(whole.type.shape)]
            with ir.InsertionPoint(op), op.location:
                op.operands[number] = cut(whole, [fixed.get(d, 0) for d in range(len(sizes))], sizes)
            zero = ir.AffineExpr.get_constant(0)
            results = [zero if d in fixed else each for d, each in enumerate(amap.results)]
            maps[number] = ir.AffineMap.get(amap.n_dims, 0, results)
    op.attributes["indexing_maps"] = ir.ArrayAttr.get([ir.AffineMapAttr.get(amap) for amap in maps])


def constant_of(expr: ir.AffineExpr) -> int:
    """The constant that an index is; 0 of any other."""
    return int(expr.value) if isinstance(expr, ir.AffineConstantExpr) else 0


def is_gather_index(value: ir.Value) -> bool:
    """Tell whether a value is where elements are read."""
    return any(True for _ in index_bounds(value))


def index_bounds(value: ir.Value) -> Iterator[int]:
    """For every element that is read at a value, cast to an index: how many there are in that dimension."""
    casts = (use.owner.operation for use in value.uses if use.owner.operation.name in CASTS)
    for use in (use for cast in casts for use in cast.results[0].uses):
        if use.owner.operation.name == READ:
            yield ir.RankedTensorType(use.owner.operation.operands[0].type).shape[use.operand_number - 1]


def gathered(op: ir.Operation) -> dict[ir.Value, int] | None:
    """Tensors, constants left out, that an op's body reads elements of.

    Returns:
        Each with the bound of what it holds, if that is indices, else 0. Empty where there are none; `None` where an
        index is neither a loop's index nor such an element as it is.
    """
    found: dict[ir.Value, int] = {}
    for inner in op.regions[0].blocks[0].operations if op.regions else ():
        read = inner.operation
        if read.name != READ or is_constant(read.operands[0]):
            continue
        source = read.operands[0]
        if not all(is_known_index(value) for value in list(read.operands)[1:]):
            return None
        bounds = [*index_bounds(read.results[0]), *([found[source]] if found.get(source) else [])]
        found[source] = min(bounds, default=0)
    return found


def is_known_index(value: ir.Value) -> bool:
    """Tell whether a value is a constant, a loop's index, or an element of a tensor cast to an index."""
    made_by = maker(value)
    if made_by is not None and made_by.name in CASTS:
        made_by = maker(made_by.operands[0])
        return made_by is not None and made_by.name == READ
    return is_constant(value) or (made_by is not None and made_by.name == "linalg.index")
