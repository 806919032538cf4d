"""Precisions below f32 that a product's operands may be rounded to, and how they lie in memory: in words of 32 bits.

A row of A and a column of B become words of several values each, which one instruction multiplies and sums in f32 or
32-bit integers. B is packed here, with NumPy; `compiler/passes/dots.py` writes the code that packs A, and multiplies.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import ml_dtypes
import numpy as np

from autotune.core.errors import ScheduleError
from autotune.core.payload import Array

DOTS = "dots@1"  # the rewrites that write such products, and their version: part of every trial's identity


@dataclass(frozen=True)
class Precision:
    """How operands of a product are rounded.

    Attributes:
        name: How users know it.
        values: Values of a word.
        extra: Words of a row of A, or column of B, besides its values.
        most_k: Longest sum that cannot overflow.
        flag: Name of the instruction's extension, as Linux lists it.
        error: Largest error of a value, relative to the largest that it is rounded with.
        most: Steps of the largest value of a row; 0 where values are floats.
        shift: Number that is added to values of A, which the instruction takes without a sign.
        chunk: Words whose products 32 bits can hold the sum of, whatever they are; sums then go on in f32. 0: all.
    """

    name: str
    values: int
    extra: int
    most_k: int
    flag: str
    error: float
    most: int = 0
    shift: int = 0
    chunk: int = 0

    def words(self, k: int) -> int:
        """Words of a row of k elements."""
        return -(-k // self.values) + self.extra

    def pack(self, b: Array) -> Array:
        """B (..., k, n) as words (..., words, n), each column rounded by itself."""
        *lead, k, n = b.shape
        filled = np.zeros((*lead, -(-k // self.values) * self.values, n), np.float32)
        filled[..., :k, :] = b
        if not self.extra:
            return as_words(filled.astype(ml_dtypes.bfloat16), self.values)
        scale, rounded = self.quantise(filled)
        parts = [as_words(rounded, self.values), scale.view(np.int32)]
        if self.shift:
            parts.append((-self.shift * rounded.astype(np.int32).sum(axis=-2, keepdims=True)).astype(np.int32))
        return np.concatenate(parts, axis=-2)

    def quantise(self, b: Array) -> tuple[Array, Array]:
        """The step of each column of B, and its elements in steps: whole numbers."""
        largest = np.abs(b).max(axis=-2, keepdims=True).astype(np.float32)
        steps = np.divide(np.float32(self.most), largest, out=np.zeros_like(largest), where=largest > 0)
        rounded = np.rint(b.astype(np.float32) * steps).astype(np.int8 if self.values == 4 else np.int16)
        return largest * np.float32(1 / self.most), rounded

    @property
    def lacking(self) -> str:
        """What this CPU lacks to compute so, a sentence; empty if nothing."""
        if self.flag in cpu_flags():
            return ""
        return f"{self.name} needs a CPU with {self.flag}, which this one lacks"


INT16 = Precision("int16", 2, 1, 1 << 30, "avx512_vnni", 0.5 / 4095, most=4095, chunk=64)
BF16 = Precision("bf16", 2, 0, 1 << 30, "avx512_bf16", 2.0**-9)
INT8 = Precision("int8", 4, 2, (1 << 31) // (256 * 127), "avx512_vnni", 0.5 / 127, most=127, shift=128)
PRECISIONS = {precision.name: precision for precision in (INT16, BF16, INT8)}  # the nearest to f32 first


def precision_named(name: str) -> Precision:
    """The precision of a name.

    Raises:
        ScheduleError: There is none of that name.
    """
    if name not in PRECISIONS:
        raise ScheduleError(f"a precision must be one of {', '.join(PRECISIONS)}; got {name!r}")
    return PRECISIONS[name]


def as_words(values: Array, count: int) -> Array:
    """Values (..., k, n) as words (..., k / count, n): those of one column that follow each other."""
    *lead, k, n = values.shape
    side_by_side = values.reshape(*lead, k // count, count, n).swapaxes(-1, -2)
    return np.ascontiguousarray(side_by_side).view(np.int32)[..., 0]


@cache
def cpu_flags() -> frozenset[str]:
    """Extensions of this CPU's instructions, as Linux lists them; empty where it does not."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return frozenset()
    return next((frozenset(line.partition(":")[2].split()) for line in lines if line.startswith("flags")), frozenset())
