"""Precisions below f32 that the operands of a contraction may be rounded to, and their packing into 32-bit words.

A row of A and a column of B are packed into words of several values, which a dot-product instruction multiplies and
accumulates in f32 or i32. A weight B is packed here, with NumPy; `compiler/passes/dots.py` generates the code that
packs A, and any other B, and multiplies.

An element may be split into parts, x = hi + lo, each rounded to bf16: the words of all `hi` come first, then those of
all `lo`. All products of parts are summed, except those below the rounding error of the last part:

    a b = hi hi + hi lo + lo hi                 two parts, three products; lo lo, at most 2^-16, is left out
"""

from collections.abc import Mapping
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from autotune.core.errors import ScheduleError
from autotune.core.host.matrix_unit import ROWS, cpu_flags, lacking_flags, why_no_tiles
from autotune.core.payload import Array

DOTS = ("dots", 4)  # name and version of the rewrite that generates such products
# Parts of A and of B whose products are summed, by the number of parts. Each pair differs from the previous one in one
# operand.
PRODUCTS = {
    1: ((0, 0),),
    2: ((1, 0), (0, 0), (0, 1)),
    3: ((2, 0), (1, 0), (1, 1), (0, 1), (0, 0), (0, 2)),
}


@dataclass(frozen=True)
class Precision:
    """Quantization or rounding of the operands of a contraction.

    Attributes:
        name: Name that users know it by.
        values: Values packed into a word.
        extra: Words of a row of A, or column of B, besides its values.
        most_k: Longest reduction that cannot overflow the accumulator.
        flag: Name of the instruction's extension, as Linux lists it.
        error: Largest rounding error of a value, relative to the largest value with the same scale.
        most: Integer that the largest value of a row is quantized to, and of a column if `chunk` is 0; 0 for floats.
        shift: Offset added to values of A, which the instruction takes as unsigned.
        chunk: Words whose products are accumulated in i32, before the sum goes on in f32; the scale of a column is
            chosen so that no chunk overflows with any row. 0: all words.
        parts: Values that an element is split into, each the rounded remainder of the previous ones.
        step: Multiple that the words of a part are padded to, with zeros.
        exact: Whether operands are i8 as they are, with sums in i32.
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
        """Whether each row of A and each column of B is quantized with a scale of its own."""
        return self.most > 0 and not self.exact

    @property
    def summary(self) -> str:
        """How operands are represented, and the CPU feature whose instruction multiplies them, as a phrase."""
        bits = 32 // self.values
        if self.exact:
            return f"i{bits} operands and exact sums ({self.flag})"
        if self.most:
            return f"operands quantized to int{bits} ({self.flag})"
        how = "rounded to" if self.parts == 1 else f"split into {self.parts} values of"
        return f"operands {how} bf16 ({self.flag})"

    @property
    def element(self) -> str:
        """MLIR type of a packed value."""
        return f"i{32 // self.values}" if self.most else "bf16"

    @property
    def sums(self) -> str:
        """MLIR type of the accumulator."""
        return "i32" if self.most else "f32"

    @property
    def by_tiles(self) -> bool:
        """Whether a matrix unit multiplies tiles of words."""
        return self.step > 1

    @property
    def worth(self) -> tuple[int, int]:
        """Least rows and elements of a row at which a matrix unit pays off, half a tile; 1 each without such a unit."""
        return (ROWS // 2, ROWS * self.values // 2) if self.by_tiles else (1, 1)

    @property
    def packs_in_call(self) -> bool:
        """Whether a B that is no weight can be packed in the call."""
        return self.exact or not self.most

    def reads_stored(self, dtype: str) -> bool:
        """Return whether a weight that is stored in less than f32 can be packed from its stored type.

        Quantized precisions cannot: their scales are computed in f32. A value of bf16 or i8 is one part, one of f16
        two.
        """
        return not self.most and self.parts <= 1 + (dtype == "f16")

    @property
    def unit(self) -> str:
        """Name of the instruction's peak rate, a field of `autotune.core.host.machine.Roofs`."""
        return f"{'tile_' * self.by_tiles}{f'int{32 // self.values}' if self.most else 'bf16'}"

    @property
    def products(self) -> tuple[tuple[int, int], ...]:
        """Pairs of parts of A and of B whose products are summed."""
        return PRODUCTS[self.parts]

    def words(self, k: int) -> int:
        """Return the number of words of a row of k elements."""
        return self.parts * self.part_words(k) + self.extra

    def part_words(self, k: int) -> int:
        """Return the number of words of one part of a row of k elements."""
        return -(-k // (self.values * self.step)) * self.step

    def pack(self, b: Array) -> Array:
        """Pack B of shape (..., k, n) into words of shape (..., words, n), each column with a scale of its own."""
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
        """Split elements into `parts` bf16 values, each the rounded remainder of the previous ones."""
        pieces, rest = [values.astype(ml_dtypes.bfloat16)], values.astype(np.float32)
        for _ in range(1, self.parts):
            with np.errstate(invalid="ignore"):  # inf - inf
                rest = rest - pieces[-1].astype(np.float32)
            pieces.append(rest.astype(ml_dtypes.bfloat16))
        return pieces

    @property
    def least(self) -> float:
        """Lower bound of a row's largest value, so that the inverse scale is finite: 2e-34 in int16."""
        return self.most / MOST_STEPS

    def quantise(self, b: Array) -> tuple[Array, Array]:
        """Quantize B symmetrically; return the scale of each column, and the elements as integers."""
        largest = np.abs(b).max(axis=-2, keepdims=True).astype(np.float32)
        if self.chunk:
            inverse = self.finest_steps(b)
            scale = np.divide(np.float32(1), inverse, out=largest.copy(), where=inverse > 0)
        else:
            largest = np.maximum(largest, np.float32(self.least))
            inverse = np.float32(self.most) / largest
            scale = largest * np.float32(1 / self.most)
        with np.errstate(invalid="ignore"):  # a NaN in the column makes its scale NaN
            rounded = np.nan_to_num(np.rint(b.astype(np.float32) * inverse))
        return scale, rounded.astype(np.int8 if self.values == 4 else np.int16)

    @property
    def span(self) -> int:
        """Values of a chunk."""
        return self.chunk * self.values

    @property
    def room(self) -> float:
        """Largest sum of magnitudes of a chunk of a column, in units of its scale, before rounding.

        Multiplied by the largest quantized value of a row it must fit i32; rounding adds at most 0.5 to each value.
        """
        return ((2**31 - 1) // self.most - self.span / 2) * (1 - MARGIN)

    def finest_steps(self, b: Array) -> Array:
        """Return the largest inverse scale of each column of B with which no chunk overflows, wherever it starts."""
        magnitudes = np.abs(b.astype(np.float64))
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            # Sums of all windows of `span` values, as differences of prefix sums.
            sums = np.cumsum(magnitudes, axis=-2)
            windows = sums[..., min(self.span, b.shape[-2]) - 1 :, :].copy()
            windows[..., 1:, :] -= sums[..., : -self.span, :]
            bound_of_sums = self.room / windows.max(axis=-2, keepdims=True)
            bound = np.minimum(LARGEST / magnitudes.max(axis=-2, keepdims=True), bound_of_sums)
        inverse: Array = np.nan_to_num(np.minimum(bound, MOST_STEPS)).astype(np.float32)
        return inverse

    @property
    def lacking(self) -> str:
        """Sentence on what this CPU lacks for the precision; empty if nothing."""
        if self.by_tiles:
            return why_no_tiles()
        return lacking_flags(self.name, [self.flag], cpu_flags())


LARGEST = 2**15 - 1  # of i16
MOST_STEPS = 2.0**126  # largest inverse scale: a power of two whose reciprocal is a normal number, too
MARGIN = 1e-6  # relative error of the floating-point sums and divisions
UNIT_OF_BF16, UNIT_OF_TWO, UNIT_OF_THREE = 2.0**-8, 2.0**-17, 2.0**-26  # unit roundoff of one, two and three parts
INT16 = Precision("int16", 2, 1, 1 << 30, "avx512_vnni", 0.5 / 16383, most=16383, chunk=32)
BF16 = Precision("bf16", 2, 0, 1 << 30, "avx512_bf16", UNIT_OF_BF16)
BF16X2 = Precision("bf16x2", 2, 0, 1 << 30, "avx512_bf16", UNIT_OF_TWO, parts=2)
BF16X3 = Precision("bf16x3", 2, 0, 1 << 30, "avx512_bf16", UNIT_OF_THREE, parts=3)
INT8 = Precision("int8", 4, 2, (1 << 31) // (256 * 127), "avx512_vnni", 0.5 / 127, most=127, shift=128)
# i8 operands as they are, with exact sums.
BYTES = Precision("bytes", 4, 1, (1 << 31) // (256 * 128), "avx512_vnni", 0.0, most=127, shift=128, exact=True)
# For the matrix unit: words are padded to multiples of a tile's, int8 is signed in both operands, and the scale fills a
# multiple of its own.
TILE_BF16 = Precision("tile_bf16", 2, 0, 1 << 30, "amx_bf16", BF16.error, step=ROWS)
TILE_BF16X2 = Precision("tile_bf16x2", 2, 0, 1 << 30, "amx_bf16", BF16X2.error, parts=2, step=ROWS)
TILE_BF16X3 = Precision("tile_bf16x3", 2, 0, 1 << 30, "amx_bf16", BF16X3.error, parts=3, step=ROWS)
TILE_INT8 = Precision("tile_int8", 4, ROWS, (1 << 31) // (128 * 127), "amx_int8", INT8.error, most=127, step=ROWS)
TILE_BYTES = Precision("tile_bytes", 4, 0, (1 << 31) // (128 * 128), "amx_int8", 0.0, most=127, step=ROWS, exact=True)
VECTORS = (BF16X3, BF16X2, INT16, BF16, INT8)  # the nearest to f32 first
TILES = (TILE_BF16X3, TILE_BF16X2, TILE_BF16, TILE_INT8)
PRECISIONS = {precision.name: precision for precision in (*VECTORS, *TILES, BYTES, TILE_BYTES)}


def precision_named(name: str) -> Precision:
    """Return the precision of a name.

    Raises:
        ScheduleError: There is none of that name.
    """
    if name not in PRECISIONS:
        raise ScheduleError(f"a precision must be one of {', '.join(PRECISIONS)}; got {name!r}")
    return PRECISIONS[name]


def is_by_tiles(schedule: str) -> bool:
    """Return whether a family uses a matrix unit, by its name: that of a precision, or one that ends in it.

    Example:
        >>> [is_by_tiles(schedule) for schedule in ("tile_bf16", "blocks_tile_int8", "blocks_int8")]
        [True, True, False]
    """
    precision = precision_of(schedule)
    return precision is not None and precision.by_tiles


def precision_of(schedule: str) -> Precision | None:
    """Return the precision of a family, whose name is that of the precision or ends in it; `None` for f32."""
    matches = [precision for precision in PRECISIONS.values() if f"_{schedule}".endswith(f"_{precision.name}")]
    return max(matches, key=lambda precision: len(precision.name), default=None)


def roof_of(schedule: str, rates: Mapping[str, float]) -> float | None:
    """Return the peak rate of a family's products, in operations a second; `None` if it was not measured.

    Args:
        schedule: Name of the family: that of a precision, one that ends in it, as in ``blocks_tile_int8``, or one that
            multiplies in f32.
        rates: Peak rates of the machine, by names of fields of `autotune.core.host.machine.Roofs`.

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
    """Pack values of shape (..., k, n) into words of shape (..., k / count, n), of consecutive values of a column."""
    *lead, k, n = values.shape
    side_by_side = values.reshape(*lead, k // count, count, n).swapaxes(-1, -2)
    return np.ascontiguousarray(side_by_side).view(np.int32)[..., 0]
