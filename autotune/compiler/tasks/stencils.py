"""Stencils: element-wise ops whose operands are read at neighbouring indices, in steps, or at some that repeat."""

from collections.abc import Sequence
from math import gcd, lcm, prod

from mlir import ir

from autotune.compiler.ir.nests import dimensions, indexing_maps
from autotune.compiler.ir.values import maker
from autotune.compiler.tasks.vectors import computes_simply, factor_of, vectorizes

PLACES = ("linalg.index", "arith.addi", "arith.muli", "arith.andi", "arith.cmpi")  # of what follows from indices alone
WIDEST = 16  # elements of a vector
MOST_ELEMENTS = 1 << 12  # of a tile, which becomes vectors without loops


def periods_of(op: ir.Operation, sizes: Sequence[int]) -> tuple[int, ...]:
    """Steps of each loop after which a stencil reads as before, so many indices further; empty of any other op.

    A tile begins at a multiple of these. Where a read wraps around, or the body asks for the index, that is the whole
    loop; an op of which a tile would be more than `MOST_ELEMENTS` is no stencil.

    Args:
        op: A structured op.
        sizes: Trip counts of its loops.
    """
    if not is_stencil(op):
        return ()
    exprs = [expr for amap in indexing_maps(op) for expr in amap.results]
    body = [inner.operation for inner in op.regions[0].blocks[0].operations]
    asked = {ir.IntegerAttr(inner.attributes["dim"]).value for inner in body if inner.name == "linalg.index"}
    found = tuple(
        size if loop in asked else lcm(*(period(expr, loop, size) for expr in exprs)) for loop, size in enumerate(sizes)
    )
    return found if prod(found[:-1]) * max(found[-1], WIDEST) <= MOST_ELEMENTS else ()


def is_stencil(op: ir.Operation) -> bool:
    """Tell whether an op computes each element from some that others read too, and is no vector as it is."""
    maps = indexing_maps(op)
    if not maps or len(op.results) != 1 or not computes_simply(op) or vectorizes(op):
        return False
    block = op.regions[0].blocks[0]
    body = [inner.operation for inner in block.operations]
    own = dimensions(maps[-1]) == list(range(maps[-1].n_dims)) and not list(block.arguments[len(maps) - 1].uses)
    plain = all(inner.name != "tensor.extract" and uses_places_well(inner) for inner in body)
    return own and plain and all(is_regular(expr) for amap in maps for expr in amap.results)


def uses_places_well(op: ir.Operation) -> bool:
    """Tell whether what an op takes of indices alone are conditions of selections, or makes more of it."""
    if op.name in PLACES and is_known(op.results[0]):
        return True
    known = [number for number, value in enumerate(op.operands) if is_known(value)]
    return not known or (op.name == "arith.select" and known == [0])


def is_known(value: ir.Value) -> bool:
    """Tell whether a value follows from the index of an element, by whole numbers alone."""
    made_by = maker(value)
    if made_by is None or made_by.name not in PLACES:
        return False
    return all(is_known(each) or is_number(each) for each in made_by.operands)


def is_number(value: ir.Value) -> bool:
    """Tell whether a value is a constant whole number."""
    made_by = maker(value)
    return made_by is not None and made_by.name == "arith.constant" and not isinstance(value.type, ir.FloatType)


def is_regular(expr: ir.AffineExpr) -> bool:
    """Tell whether an index is a sum of loops, of such parts of them, and of what is left of such parts."""
    if isinstance(expr, ir.AffineDimExpr | ir.AffineConstantExpr):
        return True
    if goes_back(expr):
        return False
    if isinstance(expr, ir.AffineFloorDivExpr | ir.AffineModExpr):
        inside = is_regular if isinstance(expr, ir.AffineModExpr) else is_linear
        return isinstance(expr.rhs, ir.AffineConstantExpr) and inside(expr.lhs)
    return isinstance(expr, ir.AffineAddExpr | ir.AffineMulExpr) and is_regular(expr.lhs) and is_regular(expr.rhs)


def goes_back(expr: ir.AffineExpr) -> bool:
    """Tell whether an index is that many times another, less than none: upstream cuts no such op into tiles."""
    by = expr.rhs if isinstance(expr, ir.AffineMulExpr) else None
    return isinstance(by, ir.AffineConstantExpr) and by.value < 0


def is_linear(expr: ir.AffineExpr) -> bool:
    """Tell whether an index is a sum of multiples of loops."""
    if isinstance(expr, ir.AffineAddExpr | ir.AffineMulExpr):
        return not goes_back(expr) and is_linear(expr.lhs) and is_linear(expr.rhs)
    return isinstance(expr, ir.AffineDimExpr | ir.AffineConstantExpr)


def period(expr: ir.AffineExpr, loop: int, size: int) -> int:
    """Steps of a loop after which an index is so many indices further."""
    if isinstance(expr, ir.AffineAddExpr | ir.AffineMulExpr):
        return lcm(period(expr.lhs, loop, size), period(expr.rhs, loop, size))
    if not isinstance(expr, ir.AffineFloorDivExpr | ir.AffineModExpr):
        return 1
    if not follows(expr.lhs, loop):
        return 1
    factor, divisor = factor_of(expr.lhs, loop), ir.AffineConstantExpr(expr.rhs).value
    return size if factor is None or isinstance(expr, ir.AffineModExpr) else divisor // gcd(factor, divisor)


def follows(expr: ir.AffineExpr, loop: int) -> bool:
    """Tell whether an index moves with a loop."""
    if isinstance(expr, ir.AffineDimExpr):
        return bool(expr.position == loop)
    return not isinstance(expr, ir.AffineConstantExpr) and (follows(expr.lhs, loop) or follows(expr.rhs, loop))
