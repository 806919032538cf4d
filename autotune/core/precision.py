"""Precisions below f32 that a product's operands may be rounded to, and how they lie in memory: in words of 32 bits.

A row of A and a column of B become words of several values each, which one instruction multiplies and sums in f32 or
32-bit integers. A B that is a weight is packed here, with NumPy;
`compiler/passes/dots.py` writes the code that packs A, and any other B, and multiplies.

An element may be split into parts, x = hi + lo, each rounded to bf16: the words of all `hi` come first, then those of
all `lo`, and all products of parts are summed but those that the rounding of the last part exceeds:

    a b = hi hi + hi lo + lo hi                 two parts, three products; lo lo, at most 2^-16, is left out
"""

from collections.abc import Mapping
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from autotune.core.errors import ScheduleError
from autotune.core.host.matrix_unit import ROWS, cpu_flags, why_no_tiles
from autotune.core.payload import Array

DOTS = ("dots", 4)  # the rewrite that writes such products, and its version
# Parts of A and of B whose products are summed, by the number of parts: each changes one operand of the one before.
PRODUCTS = {
    1: ((0, 0),),
    2: ((1, 0), (0, 0), (0, 1)),
    3: ((2, 0), (1, 0), (1, 1), (0, 1), (0, 0), (0, 2)),
}


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
        most: Steps of the largest value of a row, and of a column if `chunk` is 0; 0 where values are floats.
        shift: Number that is added to values of A, which the instruction takes without a sign.
        chunk: Words whose products are summed in 32 bits, before sums go on in f32; columns have steps so fine that the
            sum of any row's products holds. 0: all.
        parts: Values that an element is split into, each what those before leave of it.
        step: Words of a part come in multiples of so many, the last filled up with zeros.
        exact: Operands are bytes as they are, and sums stay whole numbers.
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
    parts: int = 1
    step: int = 1
    exact: bool = False

    @property
    def is_scaled(self) -> bool:
        """Whether a row of A and a column of B have a step that values were rounded in."""
        return self.most > 0 and not self.exact

    @property
    def element(self) -> str:
        """Type of a value, as MLIR spells it."""
        return f"i{32 // self.values}" if self.most else "bf16"

    @property
    def sums(self) -> str:
        """Type that products are summed in, as MLIR spells it."""
        return "i32" if self.most else "f32"

    @property
    def by_tiles(self) -> bool:
        """Whether a matrix unit multiplies tiles of words."""
        return self.step > 1

    @property
    def worth(self) -> tuple[int, int]:
        """Rows and elements of a row from which a product is worth tiles: half of one is full; 1 each without them."""
        return (ROWS // 2, ROWS * self.values // 2) if self.by_tiles else (1, 1)

    @property
    def packs_in_call(self) -> bool:
        """Whether a B that is known in the call only can be packed there."""
        return self.exact or not self.most

    def reads_stored(self, dtype: str) -> bool:
        """Whether words are made of a weight that is stored in less than f32: not of steps, which are found in f32.

        A value of bf16 or of a byte is one part, one of f16 two.
        """
        return not self.most and self.parts <= 1 + (dtype == "f16")

    @property
    def unit(self) -> str:
        """Name of the instruction's roof: a field of `autotune.core.host.machine.Roofs`."""
        return f"{'tile_' * self.by_tiles}{f'int{32 // self.values}' if self.most else 'bf16'}"

    @property
    def products(self) -> tuple[tuple[int, int], ...]:
        """Parts of A and of B whose products are summed."""
        return PRODUCTS[self.parts]

    def words(self, k: int) -> int:
        """Words of a row of k elements."""
        return self.parts * self.part_words(k) + self.extra

    def part_words(self, k: int) -> int:
        """Words of one part of a row of k elements."""
        return -(-k // (self.values * self.step)) * self.step

    def pack(self, b: Array) -> Array:
        """B (..., k, n) as words (..., words, n), each column rounded by itself."""
        *lead, k, n = b.shape
        filled = np.zeros((*lead, self.part_words(k) * self.values, n), np.int8 if self.exact else np.float32)
        filled[..., :k, :] = b
        if not self.most:
            return np.concatenate([as_words(part, self.values) for part in self.split(filled)], axis=-2)
        if self.exact:
            words = [as_words(filled, self.values)]
            rounded = filled
        else:
            scale, rounded = self.quantise(filled)
            words = [as_words(rounded, self.values), scale.view(np.int32)]
        if self.shift:
            words.append((-self.shift * rounded.astype(np.int32).sum(axis=-2, keepdims=True)).astype(np.int32))
        unused = self.words(k) - sum(part.shape[-2] for part in words)
        return np.concatenate([*words, np.zeros((*lead, unused, n), np.int32)], axis=-2)

    def split(self, values: Array) -> list[Array]:
        """The parts of elements, of bf16."""
        found, rest = [values.astype(ml_dtypes.bfloat16)], values.astype(np.float32)
        for _ in range(1, self.parts):
            with np.errstate(invalid="ignore"):  # an infinity leaves what is no number
                rest = rest - found[-1].astype(np.float32)
            found.append(rest.astype(ml_dtypes.bfloat16))
        return found

    @property
    def least(self) -> float:
        """Least that the largest value of a row counts as, so that its steps are finite: 2e-34 in int16."""
        return self.most / MOST_STEPS

    def quantise(self, b: Array) -> tuple[Array, Array]:
        """The step of each column of B, and its elements in steps: whole numbers."""
        largest = np.abs(b).max(axis=-2, keepdims=True).astype(np.float32)
        if self.chunk:
            steps = self.finest_steps(b)
            scale = np.divide(np.float32(1), steps, out=largest.copy(), where=steps > 0)
        else:
            largest = np.maximum(largest, np.float32(self.least))
            steps = np.float32(self.most) / largest
            scale = largest * np.float32(1 / self.most)
        with np.errstate(invalid="ignore"):  # what is no number makes the scale none
            rounded = np.nan_to_num(np.rint(b.astype(np.float32) * steps))
        return scale, rounded.astype(np.int8 if self.values == 4 else np.int16)

    @property
    def span(self) -> int:
        """Values of a chunk."""
        return self.chunk * self.values

    @property
    def room(self) -> float:
        """What magnitudes of a chunk of a column may add up to, before they are rounded, in steps.

        Times the largest value of a row it must fit 32 bits; rounding adds half a step to each, at most.
        """
        return ((2**31 - 1) // self.most - self.span / 2) * (1 - MARGIN)

    def finest_steps(self, b: Array) -> Array:
        """What each column of B may be multiplied by at most: by no chunk, wherever it begins, do sums overflow."""
        magnitudes = np.abs(b.astype(np.float64))
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            sums = np.cumsum(magnitudes, axis=-2)
            most = sums[..., min(self.span, b.shape[-2]) - 1 :, :].copy()
            most[..., 1:, :] -= sums[..., : -self.span, :]
            of_sums = self.room / most.max(axis=-2, keepdims=True)
            found = np.minimum(LARGEST / magnitudes.max(axis=-2, keepdims=True), of_sums)
        steps: Array = np.nan_to_num(np.minimum(found, MOST_STEPS)).astype(np.float32)
        return steps

    @property
    def lacking(self) -> str:
        """What this CPU lacks to compute so, a sentence; empty if nothing."""
        if self.by_tiles:
            return why_no_tiles()
        if self.flag in cpu_flags():
            return ""
        return f"{self.name} needs a CPU with {self.flag}, which this one lacks"


LARGEST = 2**15 - 1  # of values in 16 bits
MOST_STEPS = 2.0**126  # that a value is multiplied by: a power of two whose inverse is a normal number, too
MARGIN = 1e-6  # of numbers that are added up and divided in floats
UNIT_OF_BF16, UNIT_OF_TWO, UNIT_OF_THREE = 2.0**-8, 2.0**-17, 2.0**-26  # half a step of the last part of 1 and more
INT16 = Precision("int16", 2, 1, 1 << 30, "avx512_vnni", 0.5 / 16383, most=16383, chunk=32)
BF16 = Precision("bf16", 2, 0, 1 << 30, "avx512_bf16", UNIT_OF_BF16)
BF16X2 = Precision("bf16x2", 2, 0, 1 << 30, "avx512_bf16", UNIT_OF_TWO, parts=2)
BF16X3 = Precision("bf16x3", 2, 0, 1 << 30, "avx512_bf16", UNIT_OF_THREE, parts=3)
INT8 = Precision("int8", 4, 2, (1 << 31) // (256 * 127), "avx512_vnni", 0.5 / 127, most=127, shift=128)
# Bytes as they are, all sums exact.
BYTES = Precision("bytes", 4, 1, (1 << 31) // (256 * 128), "avx512_vnni", 0.0, most=127, shift=128, exact=True)
# By the matrix unit: words in steps of a tile's, int8 with a sign in both operands, the scale in a step of its own.
TILE_BF16 = Precision("tile_bf16", 2, 0, 1 << 30, "amx_bf16", BF16.error, step=ROWS)
TILE_BF16X2 = Precision("tile_bf16x2", 2, 0, 1 << 30, "amx_bf16", BF16X2.error, parts=2, step=ROWS)
TILE_BF16X3 = Precision("tile_bf16x3", 2, 0, 1 << 30, "amx_bf16", BF16X3.error, parts=3, step=ROWS)
TILE_INT8 = Precision("tile_int8", 4, ROWS, (1 << 31) // (128 * 127), "amx_int8", INT8.error, most=127, step=ROWS)
TILE_BYTES = Precision("tile_bytes", 4, 0, (1 << 31) // (128 * 128), "amx_int8", 0.0, most=127, step=ROWS, exact=True)
VECTORS = (BF16X3, BF16X2, INT16, BF16, INT8)  # the nearest to f32 first
TILES = (TILE_BF16X3, TILE_BF16X2, TILE_BF16, TILE_INT8)
PRECISIONS = {precision.name: precision for precision in (*VECTORS, *TILES, BYTES, TILE_BYTES)}


def precision_named(name: str) -> Precision:
    """The precision of a name.

    Raises:
        ScheduleError: There is none of that name.
    """
    if name not in PRECISIONS:
        raise ScheduleError(f"a precision must be one of {', '.join(PRECISIONS)}; got {name!r}")
    return PRECISIONS[name]


def is_by_tiles(schedule: str) -> bool:
    """Whether a family multiplies by tiles of a matrix unit, by its name: a precision's, or one that ends in it.

    Example:
        >>> [is_by_tiles(schedule) for schedule in ("tile_bf16", "blocks_tile_int8", "blocks_int8")]
        [True, True, False]
    """
    precision = precision_of(schedule)
    return precision is not None and precision.by_tiles


def precision_of(schedule: str) -> Precision | None:
    """The precision that a family multiplies in, whose name its own is or ends in; `None` for f32."""
    named = [precision for precision in PRECISIONS.values() if f"_{schedule}".endswith(f"_{precision.name}")]
    return max(named, key=lambda precision: len(precision.name), default=None)


def roof_of(schedule: str, rates: Mapping[str, float]) -> float | None:
    """Operations a second that a task reaches at most by the unit that its products use; `None` if not measured.

    Args:
        schedule: Name of its family: that of a precision, one that ends in it, as in ``blocks_tile_int8``, or one that
            multiplies in f32.
        rates: Rates of the machine, by names of fields of `autotune.core.host.machine.Roofs`.

    Example:
        >>> rates = {"flops": 1e11, "bf16": 1.8e11, "int8": 4e11}
        >>> [roof_of(schedule, rates) for schedule in ("matmul", "bf16x2", "blocks_int8", "tile_int8")]
        [100000000000.0, 60000000000.0, 400000000000.0, None]
    """
    precision = precision_of(schedule)
    if precision is None:
        return rates.get("flops")
    rate = rates.get(precision.unit)
    return rate / len(precision.products) if rate else None


def as_words(values: Array, count: int) -> Array:
    """Values (..., k, n) as words (..., k / count, n): those of one column that follow each other."""
    *lead, k, n = values.shape
    side_by_side = values.reshape(*lead, k // count, count, n).swapaxes(-1, -2)
    return np.ascontiguousarray(side_by_side).view(np.int32)[..., 0]
