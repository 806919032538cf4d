"""`ContractionOracle`: reference result of a single contraction, in float64 NumPy."""

from dataclasses import dataclass

import numpy as np

from autotune.core.ops.op import Contraction
from autotune.core.payload import Array


@dataclass(frozen=True)
class ContractionOracle:
    """Oracle of a contraction: plain data with the call signature of `Payload.reference`.

    Attributes:
        contraction: Sizes and layout.
        start: Initial value of every element of C.
    """

    contraction: Contraction
    start: float

    def __call__(self, in0: Array, in1: Array, in2: Array | None = None) -> tuple[Array, ...]:
        """Return C after the contraction; parameters have the names that outlining gives the arguments.

        Args:
            in0: A, as stored.
            in1: B, as stored.
            in2: Initial C, where that is an argument; added to `start`.
        """
        a, b = in0.astype(np.float64), in1.astype(np.float64)
        if self.contraction.transposed_a:
            a = a.swapaxes(-1, -2)
        if self.contraction.transposed_b:
            b = b.swapaxes(-1, -2)
        return (self.start + a @ b + (0.0 if in2 is None else in2),)
