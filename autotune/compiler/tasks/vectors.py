"""Which structured ops upstream's vectorizer can take, once their loops are cut into tiles."""

from mlir import ir

from autotune.compiler.ir.nests import dimensions, indexing_maps
from autotune.compiler.ir.values import maker
from autotune.core.ops.loop_nest import Lanes

SCALAR = ("arith.", "math.", "linalg.index", "linalg.yield", "tensor.extract")
OPERANDS_OF_PRODUCT = 2
FEWEST_COLUMNS = 8  # of sums that are vectors along the columns
COMBINES = tuple(
    f"arith.{name}"
    for name in (
        *("addf", "addi", "mulf", "muli", "maximumf", "maxnumf", "minimumf", "minnumf"),
        *("maxsi", "maxui", "minsi", "minui", "andi", "ori", "xori"),
    )
)


def vectorizes(op: ir.Operation) -> bool:
    """Tell whether an op's operands are read along its loops alone, and what it reduces is combined by one operation.

    Windows (``i + k``), strides (``2 * i``), the first place of several, and reductions of several values at once, such
    as argmax, are not.
    """
    maps = indexing_maps(op)
    whole = (reads_whole(operand.type, amap) for operand, amap in zip(op.operands, maps, strict=True))
    return computes_simply(op) and all(map(reads_along_loops, maps)) and all(whole)


def lanes_of(op: ir.Operation) -> Lanes | None:
    """Loops of the register tile of an op that has windows; `None` of one that vectorizes as it is, or not at all.

    A window may be of one place: a product of places in several dimensions with a matrix that all of them share, or of
    one matrix with each of several. Sums down columns are of that kind, too: neighbours along the loop that they reduce
    are a row apart.
    """
    lane, maps = lane_of(op), indexing_maps(op)
    if lane is None or len(dimensions(maps[-1])) == maps[-1].n_dims:
        return None
    inputs, written = len(op.operands) - len(op.results), dimensions(maps[-1])
    products = inputs == OPERANDS_OF_PRODUCT and sums_products(op)
    shared = {d for d in dimensions(maps[1]) if d is not None} if products else set()
    rows = [d for d in written if d is not None and d != lane and d not in shared]
    outer = {d for d in written if d is not None and d != lane}
    pointwise = products and len(rows) > 1 and shared.isdisjoint(outer)
    repeated = products and bool(rows) and not (shared & outer).issubset(dimensions(maps[0]))
    if not (pointwise or repeated or sums_columns(op, lane)) and vectorizes(op):
        return None
    return Lanes(lane, rows[-1] if rows else None, products)


def sums_columns(op: ir.Operation, lane: int) -> bool:
    """Tell whether an op reduces what lies side by side along a loop that is written: a pool, a row times a matrix."""
    *inputs, _ = zip(op.operands, indexing_maps(op), strict=True)
    static = all(value.type.has_static_shape for value in op.operands if isinstance(value.type, ir.RankedTensorType))
    if not static or op.results[0].type.shape[-1] < FEWEST_COLUMNS:
        return False
    whole = [dimensions(amap) for _, amap in inputs if len(amap.results) == amap.n_dims]
    return bool(whole) and all(dims[-1] == lane for dims in whole)


def has_columns(op: ir.Operation, lanes: Lanes) -> bool:
    """Tell whether the kernel of an op with windows is one of rows that are summed, and of columns along its lane."""
    kernel = dimensions(indexing_maps(op)[1])
    return lanes.products and len(kernel) > 1 and kernel[-1] == lanes.lane and kernel[-2] != lanes.row


def turned_loop(op: ir.Operation) -> int | None:
    """The loop along which an input of an element-wise op lies side by side, where that is not the last one.

    An input that does not lie along the last one at all is the same for all of a vector: nothing of it is turned.
    """
    maps = indexing_maps(op)
    if not maps or any(len(dimensions(amap)) != amap.n_dims for amap in maps[-1:]):
        return None
    lane = maps[0].n_dims - 1
    last = [dims[-1] for amap in maps[:-1] if lane in (dims := dimensions(amap))]
    return next((d for d in last if d is not None and d != lane), None)


def sums_products(op: ir.Operation) -> bool:
    """Tell whether an op multiplies its two inputs, and adds that to what was there."""
    body = [inner.operation for inner in op.regions[0].blocks[0].operations]
    if [inner.name for inner in body] != ["arith.mulf", "arith.addf", "linalg.yield"]:
        return False
    x, kernel, there = op.regions[0].blocks[0].arguments
    product, total, end = body
    by_both = set(product.operands) == {x, kernel}
    return by_both and set(total.operands) == {there, product.results[0]} and end.operands[0] == total.results[0]


def lane_of(op: ir.Operation) -> int | None:
    """The loop along which neighbours are neighbours in every operand, all other loops standing still.

    Pooling with channels last has one, a convolution with channels first and strides has none.
    """
    maps = indexing_maps(op)
    if not computes_simply(op):
        return None
    written = [dimensions(amap) for amap in maps[len(maps) - len(op.results) :]]
    lane = written[0][-1] if written[0] else None
    alone = {d for amap in maps for d in dimensions(amap) if d is not None}
    if lane is None or any(None in dims or dims[-1] != lane for dims in written) or len(alone) < maps[0].n_dims:
        return None
    return lane if all(runs_along(amap, lane) for amap in maps) else None


def computes_simply(op: ir.Operation) -> bool:
    """Tell whether an op's body is scalar ops, and what it reduces is combined by one of them."""
    maps = indexing_maps(op)
    if not maps or not op.regions or not len(op.results):
        return False
    body = [inner.operation for inner in op.regions[0].blocks[0].operations]
    if not all(inner.name.startswith(SCALAR) and not inner.regions for inner in body):
        return False
    written = maps[len(maps) - len(op.results) :]
    return all(len(set(dimensions(amap))) == amap.n_dims for amap in written) or all(
        combines(op, number) for number in range(len(op.results))
    )


def runs_along(amap: ir.AffineMap, lane: int) -> bool:
    """Tell whether an operand's last dimension, and no other, goes with a loop, by ones; or none does."""
    factors = [factor_of(place, lane) for place in amap.results]
    return all(factor == 0 for factor in factors[:-1]) and (not factors or factors[-1] in (0, 1))


def factor_of(place: ir.AffineExpr, loop: int) -> int | None:
    """By how much a place moves when a loop takes a step; `None` where that is not told."""
    if isinstance(place, ir.AffineConstantExpr):
        return 0
    if isinstance(place, ir.AffineDimExpr):
        return int(place.position == loop)
    if isinstance(place, ir.AffineAddExpr):
        both = factor_of(place.lhs, loop), factor_of(place.rhs, loop)
        return None if None in both else sum(filter(None, both))
    if isinstance(place, ir.AffineMulExpr) and isinstance(place.rhs, ir.AffineConstantExpr):
        factor = factor_of(place.lhs, loop)
        return None if factor is None else factor * place.rhs.value
    return None


def reads_along_loops(amap: ir.AffineMap) -> bool:
    """Tell whether each dimension of an operand is one loop of its own, or always its first place."""
    dims = [d for d in dimensions(amap) if d is not None]
    others = [result for result in amap.results if not isinstance(result, ir.AffineDimExpr)]
    return len(set(dims)) == len(dims) and all(is_first(result) for result in others)


def reads_whole(kind: ir.Type, amap: ir.AffineMap) -> bool:
    """Tell whether an operand is read at its first place only along dimensions that have no other."""
    shape = kind.shape if isinstance(kind, ir.ShapedType) else ()
    sizes = zip(shape, amap.results, strict=False)
    return all(size == 1 for size, result in sizes if isinstance(result, ir.AffineConstantExpr))


def is_first(place: ir.AffineExpr) -> bool:
    """Tell whether a place is always the first."""
    return isinstance(place, ir.AffineConstantExpr) and ir.AffineConstantExpr(place).value == 0


def combines(op: ir.Operation, number: int) -> bool:
    """Tell whether a result of a reduction is what was there, combined with something by one operation."""
    block = op.regions[0].blocks[0]
    end = block.operations[len(block.operations) - 1].operation
    there = block.arguments[len(op.operands) - len(op.results) + number]
    by = maker(end.operands[number])
    if by is None or by.name not in COMBINES or there not in list(by.operands) or len(list(there.uses)) != 1:
        return False
    return any(reads_tensor(op, value, set()) for value in by.operands if value != there)


def reads_tensor(op: ir.Operation, value: ir.Value, seen: set[ir.Operation]) -> bool:
    """Tell whether a value in a body comes from an element of an input.

    Upstream's vectorizer makes vectors of all loops of those alone: a constant that is summed it adds once a tile.

    Args:
        op: The op.
        value: A value of its body.
        seen: Ops of the body that were looked at, which grows.
    """
    by = maker(value)
    if by is not None:
        if by in seen:
            return False
        seen.add(by)
        return any(reads_tensor(op, each, seen) for each in by.operands)
    block = op.regions[0].blocks[0]
    inputs = zip(block.arguments, list(op.operands)[: len(op.operands) - len(op.results)], strict=False)
    return any(value == argument and isinstance(operand.type, ir.ShapedType) for argument, operand in inputs)
