"""Which structured ops upstream's vectorizer can take, once their loops are cut into tiles."""

from mlir import ir

from autotune.compiler.nests import dimensions, indexing_maps
from autotune.compiler.values import maker

SCALAR = ("arith.", "math.", "linalg.index", "linalg.yield", "tensor.extract")
COMBINES = tuple(
    f"arith.{name}"
    for name in (
        *("addf", "addi", "mulf", "muli", "maximumf", "maxnumf", "minimumf", "minnumf"),
        *("maxsi", "maxui", "minsi", "minui", "andi", "ori", "xori"),
    )
)


def vectorizes(op: ir.Operation) -> bool:
    """Tell whether an op's operands are read along its loops alone, and what it reduces is combined by one operation.

    Windows (``i + k``), strides (``2 * i``), and reductions of several values at once, such as argmax, are not.
    """
    maps = indexing_maps(op)
    if not maps or not op.regions or not all(map(reads_along_loops, maps)):
        return False
    body = [inner.operation for inner in op.regions[0].blocks[0].operations]
    if not all(inner.name.startswith(SCALAR) and not inner.regions for inner in body):
        return False
    written = maps[len(maps) - len(op.results) :]
    return all(len(set(dimensions(amap))) == amap.n_dims for amap in written) or all(
        combines(op, number) for number in range(len(op.results))
    )


def reads_along_loops(amap: ir.AffineMap) -> bool:
    """Tell whether each dimension of an operand is one loop of its own, or always its first place."""
    dims = [d for d in dimensions(amap) if d is not None]
    others = [result for result in amap.results if not isinstance(result, ir.AffineDimExpr)]
    return len(set(dims)) == len(dims) and all(is_first(result) for result in others)


def is_first(place: ir.AffineExpr) -> bool:
    """Tell whether a place is always the first."""
    return isinstance(place, ir.AffineConstantExpr) and ir.AffineConstantExpr(place).value == 0


def combines(op: ir.Operation, number: int) -> bool:
    """Tell whether a result of a reduction is what was there, combined with something by one operation."""
    block = op.regions[0].blocks[0]
    end = block.operations[len(block.operations) - 1].operation
    there = block.arguments[len(op.operands) - len(op.results) + number]
    by = maker(end.operands[number])
    return by is not None and by.name in COMBINES and there in list(by.operands) and len(list(there.uses)) == 1
