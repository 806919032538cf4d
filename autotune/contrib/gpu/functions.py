"""Functions that SPIR-V has no form of, or one that loses digits near zero, in arithmetic that both endings have.

What is verified on the CPU is then what PTX computes, too. erf, tanh and log1p are those of the CPU's vectors
(`compiler/passes/vector_math`). All others are left to the device: exp, log, sin, roots and the like.
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
NEAR, TERMS = 0.5, 9  # up to where exp(x) - 1 is its series, and of how many terms: the next one is below 3e-10 of x
# Cephes, asinf and atanf: odd polynomials of x**2, highest power first, without the x itself.
ASIN = (4.2163199048e-2, 2.4181311049e-2, 4.5470025998e-2, 7.4953002686e-2, 1.6666752422e-1)
ATAN = (8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1, -3.33329491539e-1)
TAN_EIGHTH = 0.4142135623730950  # of pi
LEAST, MOST = -160.0, 160.0  # powers of two beyond which f32 has 0 and infinity
BIAS, EXPONENT_BITS = 127, 23


def expand_erfc(x: ir.Value) -> ir.Value:
    """1 - erf(x), to a few units of the last place also where it is tiny."""
    size = math.absf(x)
    t = arith.divf(splat(x, 1.0), math.fma(size, splat(x, 0.5), splat(x, 1.0)))
    exponent = arith.subf(horner(t, ERFC), arith.mulf(size, size))
    tail = arith.mulf(t, math.exp(exponent))
    return select("olt", x, splat(x, 0.0), arith.subf(splat(x, 2.0), tail), tail)


def expand_expm1(x: ir.Value) -> ir.Value:
    """exp(x) - 1, by its series near zero."""
    series = arith.mulf(x, horner(x, [1 / factorial(n) for n in range(TERMS, 0, -1)]))
    return select("olt", math.absf(x), splat(x, NEAR), series, arith.subf(math.exp(x), splat(x, 1.0)))


def expand_exp2(x: ir.Value) -> ir.Value:
    """2**x: a whole power, in two factors so that neither overflows, times one of at most a half."""
    inside = arith.minnumf(arith.maxnumf(x, splat(x, LEAST)), splat(x, MOST))
    whole = math.roundeven(inside)
    half = math.floor(arith.mulf(whole, splat(x, 0.5)))
    part = math.exp(arith.mulf(arith.subf(inside, whole), splat(x, log(2))))
    power = arith.mulf(arith.mulf(part, power_of_two(half)), power_of_two(arith.subf(whole, half)))
    return select("uno", x, x, x, power)


def power_of_two(exponent: ir.Value) -> ir.Value:
    """2 to a whole number from -126 to 127."""
    number = arith.fptosi(splat_whole(exponent, 0).type, exponent)
    bits = arith.shli(arith.addi(number, splat_whole(exponent, BIAS)), splat_whole(exponent, EXPONENT_BITS))
    return arith.bitcast(exponent.type, bits)


def expand_cbrt(x: ir.Value) -> ir.Value:
    """The cube root: by logarithm, then a step of Newton's; 0, infinity and what is no number stay as they are."""
    size = math.absf(x)
    rough = math.exp(arith.divf(math.log(size), splat(x, 3.0)))
    square = arith.mulf(rough, rough)
    off = arith.subf(rough, arith.divf(size, square))
    root = math.copysign(arith.subf(rough, arith.divf(off, splat(x, 3.0))), x)
    plain = select("oeq", size, splat(x, float("inf")), x, root)
    return select("oeq", x, splat(x, 0.0), x, plain)


def expand_trunc(x: ir.Value) -> ir.Value:
    """The whole part."""
    return math.copysign(math.floor(math.absf(x)), x)


def expand_round(x: ir.Value) -> ir.Value:
    """The nearest whole number, halves away from zero."""
    size = math.absf(x)
    below = math.floor(size)
    away = select("oge", arith.subf(size, below), splat(x, 0.5), arith.addf(below, splat(x, 1.0)), below)
    return math.copysign(away, x)


def expand_atan(x: ir.Value) -> ir.Value:
    """The arc tangent, as Cephes: beyond tan(pi / 8) that of (x - 1) / (x + 1), and pi / 4 more."""
    size = math.absf(x)
    one, small = splat(x, 1.0), select("ogt", size, splat(x, 1.0), arith.divf(splat(x, 1.0), size), size)
    beyond = arith.divf(arith.subf(small, one), arith.addf(small, one))
    near = select("ogt", small, splat(x, TAN_EIGHTH), beyond, small)
    square = arith.mulf(near, near)
    angle = math.fma(arith.mulf(horner(square, ATAN), square), near, near)
    angle = select("ogt", small, splat(x, TAN_EIGHTH), arith.addf(angle, splat(x, pi / 4)), angle)
    angle = select("ogt", size, one, arith.subf(splat(x, pi / 2), angle), angle)
    return math.copysign(angle, x)


def expand_atan2(y: ir.Value, x: ir.Value) -> ir.Value:
    """The angle of a point, from -pi to pi: that of the smaller over the larger coordinate, turned to its octant."""
    height, width = math.absf(y), math.absf(x)
    low, high = arith.minimumf(height, width), arith.maximumf(height, width)
    ratio = select("oeq", low, high, splat(x, 1.0), arith.divf(low, high))
    ratio = select("oeq", high, splat(x, 0.0), splat(x, 0.0), ratio)
    angle = expand_atan(ratio)
    angle = select("ogt", height, width, arith.subf(splat(x, pi / 2), angle), angle)
    left = select("olt", math.copysign(splat(x, 1.0), x), splat(x, 0.0), arith.subf(splat(x, pi), angle), angle)
    return math.copysign(left, y)


def expand_asin(x: ir.Value) -> ir.Value:
    """The arc sine, as Cephes: beyond a half by that of the root of (1 - x) / 2."""
    size = math.absf(x)
    rest = arith.mulf(arith.subf(splat(x, 1.0), size), splat(x, 0.5))
    far = arith.cmpf(PREDICATES["ogt"], size, splat(x, 0.5))
    square = arith.select(far, rest, arith.mulf(size, size))
    near = arith.select(far, math.sqrt(rest), size)
    angle = math.fma(arith.mulf(horner(square, ASIN), square), near, near)
    reflected = arith.subf(splat(x, pi / 2), arith.mulf(angle, splat(x, 2.0)))
    return math.copysign(arith.select(far, reflected, angle), x)


def expand_acos(x: ir.Value) -> ir.Value:
    """The arc cosine: from one on by twice the arc sine of the root of (1 - x) / 2, which loses nothing there."""
    root = math.sqrt(arith.mulf(arith.subf(splat(x, 1.0), x), splat(x, 0.5)))
    near = arith.mulf(expand_asin(root), splat(x, 2.0))
    return select("ogt", x, splat(x, 0.5), near, arith.subf(splat(x, pi / 2), expand_asin(x)))


def expand_sinh(x: ir.Value) -> ir.Value:
    """Half of exp(x) - exp(-x), by what exceeds one; halves of the exponent where exp(x) alone would be infinite."""
    size = math.absf(x)
    above = expand_expm1(size)
    near = arith.divf(above, arith.addf(above, splat(x, 1.0)))
    near = arith.mulf(arith.addf(above, near), splat(x, 0.5))
    half = math.exp(arith.mulf(size, splat(x, 0.5)))
    far = arith.mulf(arith.mulf(half, splat(x, 0.5)), half)
    return math.copysign(select("ogt", size, splat(x, 20.0), far, near), x)


def expand_asinh(x: ir.Value) -> ir.Value:
    """The inverse of sinh, log1p of x + x**2 / (1 + root of x**2 + 1); log(2 x) where squares overflow."""
    size = math.absf(x)
    square = arith.mulf(size, size)
    root = math.sqrt(arith.addf(square, splat(x, 1.0)))
    near = expand_log1p(arith.addf(size, arith.divf(square, arith.addf(root, splat(x, 1.0)))))
    far = arith.addf(math.log(size), splat(x, log(2)))
    return math.copysign(select("ogt", size, splat(x, 1e9), far, near), x)


def expand_acosh(x: ir.Value) -> ir.Value:
    """The inverse of cosh: log1p of t + root of 2 t + t**2, where t = x - 1; log(2 x) where squares overflow."""
    t = arith.subf(x, splat(x, 1.0))
    near = expand_log1p(arith.addf(t, math.sqrt(math.fma(t, t, arith.mulf(t, splat(x, 2.0))))))
    far = arith.addf(math.log(x), splat(x, log(2)))
    return select("ogt", x, splat(x, 1e9), far, near)


def expand_atanh(x: ir.Value) -> ir.Value:
    """The inverse of tanh: half of log1p(2 x / (1 - x)), of the size of x."""
    size = math.absf(x)
    ratio = arith.divf(arith.mulf(size, splat(x, 2.0)), arith.subf(splat(x, 1.0), size))
    return math.copysign(arith.mulf(expand_log1p(ratio), splat(x, 0.5)), x)


def expand_fpowi(x: ir.Value, power: ir.Value) -> ir.Value:
    """A whole power, as any other."""
    return math.powf(x, arith.sitofp(x.type, power))


def expand_remf(x: ir.Value, y: ir.Value) -> ir.Value:
    """What a division leaves, of the sign of x: right as long as the quotient is a whole number that f32 has."""
    size, step = math.absf(x), math.absf(y)
    count = math.floor(arith.divf(size, step))
    rest = math.fma(arith.negf(count), step, size)
    rest = select("olt", rest, splat(x, 0.0), arith.addf(rest, step), rest)
    rest = select("oge", rest, step, arith.subf(rest, step), rest)
    return math.copysign(select("oeq", step, splat(x, float("inf")), size, rest), x)


def expand_clampf(x: ir.Value, low: ir.Value, high: ir.Value) -> ir.Value:
    """At least one value and at most another one."""
    return arith.minimumf(arith.maximumf(x, low), high)


PREDICATES = {name: getattr(arith.CmpFPredicate, name.upper()) for name in ("oeq", "ogt", "oge", "olt", "uno")}


def select(predicate: str, x: ir.Value, y: ir.Value, then: ir.Value, otherwise: ir.Value) -> ir.Value:
    """One of two values, as a comparison says."""
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
    """Write the functions of `EXPANDED` as arithmetic, of scalars and vectors of f32, in place."""
    patterns = RewritePatternSet()
    for name, expand in EXPANDED.items():
        patterns.add(name, _rewrite_with(expand))
    walk_and_apply_patterns(module.operation, patterns.freeze())


def _rewrite_with(expand: Callable[..., ir.Value]) -> Callable[[ir.OpView, PatternRewriter], bool]:
    def rewrite(op: ir.OpView, rewriter: PatternRewriter) -> bool:
        kind = op.result.type
        element = kind.element_type if isinstance(kind, ir.VectorType) else kind
        if not isinstance(element, ir.F32Type):
            return True  # no match
        with rewriter.ip:
            rewriter.replace_op(op, [expand(*op.operands)])
        return False

    return rewrite
