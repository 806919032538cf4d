"""Expansion of math functions that SPIR-V lacks, or computes inaccurately near zero, to arithmetic of both backends.

SPIR-V, which is verified on the CPU, then computes the same as PTX. erf, tanh and log1p share the expansions of CPU
vectors (`compiler/passes/vector_math`). Other functions are left to the device: exp, log, sin, roots and the like.
"""

from collections.abc import Callable
from math import factorial, log, pi

from mlir import ir
from mlir.dialects import arith, math
from mlir.rewrite import PatternRewriter, RewritePatternSet, walk_and_apply_patterns

from autotune.compiler.passes.vector_math import expand_erf, expand_log1p, expand_tanh, horner, splat, splat_whole

# Numerical Recipes, 3rd edition, section 6.2.2: relative error at most 1.2e-7 everywhere, highest power first.
ERFC = (
    0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807, -0.18628806, 0.09678418, 0.37409196, 1.00002368,
    -1.26551223,
)  # fmt: skip
NEAR, TERMS = 0.5, 9  # of the series of exp(x) - 1: largest |x|, and terms; the next one is below 3e-10 of x
# Cephes, asinf and atanf: odd polynomials of x**2, highest power first, without the x itself.
ASIN = (4.2163199048e-2, 2.4181311049e-2, 4.5470025998e-2, 7.4953002686e-2, 1.6666752422e-1)
ATAN = (8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1, -3.33329491539e-1)
TAN_EIGHTH = 0.4142135623730950  # of pi
LEAST, MOST = -160.0, 160.0  # powers of two beyond which f32 has 0 and infinity
BIAS, EXPONENT_BITS = 127, 23


def expand_erfc(x: ir.Value) -> ir.Value:
    """1 - erf(x), accurate to a few ulps also where it is tiny."""
    magnitude = math.absf(x)
    t = arith.divf(splat(x, 1.0), math.fma(magnitude, splat(x, 0.5), splat(x, 1.0)))
    exponent = arith.subf(horner(t, ERFC), arith.mulf(magnitude, magnitude))
    tail = arith.mulf(t, math.exp(exponent))
    return select("olt", x, splat(x, 0.0), arith.subf(splat(x, 2.0), tail), tail)


def expand_expm1(x: ir.Value) -> ir.Value:
    """exp(x) - 1, by its Taylor series near zero."""
    series = arith.mulf(x, horner(x, [1 / factorial(n) for n in range(TERMS, 0, -1)]))
    return select("olt", math.absf(x), splat(x, NEAR), series, arith.subf(math.exp(x), splat(x, 1.0)))


def expand_exp2(x: ir.Value) -> ir.Value:
    """2**x: an integral power, in two factors so that neither overflows, times 2**f with |f| at most 1/2."""
    clamped = arith.minnumf(arith.maxnumf(x, splat(x, LEAST)), splat(x, MOST))
    integral = math.roundeven(clamped)
    half = math.floor(arith.mulf(integral, splat(x, 0.5)))
    fraction_power = math.exp(arith.mulf(arith.subf(clamped, integral), splat(x, log(2))))
    result = arith.mulf(arith.mulf(fraction_power, power_of_two(half)), power_of_two(arith.subf(integral, half)))
    return select("uno", x, x, x, result)


def power_of_two(exponent: ir.Value) -> ir.Value:
    """2 to an integral power from -126 to 127, by setting the exponent bits."""
    number = arith.fptosi(splat_whole(exponent, 0).type, exponent)
    bits = arith.shli(arith.addi(number, splat_whole(exponent, BIAS)), splat_whole(exponent, EXPONENT_BITS))
    return arith.bitcast(exponent.type, bits)


def expand_cbrt(x: ir.Value) -> ir.Value:
    """Cube root: by logarithm, then one Newton step; 0, infinity and NaN are returned unchanged."""
    magnitude = math.absf(x)
    estimate = math.exp(arith.divf(math.log(magnitude), splat(x, 3.0)))
    square = arith.mulf(estimate, estimate)
    correction = arith.subf(estimate, arith.divf(magnitude, square))
    root = math.copysign(arith.subf(estimate, arith.divf(correction, splat(x, 3.0))), x)
    finite_root = select("oeq", magnitude, splat(x, float("inf")), x, root)
    return select("oeq", x, splat(x, 0.0), x, finite_root)


def expand_trunc(x: ir.Value) -> ir.Value:
    """Integral part."""
    return math.copysign(math.floor(math.absf(x)), x)


def expand_round(x: ir.Value) -> ir.Value:
    """Nearest integral value, halves away from zero."""
    magnitude = math.absf(x)
    below = math.floor(magnitude)
    away = select("oge", arith.subf(magnitude, below), splat(x, 0.5), arith.addf(below, splat(x, 1.0)), below)
    return math.copysign(away, x)


def expand_atan(x: ir.Value) -> ir.Value:
    """Arc tangent, as in Cephes: beyond tan(pi / 8), pi / 4 plus that of (x - 1) / (x + 1)."""
    magnitude = math.absf(x)
    unit, ratio = (
        splat(x, 1.0),
        select("ogt", magnitude, splat(x, 1.0), arith.divf(splat(x, 1.0), magnitude), magnitude),
    )
    beyond = arith.divf(arith.subf(ratio, unit), arith.addf(ratio, unit))
    reduced = select("ogt", ratio, splat(x, TAN_EIGHTH), beyond, ratio)
    square = arith.mulf(reduced, reduced)
    angle = math.fma(arith.mulf(horner(square, ATAN), square), reduced, reduced)
    angle = select("ogt", ratio, splat(x, TAN_EIGHTH), arith.addf(angle, splat(x, pi / 4)), angle)
    angle = select("ogt", magnitude, unit, arith.subf(splat(x, pi / 2), angle), angle)
    return math.copysign(angle, x)


def expand_atan2(y: ir.Value, x: ir.Value) -> ir.Value:
    """Angle of a point, from -pi to pi: atan of the smaller over the larger coordinate, mapped to the octant."""
    height, width = math.absf(y), math.absf(x)
    low, high = arith.minimumf(height, width), arith.maximumf(height, width)
    ratio = select("oeq", low, high, splat(x, 1.0), arith.divf(low, high))
    ratio = select("oeq", high, splat(x, 0.0), splat(x, 0.0), ratio)
    angle = expand_atan(ratio)
    angle = select("ogt", height, width, arith.subf(splat(x, pi / 2), angle), angle)
    left = select("olt", math.copysign(splat(x, 1.0), x), splat(x, 0.0), arith.subf(splat(x, pi), angle), angle)
    return math.copysign(left, y)


def expand_asin(x: ir.Value) -> ir.Value:
    """Arc sine, as in Cephes: beyond 1/2, by that of sqrt((1 - x) / 2)."""
    magnitude = math.absf(x)
    reflected_square = arith.mulf(arith.subf(splat(x, 1.0), magnitude), splat(x, 0.5))
    is_far = arith.cmpf(PREDICATES["ogt"], magnitude, splat(x, 0.5))
    square = arith.select(is_far, reflected_square, arith.mulf(magnitude, magnitude))
    reduced = arith.select(is_far, math.sqrt(reflected_square), magnitude)
    angle = math.fma(arith.mulf(horner(square, ASIN), square), reduced, reduced)
    reflected = arith.subf(splat(x, pi / 2), arith.mulf(angle, splat(x, 2.0)))
    return math.copysign(arith.select(is_far, reflected, angle), x)


def expand_acos(x: ir.Value) -> ir.Value:
    """Arc cosine: above 1/2, twice the arc sine of sqrt((1 - x) / 2), which does not cancel near 1."""
    root = math.sqrt(arith.mulf(arith.subf(splat(x, 1.0), x), splat(x, 0.5)))
    near = arith.mulf(expand_asin(root), splat(x, 2.0))
    return select("ogt", x, splat(x, 0.5), near, arith.subf(splat(x, pi / 2), expand_asin(x)))


def expand_sinh(x: ir.Value) -> ir.Value:
    """(exp(x) - exp(-x)) / 2, by expm1; for large x, exp(x / 2)**2 / 2 instead, since exp(x) may overflow."""
    magnitude = math.absf(x)
    above = expand_expm1(magnitude)
    near = arith.divf(above, arith.addf(above, splat(x, 1.0)))
    near = arith.mulf(arith.addf(above, near), splat(x, 0.5))
    half = math.exp(arith.mulf(magnitude, splat(x, 0.5)))
    far = arith.mulf(arith.mulf(half, splat(x, 0.5)), half)
    return math.copysign(select("ogt", magnitude, splat(x, 20.0), far, near), x)


def expand_asinh(x: ir.Value) -> ir.Value:
    """Inverse hyperbolic sine, log1p(x + x**2 / (1 + sqrt(x**2 + 1))); log(2 x) where squares overflow."""
    magnitude = math.absf(x)
    square = arith.mulf(magnitude, magnitude)
    root = math.sqrt(arith.addf(square, splat(x, 1.0)))
    near = expand_log1p(arith.addf(magnitude, arith.divf(square, arith.addf(root, splat(x, 1.0)))))
    far = arith.addf(math.log(magnitude), splat(x, log(2)))
    return math.copysign(select("ogt", magnitude, splat(x, 1e9), far, near), x)


def expand_acosh(x: ir.Value) -> ir.Value:
    """Inverse hyperbolic cosine, log1p(t + sqrt(2 t + t**2)) with t = x - 1; log(2 x) where squares overflow."""
    t = arith.subf(x, splat(x, 1.0))
    near = expand_log1p(arith.addf(t, math.sqrt(math.fma(t, t, arith.mulf(t, splat(x, 2.0))))))
    far = arith.addf(math.log(x), splat(x, log(2)))
    return select("ogt", x, splat(x, 1e9), far, near)


def expand_atanh(x: ir.Value) -> ir.Value:
    """Inverse hyperbolic tangent: log1p(2 x / (1 - x)) / 2 of |x|, with the sign of x."""
    magnitude = math.absf(x)
    ratio = arith.divf(arith.mulf(magnitude, splat(x, 2.0)), arith.subf(splat(x, 1.0), magnitude))
    return math.copysign(arith.mulf(expand_log1p(ratio), splat(x, 0.5)), x)


def expand_fpowi(x: ir.Value, power: ir.Value) -> ir.Value:
    """Integer power, as a real one."""
    return math.powf(x, arith.sitofp(x.type, power))


def expand_remf(x: ir.Value, y: ir.Value) -> ir.Value:
    """Remainder of a division, with the sign of x; exact as long as f32 represents the truncated quotient."""
    dividend, divisor = math.absf(x), math.absf(y)
    count = math.floor(arith.divf(dividend, divisor))
    remainder = math.fma(arith.negf(count), divisor, dividend)
    remainder = select("olt", remainder, splat(x, 0.0), arith.addf(remainder, divisor), remainder)
    remainder = select("oge", remainder, divisor, arith.subf(remainder, divisor), remainder)
    return math.copysign(select("oeq", divisor, splat(x, float("inf")), dividend, remainder), x)


def expand_clampf(x: ir.Value, low: ir.Value, high: ir.Value) -> ir.Value:
    """Clamp to a range."""
    return arith.minimumf(arith.maximumf(x, low), high)


PREDICATES = {name: getattr(arith.CmpFPredicate, name.upper()) for name in ("oeq", "ogt", "oge", "olt", "uno")}


def select(predicate: str, x: ir.Value, y: ir.Value, then: ir.Value, otherwise: ir.Value) -> ir.Value:
    """Select one of two values by a floating-point comparison."""
    return arith.select(arith.cmpf(PREDICATES[predicate], x, y), then, otherwise)


EXPANDED: dict[str, Callable[..., ir.Value]] = {
    "arith.remf": expand_remf,
    "math.acos": expand_acos,
    "math.acosh": expand_acosh,
    "math.asin": expand_asin,
    "math.asinh": expand_asinh,
    "math.atan": expand_atan,
    "math.atan2": expand_atan2,
    "math.atanh": expand_atanh,
    "math.cbrt": expand_cbrt,
    "math.clampf": expand_clampf,
    "math.erf": expand_erf,
    "math.erfc": expand_erfc,
    "math.exp2": expand_exp2,
    "math.expm1": expand_expm1,
    "math.fpowi": expand_fpowi,
    "math.log1p": expand_log1p,
    "math.round": expand_round,
    "math.sinh": expand_sinh,
    "math.tanh": expand_tanh,
    "math.trunc": expand_trunc,
}


def write_functions(module: ir.Module) -> None:
    """Rewrite the functions of `EXPANDED`, on scalars and vectors of f32, to arithmetic, in place."""
    patterns = RewritePatternSet()
    for name, expand in EXPANDED.items():
        patterns.add(name, _rewrite_with(expand))
    walk_and_apply_patterns(module.operation, patterns.freeze())


def _rewrite_with(expand: Callable[..., ir.Value]) -> Callable[[ir.OpView, PatternRewriter], bool]:
    def rewrite(op: ir.OpView, rewriter: PatternRewriter) -> bool:
        result_type = op.result.type
        element = result_type.element_type if isinstance(result_type, ir.VectorType) else result_type
        if not isinstance(element, ir.F32Type):
            return True  # no match
        with rewriter.ip:
            rewriter.replace_op(op, [expand(*op.operands)])
        return False

    return rewrite
