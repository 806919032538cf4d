"""Ops of ``math`` that become machine code on scalars and vectors of one dimension alone, as plain arithmetic."""

from collections.abc import Callable

from mlir import ir
from mlir.dialects import arith, math

from autotune.compiler.ir.module import every_op


def write_plainly(module: ir.Module) -> bool:
    """Write every such op as plain arithmetic, in place; tells whether there was any."""
    found = [op for op in every_op(module) if op.name in PLAIN]
    for op in found:
        with ir.InsertionPoint(op), op.location:
            op.results[0].replace_all_uses_with(PLAIN[op.name](op.operands[0]))
        op.erase()
    return bool(found)


def magnitude(x: ir.Value) -> ir.Value:
    """The larger of a whole number and its negative; the least number of its type stays as it is."""
    return arith.maxsi(x, arith.subi(constant(x, 0), x))


def is_nan(x: ir.Value) -> ir.Value:
    """Whether a number is none."""
    return arith.cmpf(arith.CmpFPredicate.UNO, x, x)


def is_infinite(x: ir.Value) -> ir.Value:
    """Whether the size of a number is infinite."""
    return arith.cmpf(arith.CmpFPredicate.OEQ, math.absf(x), constant(x, float("inf")))


def is_finite(x: ir.Value) -> ir.Value:
    """Whether the size of a number is below infinity, which that of NaN is not."""
    return arith.cmpf(arith.CmpFPredicate.OLT, math.absf(x), constant(x, float("inf")))


def constant(like: ir.Value, number: float) -> ir.Value:
    """A number of a value's type, in each of its elements."""
    kind = like.type
    element = kind.element_type if isinstance(kind, ir.ShapedType) else kind
    is_float = isinstance(element, ir.FloatType)
    said = ir.FloatAttr.get(element, number) if is_float else ir.IntegerAttr.get(element, int(number))
    whole = ir.DenseElementsAttr.get_splat(kind, said) if isinstance(kind, ir.ShapedType) else said
    return arith.constant(kind, whole)


PLAIN: dict[str, Callable[[ir.Value], ir.Value]] = {
    "math.absi": magnitude,
    "math.isnan": is_nan,
    "math.isinf": is_infinite,
    "math.isfinite": is_finite,
}
