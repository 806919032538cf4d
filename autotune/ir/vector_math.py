"""Polynomials for `math.exp` and `math.tanh` on f32 vectors, in place of one libm call per lane.

The range of exp is reduced as Cephes does it, tanh uses the coefficients published with Eigen. Measured against
float64: exp 0.9 ulp above -86.98 (below, where f32 has hardly a normal number left, it is 0), tanh 5.6 ulp
(`tests/test_vector_math.py`). NaN stays NaN. Beside them, a row divided by one value is multiplied by its reciprocal:
at most 1.5 ulp, as long as the reciprocal is a normal number (a divisor below 8.5e37).
"""

from collections.abc import Callable, Sequence
from math import prod

from mlir import ir
from mlir.dialects import arith, math, vector
from mlir.rewrite import PatternRewriter, RewritePatternSet, walk_and_apply_patterns

LOG2_E = 1.44269504088896341
LN2_HIGH, LN2_LOW = 0.693359375, -2.12194440e-4
EXP_LOWEST, EXP_HIGHEST = -87.3, 89.5  # where 2**n is already written as 0, or as infinity
# (e**r - 1 - r) / r**2 for |r| up to half of ln 2, highest power first: Remez, relative error of e**r at most 3.1e-9.
EXP_COEFFICIENTS = (1.3814540580e-3, 8.3687454462e-3, 4.1668388993e-2, 1.6666521132e-1, 4.9999994040e-1)
# 2**23 + 2**22, added to a number below 2**22, leaves it in the low bits, rounded to a whole one. The 126 make it the
# exponent of 2**(n - 1).
ROUNDER, EXPONENT_BITS = 12582912.0 + 126.0, 23
TANH_SATURATED = 7.90531110763549805
TANH_NUMERATOR = (
    -2.76076847742355e-16, 2.00018790482477e-13, -8.60467152213735e-11, 5.12229709037114e-08,
    1.48572235717979e-05, 6.37261928875436e-04, 4.89352455891786e-03,
)  # fmt: skip
TANH_DENOMINATOR = (1.19825839466702e-06, 1.18534705686654e-04, 2.26843463243900e-03, 4.89352518554385e-03)


def approximate(module: ir.Module) -> None:
    """Replace exp and tanh on f32 vectors everywhere in a module, in place; scalars keep libm."""
    patterns = RewritePatternSet()
    patterns.add("math.exp", _rewrite_with(expand_exp))
    patterns.add("math.tanh", _rewrite_with(expand_tanh))
    patterns.add("arith.divf", _divide_once)
    walk_and_apply_patterns(module.operation, patterns.freeze())


def _rewrite_with(expand: Callable[[ir.Value], ir.Value]) -> Callable[[ir.OpView, PatternRewriter], bool]:
    def rewrite(op: ir.OpView, rewriter: PatternRewriter) -> bool:
        kind = op.result.type
        if not (isinstance(kind, ir.VectorType) and isinstance(kind.element_type, ir.F32Type)):
            return True  # no match
        with rewriter.ip:
            rewriter.replace_op(op, [expand(op.operands[0])])
        return False

    return rewrite


def _divide_once(op: ir.OpView, rewriter: PatternRewriter) -> bool:
    """Turn x / broadcast(s) into x * broadcast(1 / s): a softmax then divides once a row, not once an element."""
    divisor = op.operands[1].owner
    if isinstance(divisor, ir.Block) or divisor.operation.name != "vector.broadcast":
        return True  # no match
    one = divisor.operation.operands[0]
    kind = ir.VectorType(op.result.type)
    if not isinstance(kind.element_type, ir.F32Type) or not isinstance(one.type, ir.VectorType):
        return True
    if prod(ir.VectorType(one.type).shape) > 1:
        return True
    with rewriter.ip:
        reciprocal = vector.broadcast(kind, arith.divf(_splat(one, 1.0), one))
        rewriter.replace_op(op, [arith.mulf(op.operands[0], reciprocal)])
    return False


def expand_exp(x: ir.Value) -> ir.Value:
    """e**x: split x = n ln 2 + r, then a polynomial for 2 e**r times 2**(n - 1).

    The halves make infinity appear where f32 has it, not at n = 128. Results below 1.7e-38 are 0.
    """
    inside = _at_most(_at_least(x, EXP_LOWEST), EXP_HIGHEST)
    rounded = math.fma(inside, _splat(x, LOG2_E), _splat(x, ROUNDER))
    n = arith.subf(rounded, _splat(x, ROUNDER))
    r = math.fma(n, _splat(x, -LN2_HIGH), inside)
    r = math.fma(n, _splat(x, -LN2_LOW), r)
    return arith.mulf(_horner(r, [2 * c for c in (*EXP_COEFFICIENTS, 1.0, 1.0)]), _low_bits_as_exponent(rounded))


def expand_tanh(x: ir.Value) -> ir.Value:
    """tanh(x) as an odd rational function of degree 13 over 6, saturated where f32 cannot tell it from 1."""
    inside = _at_most(_at_least(x, -TANH_SATURATED), TANH_SATURATED)
    square = arith.mulf(inside, inside)
    last = TANH_DENOMINATOR[-1]  # so that both end in 1, and tanh of a tiny x is x
    numerator = arith.mulf(inside, _horner(square, [*(c / last for c in TANH_NUMERATOR[:-1]), 1.0]))
    return arith.divf(numerator, _horner(square, [c / last for c in TANH_DENOMINATOR]))


def _splat(like: ir.Value, value: float) -> ir.Value:
    kind = ir.VectorType(like.type)
    return arith.constant(kind, ir.DenseElementsAttr.get_splat(kind, ir.FloatAttr.get(kind.element_type, value)))


def _horner(x: ir.Value, coefficients: Sequence[float]) -> ir.Value:
    """Polynomial in x, highest power's coefficient first."""
    result = _splat(x, coefficients[0])
    for coefficient in coefficients[1:]:
        result = math.fma(result, x, _splat(x, coefficient))
    return result


def _select_if(
    predicate: arith.CmpFPredicate, x: ir.Value, bound: float, then: ir.Value, otherwise: ir.Value
) -> ir.Value:
    return arith.select(arith.cmpf(predicate, x, _splat(x, bound)), then, otherwise)


def _at_least(x: ir.Value, bound: float) -> ir.Value:
    """max(x, bound); the comparison is false for NaN, which therefore passes through."""
    return _select_if(arith.CmpFPredicate.OLT, x, bound, _splat(x, bound), x)


def _at_most(x: ir.Value, bound: float) -> ir.Value:
    return _select_if(arith.CmpFPredicate.OGT, x, bound, _splat(x, bound), x)


def _low_bits_as_exponent(x: ir.Value) -> ir.Value:
    """Shift what the lowest bits of x hold to where the exponent is."""
    kind = ir.VectorType(x.type)
    i32 = ir.IntegerType.get_signless(32)
    integers = ir.VectorType.get(kind.shape, i32)
    places = ir.DenseElementsAttr.get_splat(integers, ir.IntegerAttr.get(i32, EXPONENT_BITS))
    return arith.bitcast(kind, arith.shli(arith.bitcast(integers, x), arith.constant(integers, places)))
