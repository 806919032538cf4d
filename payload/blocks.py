"""Block-quantized weights: 16 or 32 consecutive elements of a row share a scale and are stored as 8- or 4-bit integers.

    w[n, k] = scale[n, k / block] * q[n, k] - least[n, k / block]

Formats with groups of blocks store scales and minima as i8; each group of blocks has a common unit for them:

    scale[n, b] = unit[n, b / group] * byte[n, b]

4-bit values are two's complement in formats without a minimum, else unsigned. They are packed as in GGML: byte j of a
block of 32 holds element j in its low and element j + 16 in its high half.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from autotune.core.errors import PayloadError
from autotune.core.payload import Argument, Array
from payload.reference import Doubles

HALF = 16  # contiguous elements of a block in one operand of a product: one or two vectors of f32
SCALE, LEAST, UNIT = "_scale", "_least", "_unit"  # name suffixes of the parts of a weight
SIX_BITS = 63  # largest integer scale and minimum that GGML writes where they are unsigned


@dataclass(frozen=True)
class BlockFormat:
    """Block format in which a matrix ``(N, K)`` is stored.

    Attributes:
        name: Name of the format: GGML's in lower case.
        bits: Bits of a quantized value, 8 or 4.
        block: Elements of a row that share a scale: 16 or 32; 32 with 4 bits.
        scale: Element type of the scales, or of their units: ``f16`` or ``f32``.
        least: Whether each block has a minimum, stored like its scale, that is subtracted.
        group: Blocks that share a unit for their i8 scales; 0 where scales are floats themselves.
    """

    name: str
    bits: int
    block: int
    scale: str = "f16"
    least: bool = False
    group: int = 0

    @property
    def numbers(self) -> tuple[str, ...]:
        """Name suffixes of the scales and, if any, the minima."""
        return (SCALE, LEAST) if self.least else (SCALE,)

    @property
    def ends(self) -> tuple[str, ...]:
        """Name suffixes of all parts: quantized values, then scales and minima, then their units."""
        units = tuple(number + UNIT for number in self.numbers) if self.group else ()
        return ("", *self.numbers, *units)

    @property
    def whole_rows(self) -> int:
        """Number of elements that the length of a row must be a multiple of."""
        return self.block * max(1, self.group)

    @property
    def halves(self) -> int:
        """Number of vectors of `HALF` elements that a block is read in."""
        return self.block // HALF

    @property
    def signed(self) -> bool:
        """Whether quantized values are signed."""
        return not (self.least and self.bits == 4)

    @property
    def largest(self) -> int:
        """Largest quantized value."""
        return 15 if not self.signed else (1 << (self.bits - 1)) - 1

    def check(self, columns: int, name: str = "k") -> None:
        """Raise unless rows consist of whole blocks.

        Raises:
            PayloadError: A row ends inside a block.
        """
        multiple = self.whole_rows
        if columns % multiple:
            raise PayloadError(
                f"{name} must be a multiple of {multiple} in {self.name}, got {columns}; "
                f"try {name}={-(-columns // multiple) * multiple}"
            )

    def declare(self, name: str, shape: tuple[int, ...], bound: float) -> tuple[Argument, ...]:
        """Return the arguments of a weight ``(..., N, K)``: quantized values, scales and minima, and their units.

        Args:
            name: Name of the weight.
            shape: Shape of the weight in elements, before packing.
            bound: Approximate largest weight of random data.
        """
        *lead, columns = shape
        scales, unit = (*lead, columns // self.block), bound / self.largest
        low, high = (-127, 128) if self.bits == 8 else (-128, 128)
        whole = Argument(name, "weight", (*lead, columns * self.bits // 8), "i8", low=low, high=high)
        ranges = {SCALE: (0.5 * unit, unit), LEAST: (0.0, bound)}
        if not self.group:
            numbers = (
                Argument(name + end, "weight", scales, self.scale, low=ranges[end][0], high=ranges[end][1])
                for end in self.numbers
            )
            return (whole, *numbers)
        units = (*lead, columns // self.whole_rows)
        counts = (Argument(name + end, "weight", scales, "i8", low=0, high=SIX_BITS + 1) for end in self.numbers)
        each = (
            Argument(name + end + UNIT, "weight", units, self.scale, low=low / SIX_BITS, high=high / SIX_BITS)
            for end, (low, high) in ((end, ranges[end]) for end in self.numbers)
        )
        return (whole, *counts, *each)

    def restore(self, name: str, arrays: Mapping[str, Array]) -> Doubles:
        """Dequantize the weight ``(..., N, K)`` to float64, for the reference.

        Args:
            name: Name of the weight.
            arrays: Quantized values, scales, minima and units by name.
        """
        stored, scale = arrays[name], self.number(name + SCALE, arrays)
        whole = stored if self.bits == 8 else nibbles(stored, signed=self.signed)
        blocks = whole.reshape(*scale.shape, self.block) * scale[..., None]
        if self.least:
            blocks = blocks - self.number(name + LEAST, arrays)[..., None]
        return np.asarray(blocks.reshape(*scale.shape[:-1], -1), np.float64)

    def number(self, name: str, arrays: Mapping[str, Array]) -> Doubles:
        """Return scales or minima ``(..., N, K / block)`` in float64."""
        values = arrays[name].astype(np.float64)
        return values * np.repeat(arrays[name + UNIT].astype(np.float64), self.group, axis=-1) if self.group else values


def nibbles(stored: Array, *, signed: bool) -> Array:
    """Unpack bytes ``(..., K / 2)`` to 4-bit values ``(..., K)`` in i8, in the order of the elements."""
    blocks = stored.view(np.uint8).reshape(*stored.shape[:-1], -1, HALF)
    values = np.concatenate([blocks & 15, blocks >> 4], axis=-1).astype(np.int8)
    if signed:
        values = np.where(values > 7, values - 16, values).astype(np.int8)
    return values.reshape(*stored.shape[:-1], -1)


def as_nibbles(whole: Array) -> Array:
    """Pack 4-bit values ``(..., K)``, signed or not, into bytes ``(..., K / 2)``; the inverse of `nibbles`."""
    blocks = (whole.astype(np.int16) & 15).astype(np.uint8).reshape(*whole.shape[:-1], -1, 2, HALF)
    packed = blocks[..., 0, :] | (blocks[..., 1, :] << 4)
    return np.ascontiguousarray(packed.reshape(*whole.shape[:-1], -1)).view(np.int8)


Q8_0 = BlockFormat("q8_0", 8, 32)
Q4_0 = BlockFormat("q4_0", 4, 32)
Q4_K = BlockFormat("q4_k", 4, 32, least=True, group=8)
Q6_K = BlockFormat("q6_k", 8, 16, group=16)
BOTH_K = BlockFormat("both_k", 8, 16, least=True, group=16)  # can represent every format with groups
EXACT = BlockFormat("exact", 8, 16, "f32", least=True)  # can represent every other format
FORMATS = {each.name: each for each in (Q8_0, Q4_0, Q4_K, Q6_K)}


def format_named(name: str) -> BlockFormat:
    """Return the block format with the given name.

    Raises:
        PayloadError: No format has that name.
    """
    if name not in FORMATS:
        raise PayloadError(f"format must be one of {', '.join(FORMATS)}, got {name!r}; try format=q8_0")
    return FORMATS[name]
