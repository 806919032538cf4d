"""Partial sums as sums of small blocks: our MLIR has no scan.

    y[i] = x[0] + ... + x[i]   ->   x in blocks;  y = sum over j of (x[j] where j <= i, else 0) + sums of blocks before

With blocks of 16 an element takes 16 additions, not as many as there are elements. What is no part of a sum is replaced
by zero, not multiplied by it: that would make NaN of an infinity, in sums that it is no part of.
"""

import numpy as np

from autotune.core.payload import Array

SIDES = (16, 20, 24, 18, 15, 14, 12, 10, 28, 32, 25, 21, 22, 27, 30, 9, 8)  # of a block, the most welcome first
LEAST = 32  # elements that are worth blocks
BEST = SIDES[0]
FEW_COLUMNS = 16  # behind the axis: it is moved to the end first


def side_of(size: int) -> int:
    """Elements of a block of so many; all of them where there are few, else 0 where no block divides them.

    Example:
        >>> [side_of(size) for size in (9, 512, 90, 509)]
        [9, 16, 18, 0]
    """
    if size <= LEAST:
        return size
    return next((side for side in SIDES if size % side == 0), 0)


def triangle(side: int, *, exclusive: bool = False, reverse: bool = False) -> Array:
    """Which elements of a block (rows) are part of which partial sums (columns).

    Args:
        side: Rows and columns.
        exclusive: Whether an element is no part of its own sum.
        reverse: Sums begin at the last element.
    """
    lower = np.tri(side, k=-int(exclusive), dtype=np.bool_)
    return np.ascontiguousarray(lower if reverse else lower.T)
