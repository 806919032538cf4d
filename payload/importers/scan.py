"""Partial sums as small products: our MLIR has no scan.

    y[i] = x[0] + ... + x[i]   ->   x in blocks;  y = block @ triangle of ones + sums of the blocks before

With blocks of 16 an element takes 16 products, not as many as there are elements.
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


def triangle(side: int, *, exclusive: bool = False, reverse: bool = False, last: bool = True) -> Array:
    """Ones that make partial sums of a product with them.

    Args:
        side: Rows and columns.
        exclusive: Whether an element is no part of its own sum.
        reverse: Sums begin at the last element.
        last: Whether it is the second factor, of rows that are summed; else the first, of columns.
    """
    lower = np.tri(side, k=-int(exclusive), dtype=np.float32)
    return np.ascontiguousarray(lower if last == reverse else lower.T)
