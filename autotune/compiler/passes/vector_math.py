"""Functions of f32 vectors as polynomials, instead of one libm call per lane; the same expansions serve scalars.

A schedule may mark the ops that shall call libm. Beside them, a row divided by one value is multiplied by its
reciprocal: at most 1.5 ulp, as long as the reciprocal is a normal number (a divisor below 8.5e37). And bf16
is widened by a shift of its bits, which is exact. What upstream has for scalars alone is called lane by lane.

The range of exp is reduced as Cephes does it, log is that of Cephes; tanh and erf have coefficients published with
Eigen. Measured against float64 (`tests/test_vector_math.py`), in units of the last place: exp 0.9 above -86.98
(below, where f32 has hardly a normal number left, it is 0), tanh 5.6, erf 5.9, log 0.9. NaN stays NaN.
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
EXP_LOWEST, EXP_HIGHEST = -87.3, 89.5  # where 2**n is already written as 0, or as infinity
# (e**r - 1 - r) / r**2 for |r| up to half of ln 2, highest power first: Remez, relative error of e**r at most 3.1e-9.
EXP_COEFFICIENTS = (1.3814540580e-3, 8.3687454462e-3, 4.1668388993e-2, 1.6666521132e-1, 4.9999994040e-1)
# 2**23 + 2**22, added to a number below 2**22, leaves it in the low bits, rounded to a whole one. The 126 make it the
# exponent of 2**(n - 1).
ROUNDER, EXPONENT_BITS = 12582912.0 + 126.0, 23
# Odd over even polynomials in x, highest power first; the last of each is divided out, so that tiny x lose nothing.
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
# (log(1 + f) - f + f**2 / 2) / f**3 for 1 + f from the root of a half to the root of 2.
LOG_COEFFICIENTS = (
    7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1,
    2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
)  # fmt: skip
SMALLEST_NORMAL, TWO_TO_23 = 1.17549435e-38, 8388608.0
BITS_OF_ROOT_OF_HALF, ONE = 0x3F3504F3, 0x3F800000


def expand_exp(x: ir.Value) -> ir.Value:
    """e**x: split x = n ln 2 + r, then a polynomial for 2 e**r times 2**(n - 1).

    The halves make infinity appear where f32 has it, not at n = 128. Results below 1.7e-38 are 0.
    """
    inside = _at_most(_at_least(x, EXP_LOWEST), EXP_HIGHEST)
    rounded = math.fma(inside, splat(x, LOG2_E), splat(x, ROUNDER))
    n = arith.subf(rounded, splat(x, ROUNDER))
    r = math.fma(n, splat(x, -LN2_HIGH), inside)
    r = math.fma(n, splat(x, -LN2_LOW), r)
    return arith.mulf(horner(r, [2 * c for c in (*EXP_COEFFICIENTS, 1.0, 1.0)]), _low_bits_as_exponent(rounded))


def expand_tanh(x: ir.Value) -> ir.Value:
    """tanh(x) as an odd polynomial of degree 13 over an even one of degree 6; +-1 where f32 sees no difference.

    There it is 1 to the last bit: x (1 + tanh(x)), as in GELU, is then NaN at minus infinity, as it should be.
    """
    inside = _at_most(_at_least(x, -TANH_SATURATED), TANH_SATURATED)
    last = TANH_DENOMINATOR[-1]  # that of the numerator is the same, but for rounding
    y = _odd_over_even(inside, [*(c / last for c in TANH_NUMERATOR[:-1]), 1.0], [c / last for c in TANH_DENOMINATOR])
    y = _select_if(arith.CmpFPredicate.OGT, x, TANH_SATURATED, splat(x, 1.0), y)
    return _select_if(arith.CmpFPredicate.OLT, x, -TANH_SATURATED, splat(x, -1.0), y)


def expand_erf(x: ir.Value) -> ir.Value:
    """erf(x) as an odd polynomial of degree 13 over an even one of degree 8; +-1 from 4 on."""
    inside = _at_most(_at_least(x, -ERF_SATURATED), ERF_SATURATED)
    last = ERF_DENOMINATOR[-1]
    return _odd_over_even(inside, [c / last for c in ERF_NUMERATOR], [c / last for c in ERF_DENOMINATOR])


def _odd_over_even(x: ir.Value, numerator: Sequence[float], denominator: Sequence[float]) -> ir.Value:
    square = arith.mulf(x, x)
    return arith.divf(arith.mulf(x, horner(square, numerator)), horner(square, denominator))


def expand_log(x: ir.Value) -> ir.Value:
    """log(x): split x = 2**n (1 + f), a polynomial for log(1 + f), and n ln 2 added in two parts."""
    is_tiny = arith.cmpf(arith.CmpFPredicate.OLT, x, splat(x, SMALLEST_NORMAL))
    normal = arith.select(is_tiny, arith.mulf(x, splat(x, TWO_TO_23)), x)
    exponent, f = _split(normal)
    n = arith.sitofp(x.type, exponent)
    n = arith.addf(n, arith.select(is_tiny, splat(x, -EXPONENT_BITS), splat(x, 0.0)))
    return _log_at_its_edges(x, _log_of_parts(n, f), 0.0)


def expand_log1p(x: ir.Value) -> ir.Value:
    """log(1 + x): as log, with f = x 2**-n + (2**-n - 1) rounded once, so that it is x itself where n is 0.

    Where n is above 24, the 1 is no longer seen.
    """
    above = arith.addf(x, splat(x, 1.0))
    exponent, f = _split(above)
    part = arith.shli(arith.subi(splat_whole(x, ONE >> EXPONENT_BITS), exponent), splat_whole(x, EXPONENT_BITS))
    scale = arith.bitcast(x.type, part)  # 2**-n
    whole = math.fma(x, scale, arith.subf(scale, splat(x, 1.0)))
    is_large = arith.cmpi(arith.CmpIPredicate.sgt, exponent, splat_whole(x, EXPONENT_BITS + 1))
    f = arith.select(is_large, f, whole)
    return _log_at_its_edges(x, _log_of_parts(arith.sitofp(x.type, exponent), f), -1.0)


def _split(x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Whole n and f, so that x is 2**n (1 + f), and 1 + f from the root of a half to the root of 2."""
    bits = arith.bitcast(_integers(x), x)
    exponent = arith.shrsi(arith.subi(bits, splat_whole(x, BITS_OF_ROOT_OF_HALF)), splat_whole(x, EXPONENT_BITS))
    part = arith.bitcast(x.type, arith.subi(bits, arith.shli(exponent, splat_whole(x, EXPONENT_BITS))))
    return exponent, arith.subf(part, splat(x, 1.0))


def _log_of_parts(n: ir.Value, f: ir.Value) -> ir.Value:
    """log(2**n (1 + f))."""
    square = arith.mulf(f, f)
    y = math.fma(n, splat(f, LN2_LOW), arith.mulf(arith.mulf(square, f), horner(f, LOG_COEFFICIENTS)))
    y = math.fma(square, splat(f, -0.5), y)
    return math.fma(n, splat(f, LN2_HIGH), arith.addf(f, y))


def _log_at_its_edges(x: ir.Value, result: ir.Value, lowest: float) -> ir.Value:
    """A logarithm of x: infinite for infinity, minus infinity for the lowest x, NaN below."""
    result = _select_if(arith.CmpFPredicate.OEQ, x, float("inf"), x, result)
    result = _select_if(arith.CmpFPredicate.OEQ, x, lowest, splat(x, float("-inf")), result)
    return _select_if(arith.CmpFPredicate.OGE, x, lowest, result, splat(x, float("nan")))


def splat(like: ir.Value, value: float) -> ir.Value:
    """A constant of a value's type, a vector or a scalar."""
    return splat_of(like.type, value)


def horner(x: ir.Value, coefficients: Sequence[float]) -> ir.Value:
    """Polynomial in x, highest power's coefficient first."""
    result = splat(x, coefficients[0])
    for coefficient in coefficients[1:]:
        result = math.fma(result, x, splat(x, coefficient))
    return result


def _select_if(
    predicate: arith.CmpFPredicate, x: ir.Value, bound: float, then: ir.Value, otherwise: ir.Value
) -> ir.Value:
    return arith.select(arith.cmpf(predicate, x, splat(x, bound)), then, otherwise)


def _at_least(x: ir.Value, bound: float) -> ir.Value:
    """max(x, bound); the comparison is false for NaN, which therefore passes through."""
    return _select_if(arith.CmpFPredicate.OLT, x, bound, splat(x, bound), x)


def _at_most(x: ir.Value, bound: float) -> ir.Value:
    return _select_if(arith.CmpFPredicate.OGT, x, bound, splat(x, bound), x)


def _low_bits_as_exponent(x: ir.Value) -> ir.Value:
    """Shift what the lowest bits of x hold to where the exponent is."""
    bits = arith.bitcast(_integers(x), x)
    return arith.bitcast(x.type, arith.shli(bits, splat_whole(x, EXPONENT_BITS)))


def _integers(like: ir.Value) -> ir.Type:
    kind, i32 = like.type, ir.IntegerType.get_signless(32)
    return ir.VectorType.get(kind.shape, i32) if isinstance(kind, ir.VectorType) else i32


def splat_whole(like: ir.Value, value: int) -> ir.Value:
    """A constant of whole numbers, as many as a value has."""
    return splat_of(_integers(like), value)


POLYNOMIALS = {
    "math.exp": expand_exp,
    "math.tanh": expand_tanh,
    "math.erf": expand_erf,
    "math.log": expand_log,
    "math.log1p": expand_log1p,
}
SCALARS = tuple(f"math.{name}" for name in ("acosh", "asinh", "atanh", "cbrt", "erf", "erfc"))  # for upstream


def approximate(module: ir.Module) -> None:
    """Replace functions of f32 vectors everywhere in a module, in place; scalars, and what is marked, keep libm."""
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
        kind = op.result.type
        if not (isinstance(kind, ir.VectorType) and isinstance(kind.element_type, ir.F32Type)):
            return True  # no match
        if LIBM in op.operation.attributes:
            return True
        with rewriter.ip:
            rewriter.replace_op(op, [expand(op.operands[0])])
        return False

    return rewrite


def _call_by_lanes(op: ir.OpView, rewriter: PatternRewriter) -> bool:
    """Turn a function of a vector into one of each lane, where no polynomial replaced it."""
    kind, name = op.result.type, op.operation.name
    if not isinstance(kind, ir.VectorType):
        return True  # no match
    if name in POLYNOMIALS and isinstance(kind.element_type, ir.F32Type) and LIBM not in op.operation.attributes:
        return True
    with rewriter.ip:
        lanes = [
            ir.Operation.create(name, [kind.element_type], [vector.extract(op.operands[0], [], list(position))]).result
            for position in product(*map(range, kind.shape))
        ]
        rewriter.replace_op(op, [vector.from_elements(kind, lanes)])
    return False


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
        reciprocal = vector.broadcast(kind, arith.divf(splat(one, 1.0), one))
        rewriter.replace_op(op, [arith.mulf(op.operands[0], reciprocal)])
    return False


def _widen_by_shift(op: ir.OpView, rewriter: PatternRewriter) -> bool:
    """Turn bf16 into f32 by a shift of its bits, which is exact; LLVM does it lane by lane."""
    kind = op.operands[0].type
    if not isinstance(kind, ir.VectorType) or not isinstance(kind.element_type, ir.BF16Type):
        return True  # no match
    if not isinstance(ir.VectorType(op.result.type).element_type, ir.F32Type):
        return True
    half, whole = (ir.VectorType.get(kind.shape, ir.IntegerType.get_signless(bits)) for bits in (16, 32))
    with rewriter.ip:
        wide = arith.extui(whole, arith.bitcast(half, op.operands[0]))
        rewriter.replace_op(op, [arith.bitcast(op.result.type, arith.shli(wide, splat_of(whole, 16)))])
    return False
