"""Oracles of tasks: what a single contraction should give, in float64 NumPy."""

from dataclasses import dataclass

import numpy as np

from autotune.core.ops.op import Contraction
from autotune.core.payload import Array


@dataclass(frozen=True)
class ContractionOracle:
    """The oracle of a contraction: plain data that is called as `Payload.reference` is.

    Attributes:
        contraction: Sizes and layout.
        start: Value of every element of C before.
    """

    contraction: Contraction
    start: float

    def __call__(self, in0: Array, in1: Array, in2: Array | None = None) -> tuple[Array, ...]:
        """What C holds after the contraction; arguments have the names that outlining gives them.

        Args:
            in0: A, as stored.
            in1: B, as stored.
            in2: C before, where that is an argument; added to `start`.
        """
        a, b = in0.astype(np.float64), in1.astype(np.float64)
        if self.contraction.transposed_a:
            a = a.swapaxes(-1, -2)
        if self.contraction.transposed_b:
            b = b.swapaxes(-1, -2)
        return (self.start + a @ b + (0.0 if in2 is None else in2),)
