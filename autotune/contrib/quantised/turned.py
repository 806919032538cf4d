"""Square blocks of words turned over in registers."""

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import vector

SIDE = 16


def turned(rows: Sequence[ir.Value]) -> list[ir.Value]:
    """The columns of 16 vectors of 16 words: in four rounds, halves of each size change places."""
    found = list(rows)
    for distance in (8, 4, 2, 1):
        low = [lane if lane & distance == 0 else SIDE + lane - distance for lane in range(SIDE)]
        high = [lane + distance if lane & distance == 0 else SIDE + lane for lane in range(SIDE)]
        for first in range(SIDE):
            if first & distance == 0:
                pair = found[first], found[first + distance]
                found[first], found[first + distance] = (vector.shuffle(*pair, lanes) for lanes in (low, high))
    return found
