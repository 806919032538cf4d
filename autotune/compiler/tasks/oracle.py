"""Oracles of tasks: what a single contraction should give, in float64 NumPy."""

import numpy as np

from autotune.core.loop_nest import Contraction
from autotune.core.payload import Array


def contract(
    contraction: Contraction, start: float, in0: Array, in1: Array, in2: Array | None = None
) -> tuple[Array, ...]:
    """The oracle of a contraction, in float64; arguments have the names that outlining gives them.

    Args:
        contraction: Sizes and layout.
        start: Value of every element of C before.
        in0: A, as stored.
        in1: B, as stored.
        in2: C before, where that is an argument; added to `start`.
    """
    a, b = in0.astype(np.float64), in1.astype(np.float64)
    if contraction.transposed_a:
        a = a.swapaxes(-1, -2)
    if contraction.transposed_b:
        b = b.swapaxes(-1, -2)
    return (start + a @ b + (0.0 if in2 is None else in2),)
