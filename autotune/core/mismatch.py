"""Comparison of results with those of another program of the same computation; mismatches are described in words."""

from collections.abc import Iterator

import numpy as np

from autotune.core.payload import Array

TOLERANCE = 5e-3  # relative to the largest value: f32 sums in another order, against f64
LOOSE = 5e-2  # the same where intermediate values are rounded to f16 or to 8 bits
LEAST = float(np.finfo(np.float32).tiny)  # smaller values underflow in f32, and not in f64
FEW = 1e-3  # share of integers and booleans that may differ, since rounding decides comparisons


def mismatches(ours: Array, theirs: Array, tolerance: float, slack: float = 0.0, part: float = 0.0) -> Iterator[str]:
    """Describe in words how results differ from expected ones; yield nothing if they agree.

    Args:
        ours: Results to check.
        theirs: Expected results. Non-finite elements are not compared: f32 overflows before f64 does.
        tolerance: Largest error of floats, relative to the largest expected value.
        slack: Absolute error that is tolerated in addition.
        part: Share of floats that may exceed the tolerance, where all are finite, since rounding decides discrete
            steps.
    """
    if ours.shape != theirs.shape:
        yield f"its shape must be {theirs.shape}, it is {ours.shape}"
        return
    if not theirs.size:
        return
    if theirs.dtype.kind in "iub":
        apart = np.abs(ours.astype(np.float64) - theirs.astype(np.float64))
        share = float(np.mean(apart > (1 if theirs.dtype.itemsize == 1 and theirs.dtype.kind in "iu" else 0)))
        if share > FEW:
            yield f"{share:.2g} of its elements are others, by up to {apart.max():g}"
        return
    finite = np.isfinite(theirs)
    exact = theirs[finite].astype(np.float64)
    apart, largest = np.abs(ours[finite].astype(np.float64) - exact), float(np.max(np.abs(exact), initial=0.0))
    worst, allowed = float(np.max(apart, initial=0.0)), tolerance * max(largest, LEAST) + slack
    if not worst <= allowed and not (np.isfinite(worst) and np.mean(apart > allowed) <= part):
        yield f"by up to {worst:.3g} where values are at most {largest:.3g}, {tolerance:g} of which is allowed"
