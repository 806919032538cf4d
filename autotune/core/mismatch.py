"""How far results are from those of another program that computes the same: in words, where they are too far."""

from collections.abc import Iterator

import numpy as np

from autotune.core.payload import Array

TOLERANCE = 5e-3  # of the largest value: sums of f32 in another order, against f64
LOOSE = 5e-2  # the same where values are rounded on the way, to f16 or to 8 bits
LEAST = float(np.finfo(np.float32).tiny)  # below, f32 gives zeros where f64 does not
FEW = 1e-3  # part of the integers and booleans that may differ, as rounding decides comparisons


def mismatches(ours: Array, theirs: Array, tolerance: float, slack: float = 0.0, part: float = 0.0) -> Iterator[str]:
    """In words, how far results are from those of another program; nothing if they agree.

    Args:
        ours: Results that are judged.
        theirs: What they must be. What is not finite here is not compared: f32 ends before f64 does.
        tolerance: How far floats may be, as part of the largest.
        slack: How far they may be besides, absolute.
        part: Share of floats that may be further off, as rounding decides steps; such as are finite in both.
    """
    if ours.shape != theirs.shape:
        yield f"its shape must be {theirs.shape}, it is {ours.shape}"
        return
    if not theirs.size:
        return
    if theirs.dtype.kind in "iub":
        apart = np.abs(ours.astype(np.float64) - theirs.astype(np.float64))
        others = float(np.mean(apart > (1 if theirs.dtype.itemsize == 1 and theirs.dtype.kind in "iu" else 0)))
        if others > FEW:
            yield f"{others:.2g} of its elements are others, by up to {apart.max():g}"
        return
    finite = np.isfinite(theirs)
    exact = theirs[finite].astype(np.float64)
    apart, largest = np.abs(ours[finite].astype(np.float64) - exact), float(np.max(np.abs(exact), initial=0.0))
    worst, allowed = float(np.max(apart, initial=0.0)), tolerance * max(largest, LEAST) + slack
    if not worst <= allowed and not (np.isfinite(worst) and np.mean(apart > allowed) <= part):
        yield f"by up to {worst:.3g} where values are at most {largest:.3g}, {tolerance:g} of which is allowed"
