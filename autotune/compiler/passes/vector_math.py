"""Polynomial approximations of functions of f32 vectors, instead of one libm call per lane; also for scalars.

A schedule may mark ops that must call libm. In addition, division of a row by one value becomes multiplication by its
reciprocal, with an error of at most 1.5 ulp if the reciprocal is a normal number (a divisor below 8.5e37). bf16 is
extended by a shift of its bits, which is exact. Functions that upstream lowers only for scalars are unrolled to lanes.

Range reduction of exp is that of Cephes, as is log; the coefficients of tanh and erf are those published with Eigen.
Maximum errors against float64 (`tests/test_vector_math.py`), in ulp: exp 0.9 above -86.98 (below, where results are
almost denormal, it returns 0), tanh 5.6, erf 5.9, log 0.9. NaN propagates.
"""

from collections.abc import Callable, Sequence
from itertools import product
from math import prod

from mlir import ir
from mlir.dialects import arith, math, vector
from mlir.rewrite import PatternRewriter, RewritePatternSet, walk_and_apply_patterns

from autotune.compiler.ir.values import splat_of
from autotune.core.scripts.marks import LIBM

LOG2_E = 1.44269504088896341
LN2_HIGH, LN2_LOW = 0.693359375, -2.12194440e-4
EXP_LOWEST, EXP_HIGHEST = -87.3, 89.5  # bounds beyond which 2**n is computed as 0, or as infinity
# (e**r - 1 - r) / r**2 for |r| up to half of ln 2, highest power first: Remez, relative error of e**r at most 3.1e-9.
EXP_COEFFICIENTS = (1.3814540580e-3, 8.3687454462e-3, 4.1668388993e-2, 1.6666521132e-1, 4.9999994040e-1)
# Adding 2**23 + 2**22 to a number below 2**22 rounds it to an integer, which is in the low bits of the sum. The 126
# bias it to the exponent field of 2**(n - 1).
ROUNDER, EXPONENT_BITS = 12582912.0 + 126.0, 23
# Ratios of an odd and an even polynomial in x, highest power first; both are normalized by the last coefficient, so
# that tiny x keep full precision.
TANH_SATURATED = 7.90531110763549805
TANH_NUMERATOR = (
    -2.76076847742355e-16, 2.00018790482477e-13, -8.60467152213735e-11, 5.12229709037114e-08,
    1.48572235717979e-05, 6.37261928875436e-04, 4.89352455891786e-03,
)  # fmt: skip
TANH_DENOMINATOR = (1.19825839466702e-06, 1.18534705686654e-04, 2.26843463243900e-03, 4.89352518554385e-03)
ERF_SATURATED = 4.0
ERF_NUMERATOR = (
    -2.72614225801306e-10, 2.77068142495902e-08, -2.10102402082508e-06, -5.69250639462346e-05,
    -7.34990630326855e-04, -2.95459980854025e-03, -1.60960333262415e-02,
)  # fmt: skip
ERF_DENOMINATOR = (
    -1.45660718464996e-05, -2.13374055278905e-04, -1.68282697438203e-03, -7.37332916720468e-03, -1.42647390514189e-02,
)  # fmt: skip
# (log(1 + f) - f + f**2 / 2) / f**3 for 1 + f from sqrt(0.5) to sqrt(2).
LOG_COEFFICIENTS = (
    7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1,
    2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
)  # fmt: skip
SMALLEST_NORMAL, TWO_TO_23 = 1.17549435e-38, 8388608.0
BITS_OF_ROOT_OF_HALF, ONE = 0x3F3504F3, 0x3F800000


def expand_exp(x: ir.Value) -> ir.Value:
    """Expand exp(x): split x = n ln 2 + r; multiply a polynomial for 2 e**r by 2**(n - 1).

    With these factors, overflow occurs at the correct x rather than at n = 128. Results below 1.7e-38 are 0.
    """
    inside = _at_most(_at_least(x, EXP_LOWEST), EXP_HIGHEST)
    rounded = math.fma(inside, splat(x, LOG2_E), splat(x, ROUNDER))
    n = arith.subf(rounded, splat(x, ROUNDER))
    r = math.fma(n, splat(x, -LN2_HIGH), inside)
    r = math.fma(n, splat(x, -LN2_LOW), r)
    return arith.mulf(horner(r, [2 * c for c in (*EXP_COEFFICIENTS, 1.0, 1.0)]), _low_bits_as_exponent(rounded))


def expand_tanh(x: ir.Value) -> ir.Value:
    """Expand tanh(x) to a ratio of polynomials of degrees 13 (odd) and 6 (even), and to +-1 where f32 saturates.

    Saturation is exact, so that x (1 + tanh(x)), as in GELU, is NaN at minus infinity, as required.
    """
    inside = _at_most(_at_least(x, -TANH_SATURATED), TANH_SATURATED)
    last = TANH_DENOMINATOR[-1]  # equal to the numerator's up to rounding
    y = _odd_over_even(inside, [*(c / last for c in TANH_NUMERATOR[:-1]), 1.0], [c / last for c in TANH_DENOMINATOR])
    y = _select_if(arith.CmpFPredicate.OGT, x, TANH_SATURATED, splat(x, 1.0), y)
    return _select_if(arith.CmpFPredicate.OLT, x, -TANH_SATURATED, splat(x, -1.0), y)


def expand_erf(x: ir.Value) -> ir.Value:
    """Expand erf(x) to a ratio of polynomials of degrees 13 (odd) and 8 (even), with |x| clamped to 4."""
    inside = _at_most(_at_least(x, -ERF_SATURATED), ERF_SATURATED)
    last = ERF_DENOMINATOR[-1]
    return _odd_over_even(inside, [c / last for c in ERF_NUMERATOR], [c / last for c in ERF_DENOMINATOR])


def _odd_over_even(x: ir.Value, numerator: Sequence[float], denominator: Sequence[float]) -> ir.Value:
    square = arith.mulf(x, x)
    return arith.divf(arith.mulf(x, horner(square, numerator)), horner(square, denominator))


def expand_log(x: ir.Value) -> ir.Value:
    """Expand log(x): split x = 2**n (1 + f); add a polynomial for log(1 + f), and n ln 2 in two parts."""
    is_tiny = arith.cmpf(arith.CmpFPredicate.OLT, x, splat(x, SMALLEST_NORMAL))
    normal = arith.select(is_tiny, arith.mulf(x, splat(x, TWO_TO_23)), x)
    exponent, f = _split(normal)
    n = arith.sitofp(x.type, exponent)
    n = arith.addf(n, arith.select(is_tiny, splat(x, -EXPONENT_BITS), splat(x, 0.0)))
    return _log_at_its_edges(x, _log_of_parts(n, f), 0.0)


def expand_log1p(x: ir.Value) -> ir.Value:
    """Expand log(1 + x): as log, with f = x 2**-n + (2**-n - 1) rounded once, so that f = x for n = 0.

    For n above 24, the 1 is negligible.
    """
    above = arith.addf(x, splat(x, 1.0))
    exponent, f = _split(above)
    bits = arith.shli(arith.subi(splat_whole(x, ONE >> EXPONENT_BITS), exponent), splat_whole(x, EXPONENT_BITS))
    scale = arith.bitcast(x.type, bits)  # 2**-n
    small_f = math.fma(x, scale, arith.subf(scale, splat(x, 1.0)))
    is_large = arith.cmpi(arith.CmpIPredicate.sgt, exponent, splat_whole(x, EXPONENT_BITS + 1))
    f = arith.select(is_large, f, small_f)
    return _log_at_its_edges(x, _log_of_parts(arith.sitofp(x.type, exponent), f), -1.0)


def _split(x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Split x = 2**n (1 + f), with integer n, and 1 + f from sqrt(0.5) to sqrt(2); return n and f."""
    bits = arith.bitcast(_integers(x), x)
    exponent = arith.shrsi(arith.subi(bits, splat_whole(x, BITS_OF_ROOT_OF_HALF)), splat_whole(x, EXPONENT_BITS))
    mantissa = arith.bitcast(x.type, arith.subi(bits, arith.shli(exponent, splat_whole(x, EXPONENT_BITS))))
    return exponent, arith.subf(mantissa, splat(x, 1.0))


def _log_of_parts(n: ir.Value, f: ir.Value) -> ir.Value:
    """Build log(2**n (1 + f))."""
    square = arith.mulf(f, f)
    y = math.fma(n, splat(f, LN2_LOW), arith.mulf(arith.mulf(square, f), horner(f, LOG_COEFFICIENTS)))
    y = math.fma(square, splat(f, -0.5), y)
    return math.fma(n, splat(f, LN2_HIGH), arith.addf(f, y))


def _log_at_its_edges(x: ir.Value, result: ir.Value, lowest: float) -> ir.Value:
    """Select special cases of a logarithm: infinity for infinity, minus infinity for `lowest`, NaN below it."""
    result = _select_if(arith.CmpFPredicate.OEQ, x, float("inf"), x, result)
    result = _select_if(arith.CmpFPredicate.OEQ, x, lowest, splat(x, float("-inf")), result)
    return _select_if(arith.CmpFPredicate.OGE, x, lowest, result, splat(x, float("nan")))


def splat(like: ir.Value, value: float) -> ir.Value:
    """Build a constant of a value's type, vector or scalar."""
    return splat_of(like.type, value)


def horner(x: ir.Value, coefficients: Sequence[float]) -> ir.Value:
    """Evaluate a polynomial in x by Horner's method, highest power first."""
    result = splat(x, coefficients[0])
    for coefficient in coefficients[1:]:
        result = math.fma(result, x, splat(x, coefficient))
    return result


def _select_if(
    predicate: arith.CmpFPredicate, x: ir.Value, bound: float, then: ir.Value, otherwise: ir.Value
) -> ir.Value:
    return arith.select(arith.cmpf(predicate, x, splat(x, bound)), then, otherwise)


def _at_least(x: ir.Value, bound: float) -> ir.Value:
    """Build max(x, bound); the comparison is false for NaN, which therefore propagates."""
    return _select_if(arith.CmpFPredicate.OLT, x, bound, splat(x, bound), x)


def _at_most(x: ir.Value, bound: float) -> ir.Value:
    return _select_if(arith.CmpFPredicate.OGT, x, bound, splat(x, bound), x)


def _low_bits_as_exponent(x: ir.Value) -> ir.Value:
    """Shift the low bits of x to the exponent field."""
    bits = arith.bitcast(_integers(x), x)
    return arith.bitcast(x.type, arith.shli(bits, splat_whole(x, EXPONENT_BITS)))


def _integers(like: ir.Value) -> ir.Type:
    value_type, i32 = like.type, ir.IntegerType.get_signless(32)
    return ir.VectorType.get(value_type.shape, i32) if isinstance(value_type, ir.VectorType) else i32


def splat_whole(like: ir.Value, value: int) -> ir.Value:
    """Build an i32 constant with the shape of a value."""
    return splat_of(_integers(like), value)


POLYNOMIALS = {
    "math.exp": expand_exp,
    "math.tanh": expand_tanh,
    "math.erf": expand_erf,
    "math.log": expand_log,
    "math.log1p": expand_log1p,
}
SCALARS = tuple(f"math.{name}" for name in ("acosh", "asinh", "atanh", "cbrt", "erf", "erfc"))  # lowered upstream


def approximate(module: ir.Module) -> None:
    """Expand functions of f32 vectors in a module, in place; scalars and marked ops keep calling libm."""
    patterns = RewritePatternSet()
    for name, expand in POLYNOMIALS.items():
        patterns.add(name, _rewrite_with(expand))
    for name in SCALARS:
        patterns.add(name, _call_by_lanes)
    patterns.add("arith.divf", _divide_once)
    patterns.add("arith.extf", _widen_by_shift)
    walk_and_apply_patterns(module.operation, patterns.freeze())


def _rewrite_with(expand: Callable[[ir.Value], ir.Value]) -> Callable[[ir.OpView, PatternRewriter], bool]:
    def rewrite(op: ir.OpView, rewriter: PatternRewriter) -> bool:
        result_type = op.result.type
        if not (isinstance(result_type, ir.VectorType) and isinstance(result_type.element_type, ir.F32Type)):
            return True  # no match
        if LIBM in op.operation.attributes:
            return True
        with rewriter.ip:
            rewriter.replace_op(op, [expand(op.operands[0])])
        return False

    return rewrite


def _call_by_lanes(op: ir.OpView, rewriter: PatternRewriter) -> bool:
    """Unroll a function of a vector to lanes, unless a polynomial replaces it."""
    result_type, name = op.result.type, op.operation.name
    if not isinstance(result_type, ir.VectorType):
        return True  # no match
    if name in POLYNOMIALS and isinstance(result_type.element_type, ir.F32Type) and LIBM not in op.operation.attributes:
        return True
    with rewriter.ip:
        lanes = [
            ir.Operation.create(
                name, [result_type.element_type], [vector.extract(op.operands[0], [], list(position))]
            ).result
            for position in product(*map(range, result_type.shape))
        ]
        rewriter.replace_op(op, [vector.from_elements(result_type, lanes)])
    return False


def _divide_once(op: ir.OpView, rewriter: PatternRewriter) -> bool:
    """Rewrite x / broadcast(s) to x * broadcast(1 / s), so that a softmax divides once per row."""
    divisor = op.operands[1].owner
    if isinstance(divisor, ir.Block) or divisor.operation.name != "vector.broadcast":
        return True  # no match
    scalar = divisor.operation.operands[0]
    result_type = ir.VectorType(op.result.type)
    if not isinstance(result_type.element_type, ir.F32Type) or not isinstance(scalar.type, ir.VectorType):
        return True
    if prod(ir.VectorType(scalar.type).shape) > 1:
        return True
    with rewriter.ip:
        reciprocal = vector.broadcast(result_type, arith.divf(splat(scalar, 1.0), scalar))
        rewriter.replace_op(op, [arith.mulf(op.operands[0], reciprocal)])
    return False


def _widen_by_shift(op: ir.OpView, rewriter: PatternRewriter) -> bool:
    """Extend bf16 to f32 by a shift of its bits, which is exact; LLVM would do it lane by lane."""
    source_type = op.operands[0].type
    if not isinstance(source_type, ir.VectorType) or not isinstance(source_type.element_type, ir.BF16Type):
        return True  # no match
    if not isinstance(ir.VectorType(op.result.type).element_type, ir.F32Type):
        return True
    i16_type, i32_type = (ir.VectorType.get(source_type.shape, ir.IntegerType.get_signless(bits)) for bits in (16, 32))
    with rewriter.ip:
        wide = arith.extui(i32_type, arith.bitcast(i16_type, op.operands[0]))
        rewriter.replace_op(op, [arith.bitcast(op.result.type, arith.shli(wide, splat_of(i32_type, 16)))])
    return False
