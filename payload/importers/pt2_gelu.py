"""Decompositions of PyTorch functions that torch-mlir lowers to different ones."""

from math import inf, pi, sqrt
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

CUBIC = 0.044715  # Hendrycks and Gimpel, Gaussian Error Linear Units, 2016
# Giles, Approximating the erfinv function, 2012: polynomials of w = -log(1 - x * x), from the highest power
CENTRE = (
    *(2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087),
    *(-0.00125372503, -0.00417768164, 0.246640727, 1.50140941),
)
TAIL = (
    *(-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773),
    *(-0.0076224613, 0.00943887047, 1.00167406, 2.83297682),
)
FAR = 5.0  # from where on it is that of the tail


def gelu(x: "Tensor", *, approximate: str = "none") -> Any:  # noqa: ANN401 - a tensor, or `NotImplemented`
    """Decompose the tanh approximation of ``aten.gelu``; the exact form is left to the converter."""
    import torch  # noqa: PLC0415 - comes with an extra

    if approximate != "tanh":
        return NotImplemented
    return 0.5 * x * (1.0 + torch.tanh(sqrt(2.0 / pi) * (x + CUBIC * x * x * x)))


def power(x: "Tensor", exponent: float) -> Any:  # noqa: ANN401
    """Decompose ``aten.pow`` with exponents of one half to roots, which are NaN for minus infinity as in PyTorch.

    A power of integers with an integer exponent becomes products, which wrap around as in PyTorch; with a float
    exponent, the base is converted to float.
    """
    import torch  # noqa: PLC0415

    kind = torch.result_type(x, exponent)
    if x.dtype != kind:
        return torch.pow(x.to(kind), exponent)
    if not kind.is_floating_point and not kind.is_complex:
        return whole_power(x, exponent) if exponent >= 0 else NotImplemented
    roots = {0.5: torch.sqrt, -0.5: torch.rsqrt}
    return roots[exponent](x) if exponent in roots and x.is_floating_point() else NotImplemented


def whole_power(x: "Tensor", exponent: float) -> "Tensor":
    """Compute a power of integers by repeated squaring."""
    import torch  # noqa: PLC0415

    result, square, bits = None, x, int(exponent)
    while bits:
        if bits & 1:
            result = square if result is None else result * square
        bits >>= 1
        square = square * square if bits else square
    return torch.ones_like(x) if result is None else result.clone() if result is x else result


def inverse_of_erf(x: "Tensor") -> "Tensor":
    """Compute ``aten.erfinv``, in f32 with a relative error of 3e-7: infinity at 1, NaN beyond."""
    import torch  # noqa: PLC0415

    x = x if x.is_floating_point() else x.to(torch.get_default_dtype())
    w = -torch.log((1.0 - x) * (1.0 + x))
    centre, tail = horner(w - FAR / 2, CENTRE), horner(torch.sqrt(w) - 3.0, TAIL)
    return torch.where(x.abs() == 1, x * inf, x * torch.where(w < FAR, centre, tail))


def horner(x: "Tensor", coefficients: "Sequence[float]") -> "Tensor":
    """Evaluate a polynomial, the coefficient of the highest power first."""
    first, second, *others = coefficients
    result = x * first + second
    for coefficient in others:
        result = result * x + coefficient
    return result


def has_sign(x: "Tensor") -> "Tensor":
    """Compute ``aten.signbit``, also of zeros; false for NaN."""
    import torch  # noqa: PLC0415

    if not x.is_floating_point():
        return torch.zeros_like(x) if x.dtype == torch.bool else x < 0
    return (x < 0) | ((x == 0) & (1.0 / x < 0))


def with_sign(x: "Tensor", sign: "Tensor") -> "Tensor":
    """What ``aten.copysign`` gives: the size of a number with the sign of another."""
    import torch  # noqa: PLC0415

    kind = torch.result_type(x, sign)
    size = x.to(kind if kind.is_floating_point else torch.get_default_dtype()).abs()
    return torch.where(has_sign(sign), -size, size)
