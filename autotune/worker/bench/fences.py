"""Fences: guard bytes around an array, which detect out-of-bounds writes of a candidate.

A verified output is allocated between two fences of known bytes; a checksum of every input detects writes to it.
"""

from dataclasses import dataclass

import numpy as np

from autotune.core.payload import DTYPES, Argument, Array

FENCE_BYTES = 1 << 14
ALIGNMENT = 64
FENCE_BYTE = 0xA5


@dataclass(frozen=True)
class Fenced:
    """An array between fences.

    Attributes:
        name: Name of the argument.
        array: Array that a candidate may write, of the argument's shape and dtype.
        before: Fence below the array, uint8.
        after: Fence above the array, directly after its last byte, uint8.
    """

    name: str
    array: Array
    before: Array
    after: Array

    def trespass(self) -> str:
        """Describe an out-of-bounds write; return an empty string if there was none."""
        if (wrong := np.flatnonzero(self.after != FENCE_BYTE)).size:
            return f"{self.name} must be written within its {self.array.nbytes} bytes; byte {wrong[0]} past its end was"
        if (wrong := np.flatnonzero(self.before != FENCE_BYTE)).size:
            first = FENCE_BYTES - int(wrong[-1])
            return f"{self.name} must be written within its {self.array.nbytes} bytes; {first} bytes before it was"
        return ""

    def mend(self) -> None:
        """Restore the fences."""
        self.before.fill(FENCE_BYTE)
        self.after.fill(FENCE_BYTE)


def fenced_empty(argument: Argument) -> Fenced:
    """Allocate an array for an argument between fences, aligned to a cache line."""
    raw = np.full(argument.bytes + 2 * FENCE_BYTES + ALIGNMENT, FENCE_BYTE, np.uint8)
    begin = FENCE_BYTES + -(raw.ctypes.data + FENCE_BYTES) % ALIGNMENT
    end = begin + argument.bytes
    array = raw[begin:end].view(DTYPES[argument.dtype]).reshape(argument.shape)
    return Fenced(argument.name, array, raw[begin - FENCE_BYTES : begin], raw[end : end + FENCE_BYTES])


def word_sum(array: Array) -> int:
    """Return a checksum of an array: the sum of its 64-bit words modulo 2^64, computed at memory bandwidth."""
    flat = array.reshape(-1).view(np.uint8)
    whole = flat.size // 8 * 8
    return (int(np.add.reduce(flat[:whole].view(np.uint64))) + int(flat[whole:].sum())) % 2**64
