"""What a block of a kernel does, counted: instructions of warps, and what memory moves for them."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

WARP, BANKS, SECTOR_BYTES, WORD_BYTES = 32, 32, 32, 4

Numbers = npt.NDArray[np.int64]


@dataclass
class BlockCounts:
    """BlockCounts of one block; an instruction is one of a warp of 32 threads.

    Attributes:
        arithmetic: Instructions that compute in f32.
        fused: Multiply-adds among them.
        special: Instructions such as exponentials and divisions among them.
        other: Instructions that compute indices and conditions.
        shared: Cycles that workgroup memory takes, conflicts of its banks counted.
        moved: Instructions that load or store.
        fetched: Those among them on global memory.
        sectors: Sectors of 32 bytes of global memory that they touch.
        barriers: Barriers.
        steps: Instructions and barriers, those for the elements of one vector counted once: they need not wait for
            each other.
    """

    arithmetic: int = 0
    fused: int = 0
    special: int = 0
    other: int = 0
    shared: int = 0
    moved: int = 0
    fetched: int = 0
    sectors: int = 0
    barriers: int = 0
    steps: int = 0

    @property
    def instructions(self) -> int:
        """All that a warp issues."""
        return self.arithmetic + self.other + self.moved + self.barriers


def bank_cycles(warps: Numbers, words: Numbers) -> int:
    """Cycles that workgroup memory takes: words of one bank come one after the other, equal ones at once.

    Args:
        warps: Warp of each access.
        words: Number of the word.
    """
    pairs = np.unique(np.stack([warps, words]), axis=1)
    most = int(pairs[0].max(initial=0)) + 1
    busy = np.bincount(pairs[0] * BANKS + pairs[1] % BANKS, minlength=most * BANKS)
    return int(busy.reshape(most, BANKS).max(axis=1).sum())


def sectors_touched(warps: Numbers, words: Numbers) -> int:
    """Sectors of global memory that warps touch at one op.

    Args:
        warps: Warp of each access.
        words: Number of the word.
    """
    return int(np.unique(np.stack([warps, words * WORD_BYTES // SECTOR_BYTES]), axis=1).shape[1])
