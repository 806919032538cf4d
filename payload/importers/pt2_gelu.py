"""Functions of PyTorch's programs, written out: torch-mlir takes others instead."""

from math import pi, sqrt
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

CUBIC = 0.044715  # Hendrycks and Gimpel, Gaussian Error Linear Units, 2016


def gelu(x: "Tensor", *, approximate: str = "none") -> Any:  # noqa: ANN401 - a tensor, or `NotImplemented`
    """What ``aten.gelu`` gives, where it is approximated by tanh; else it is left to the converter."""
    import torch  # noqa: PLC0415 - comes with an extra

    if approximate != "tanh":
        return NotImplemented
    return 0.5 * x * (1.0 + torch.tanh(sqrt(2.0 / pi) * (x + CUBIC * x * x * x)))


def power(x: "Tensor", exponent: float) -> Any:  # noqa: ANN401
    """What ``aten.pow`` gives for a half: a root, which of minus infinity is NaN, a power is not.

    Of whole numbers by one: products, which wrap around as theirs do; by a real number: of real numbers.
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
    """A power of whole numbers by squares: of ``x``, ``x**2``, ``x**4``, .. those that the exponent's bits say."""
    import torch  # noqa: PLC0415

    found, square, bits = None, x, int(exponent)
    while bits:
        if bits & 1:
            found = square if found is None else found * square
        bits >>= 1
        square = square * square if bits else square
    return torch.ones_like(x) if found is None else found.clone() if found is x else found
