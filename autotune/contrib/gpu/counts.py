"""Operation counts of one block of a kernel: warp instructions and memory traffic."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

WARP, BANKS, SECTOR_BYTES, WORD_BYTES = 32, 32, 32, 4

Numbers = npt.NDArray[np.int64]


@dataclass
class BlockCounts:
    """Counts of one block, in instructions of a warp of 32 threads.

    Attributes:
        arithmetic: Instructions that compute in f32.
        fused: Multiply-adds among the arithmetic instructions.
        special: Exponentials, divisions and the like among the arithmetic instructions.
        other: Instructions that compute indices and conditions.
        shared: Cycles of workgroup memory, including bank conflicts.
        moved: Loads and stores.
        fetched: Loads and stores of global memory.
        sectors: Sectors of 32 bytes of global memory that are accessed.
        barriers: Barriers.
        steps: Dependent instructions and barriers; those for the elements of one vector are independent and count once.
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
        """Number of issued warp instructions."""
        return self.arithmetic + self.other + self.moved + self.barriers


def bank_cycles(warps: Numbers, words: Numbers) -> int:
    """Return the cycles of workgroup memory: distinct words of one bank are serialized, equal ones are broadcast.

    Args:
        warps: Warp of each access.
        words: Address of each access, in words.
    """
    pairs = np.unique(np.stack([warps, words]), axis=1)
    warp_count = int(pairs[0].max(initial=0)) + 1
    busy = np.bincount(pairs[0] * BANKS + pairs[1] % BANKS, minlength=warp_count * BANKS)
    return int(busy.reshape(warp_count, BANKS).max(axis=1).sum())


def sectors_touched(warps: Numbers, words: Numbers) -> int:
    """Return the number of sectors of global memory that the warps access in one operation.

    Args:
        warps: Warp of each access.
        words: Address of each access, in words.
    """
    return int(np.unique(np.stack([warps, words * WORD_BYTES // SECTOR_BYTES]), axis=1).shape[1])
