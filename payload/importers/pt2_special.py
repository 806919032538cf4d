"""Decompositions of special functions of PyTorch, which torch-mlir does not lower.

    erfc(x) = t exp(-x^2 + p(t)), t = 1 / (1 + x / 2), for x >= 0; erfc(-x) = 2 - erfc(x)
    lgamma(x) = (1 + d) d q(d) plus or minus log of the factors between x and 2 + d, -0.5 <= d < 0.5
    digamma(x) = log(y) - series of 1 / y - sum of 1 / (x + k), y = x + 6
    i0(x) = polynomial of x^2, or exp(x) / sqrt(x) times a polynomial of 1 / x

Large arguments of lgamma have Stirling's series; negative ones are reflected, also those of digamma. Errors are those
of f32.
"""

from collections.abc import Callable
from math import inf, log, nan, pi
from typing import TYPE_CHECKING

from payload.importers.pt2_gelu import horner

if TYPE_CHECKING:
    from torch import Tensor

# Press et al., Numerical Recipes in C, 2nd edition, 6.2: relative error at most 1.2e-7
ERFC = (
    *(0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807),
    *(-0.18628806, 0.09678418, 0.37409196, 1.00002368, -1.26551223),
)
ERFC_END = 12.0  # from here on, erfc is 0 in f32
# Chebyshev approximation of lgamma(2 + d) / ((1 + d) d), -0.5 <= d <= 0.5: relative error at most 3e-9
LGAMMA = (
    *(0.00020588579, -0.0004564478114, 0.0009108883049, -0.002098373119, 0.004998956319),
    *(-0.0123848772, 0.03296499469, -0.1003172888, 0.4227843351),
)
LGAMMA_STEPS = 6  # the most steps down to 2 + d; for larger arguments Stirling's series is exact in f32
LGAMMA_SERIES = (1 / 1260, -1 / 360, 1 / 12)  # Abramowitz and Stegun, 6.1.41
DIGAMMA_SERIES = (-1 / 252, 1 / 120, -1 / 12)  # 6.3.18
DIGAMMA_STEPS = 6
# 9.8.1 and 9.8.2: relative error at most 2e-7
I0_CENTRE = (0.0045813, 0.0360768, 0.2659732, 1.2067492, 3.0899424, 3.5156229, 1.0)
I0_TAIL = (
    *(0.00392377, -0.01647633, 0.02635537, -0.02057706, 0.00916281),
    *(-0.00157565, 0.00225319, 0.01328592, 0.39894228),
)
I0_FAR = 3.75  # from here on, the tail


def in_f32(function: "Callable[[Tensor], Tensor]") -> "Callable[[Tensor], Tensor]":
    """Compute a function of floats of 16 bits, or of integers, in f32; other floats keep their type."""

    def computed(x: "Tensor") -> "Tensor":
        import torch  # noqa: PLC0415 - comes with an extra

        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        return function(wide).to(x.dtype if x.is_floating_point() else torch.get_default_dtype())

    return computed


@in_f32
def complement_of_erf(x: "Tensor") -> "Tensor":
    """Compute ``aten.erfc``, with a small relative error also where the result is small."""
    import torch  # noqa: PLC0415

    size = torch.where(x.abs() > ERFC_END, ERFC_END, x.abs())
    t = 1.0 / (1.0 + 0.5 * size)
    rounded = torch.floor(size * 16.0) / 16.0  # its square is exact
    result = t * torch.exp(-rounded * rounded) * torch.exp((rounded - size) * (rounded + size) + horner(t, ERFC))
    return torch.where(x < 0, 2.0 - result, result)


@in_f32
def log_of_gamma(x: "Tensor") -> "Tensor":
    """Compute ``aten.lgamma``, the logarithm of the size of the gamma function: infinity at poles and infinities."""
    import torch  # noqa: PLC0415

    size = x.abs()
    reflected = log(pi) - torch.log(size * sine_of_pi(size)) - log_of_gamma_on_the_right(size)
    result = torch.where(x < -0.5, reflected, log_of_gamma_on_the_right(x))
    is_pole = (x <= 0) & (torch.floor(x) == x)
    return torch.where(is_pole | (size == inf), inf, result)


def log_of_gamma_on_the_right(x: "Tensor") -> "Tensor":
    """Compute the logarithm of the size of the gamma function of numbers from -0.5 on, except 0."""
    import torch  # noqa: PLC0415

    inverse = 1.0 / x
    series = inverse * horner(inverse * inverse, LGAMMA_SERIES)
    far = (x - 0.5) * (torch.log(x) - 1.0) + (0.5 * log(2.0 * pi) - 0.5) + series
    factors = torch.where(x < 0.5, x.abs() * (x + 1.0), torch.where(x < 1.5, x, 1.0))
    d = torch.where(x < 0.5, x, torch.where(x < 1.5, x - 1.0, x - 2.0))  # exact, as lgamma is 0 at 1 and 2
    for _ in range(LGAMMA_STEPS):
        is_behind = d >= 0.5
        factors = torch.where(is_behind, factors * (d + 1.0), factors)
        d = torch.where(is_behind, d - 1.0, d)
    between = torch.log(factors)
    near = d * (d + 1.0) * horner(d, LGAMMA) + torch.where(x < 1.5, -between, between)
    return torch.where(x < 2.5 + LGAMMA_STEPS, near, far)


def sine_of_pi(x: "Tensor") -> "Tensor":
    """Compute the size of the sine of pi times a number, small where the number is almost whole."""
    import torch  # noqa: PLC0415

    part = x - torch.floor(x)
    return torch.sin(pi * torch.minimum(part, 1.0 - part))


@in_f32
def digamma(x: "Tensor") -> "Tensor":
    """Compute ``aten.digamma``: NaN at negative integers, an infinity of the other sign at zero."""
    import torch  # noqa: PLC0415

    y = torch.where(x < 0, 1.0 - x, x)
    steps = torch.zeros_like(y)
    for _ in range(DIGAMMA_STEPS):
        steps, y = steps + 1.0 / y, y + 1.0
    inverse = 1.0 / y
    square = inverse * inverse
    positive = torch.log(y) - 0.5 * inverse + square * horner(square, DIGAMMA_SERIES) - steps
    part = x - torch.round(x)
    reflected = positive - pi * torch.cos(pi * part) / torch.sin(pi * part)
    reflected = torch.where((part == 0) | (x == -inf), nan, reflected)
    return torch.where(x == 0, -1.0 / x, torch.where(x == inf, x, torch.where(x < 0, reflected, positive)))


@in_f32
def bessel_i0(x: "Tensor") -> "Tensor":
    """Compute ``aten.i0``, the modified Bessel function of the first kind, order 0: NaN at infinity, as in PyTorch."""
    import torch  # noqa: PLC0415

    size = x.abs()
    t = torch.where(size < I0_FAR, size, 0.0) / I0_FAR
    large = torch.where(size < I0_FAR, I0_FAR, size)
    half = torch.exp(0.5 * large)  # the whole exponential overflows before the result does
    far = half * (horner(I0_FAR / large, I0_TAIL) / torch.sqrt(large)) * half
    return torch.where(size < I0_FAR, horner(t * t, I0_CENTRE), far)
