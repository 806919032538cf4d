"""Winograd's minimal filtering F(m x m, r x r) in exact arithmetic, and the transform of convolution kernels.

    y = A^T [(G g G^T) * (B^T d B)] A         d: (m + r - 1)^2 inputs, g: r^2 taps, y: m^2 outputs, *: element-wise

A tile of outputs takes (m + r - 1)^2 multiplications instead of m^2 r^2. The matrices are those of Toom and Cook:
polynomials are multiplied by their values at some points and at infinity. (A. Lavin, S. Gray, "Fast Algorithms for
Convolutional Neural Networks", 2016.)
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import prod

import numpy as np

from autotune.core.payload import Array

Matrix = tuple[tuple[Fraction, ...], ...]
TAPS = 3  # filter size along each dimension, r
# Points by outputs of a tile: zero, then pairs of opposite sign, which share sums. The error for four outputs is a
# quarter of that of the usual points 1 and 2 (256 channels of standard normal values: 2.7e-6 of the largest output,
# against 1e-5 with 1 and 2, and 1.5e-6 for direct sums).
POINTS = {
    2: (Fraction(0), Fraction(1), Fraction(-1)),
    4: (Fraction(0), Fraction(3, 4), Fraction(-3, 4), Fraction(3, 2), Fraction(-3, 2)),
}


@dataclass(frozen=True)
class Filtering:
    """Minimal filtering along each of two dimensions.

    Attributes:
        outputs: Outputs per tile and dimension, m: 2 or 4.
    """

    outputs: int

    @property
    def name(self) -> str:
        """Name of the family, and of the form in which its filters are stored."""
        return f"winograd_f{self.outputs}"

    @property
    def inputs(self) -> int:
        """Inputs per tile and dimension, which is also the number of its multiplications."""
        return self.outputs + TAPS - 1

    @property
    def points(self) -> tuple[Fraction, ...]:
        """Finite interpolation points."""
        return POINTS[self.outputs]

    @cached_property
    def of_outputs(self) -> Matrix:
        """A^T (m, m + r - 1): powers of the points."""
        last = self.outputs - 1
        return tuple(
            (*(point**power for point in self.points), Fraction(power == last)) for power in range(self.outputs)
        )

    @cached_property
    def of_taps(self) -> Matrix:
        """G (m + r - 1, r): powers of the points, divided by the scale that `of_inputs` leaves out."""
        scales = [prod(point - other for other in self.points if other != point) for point in self.points]
        rows = [
            tuple(point**power / scale for power in range(TAPS))
            for point, scale in zip(self.points, scales, strict=True)
        ]
        return (*rows, tuple(Fraction(power == TAPS - 1) for power in range(TAPS)))

    @cached_property
    def of_inputs(self) -> Matrix:
        """B^T (m + r - 1, m + r - 1): coefficients of polynomials that vanish at all points but one, or at all."""
        rows = [product_of_roots([other for other in self.points if other != point]) for point in self.points]
        return (*((*row, Fraction(0)) for row in rows), product_of_roots(self.points))

    @cached_property
    def factors(self) -> tuple[Fraction, ...]:
        """Distinct factors of multiplications in the transforms of tiles."""
        coefficients = {factor for row in (*self.of_inputs, *self.of_outputs) for factor in row}
        return tuple(sorted(factor for factor in coefficients if abs(factor) not in (0, 1)))

    def transform(self, kernel: Array) -> Array:
        """Return G g G^T of every filter.

        Args:
            kernel: Taps ``(r, r, channels, filters)``, f32.

        Returns:
            ``(m + r - 1, m + r - 1, channels, filters)``, f32, computed in f64.
        """
        of_taps = np.array(self.of_taps, dtype=np.float64)
        transformed: Array = np.einsum("ui,vj,ijcf->uvcf", of_taps, of_taps, kernel.astype(np.float64), optimize=True)
        return transformed.astype(np.float32)


def product_of_roots(roots: tuple[Fraction, ...] | list[Fraction]) -> tuple[Fraction, ...]:
    """Return the coefficients of the product of ``x - root``, the constant first.

    Example:
        >>> [int(each) for each in product_of_roots([Fraction(1), Fraction(-1)])]
        [-1, 0, 1]
    """
    coefficients = [Fraction(1)]
    for root in roots:
        coefficients = [
            high - root * low
            for high, low in zip([Fraction(0), *coefficients], [*coefficients, Fraction(0)], strict=True)
        ]
    return tuple(coefficients)
