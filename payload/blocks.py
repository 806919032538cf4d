"""Weights in blocks: a run of each row shares a scale, and is stored in whole numbers of 8 or 4 bits.

    w[n, k] = scale[n, k / block] * q[n, k] - least[n, k / block]

Formats of groups of blocks store scales and least numbers in bytes, each group of them with a unit of its own:

    scale[n, b] = unit[n, b / group] * byte[n, b]

Nibbles are two's complement where a format has no least number, and lie as GGML has them: byte j of a block of 32 holds
element j below and element j + 16 above.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from autotune.core.errors import PayloadError
from autotune.core.payload import Argument, Array
from payload.reference import Doubles

HALF = 16  # elements of a block that one operand of a product holds side by side: a vector of f32, or two
SCALE, LEAST, UNIT = "_scale", "_least", "_unit"  # what names of weights end in
SIX_BITS = 63  # largest scale and least number of a byte that GGML writes, where they have no sign


@dataclass(frozen=True)
class BlockFormat:
    """How a matrix ``(N, K)`` is stored.

    Attributes:
        name: Name of the format, GGML's in small letters.
        bits: Bits of a whole number, 8 or 4.
        block: Elements of a row that share a scale, 16 or 32; nibbles 32.
        scale: Element type of scales, or of the units that they are counted in, ``f16`` or ``f32``.
        least: Whether blocks have a least number, stored as scales are, that is subtracted.
        group: Blocks that share a unit of scales, which are bytes; 0 where scales are numbers themselves.
    """

    name: str
    bits: int
    block: int
    scale: str = "f16"
    least: bool = False
    group: int = 0

    @property
    def numbers(self) -> tuple[str, ...]:
        """What names of scales and least numbers end in."""
        return (SCALE, LEAST) if self.least else (SCALE,)

    @property
    def ends(self) -> tuple[str, ...]:
        """What names of all parts end in: whole numbers, then scales and least numbers, then their units."""
        units = tuple(number + UNIT for number in self.numbers) if self.group else ()
        return ("", *self.numbers, *units)

    @property
    def whole_rows(self) -> int:
        """Elements that rows must be a multiple of."""
        return self.block * max(1, self.group)

    @property
    def halves(self) -> int:
        """Vectors of elements that a block is read in."""
        return self.block // HALF

    @property
    def signed(self) -> bool:
        """Whether whole numbers have a sign."""
        return not (self.least and self.bits == 4)

    @property
    def largest(self) -> int:
        """Largest whole number."""
        return 15 if not self.signed else (1 << (self.bits - 1)) - 1

    def check(self, columns: int, name: str = "k") -> None:
        """Raise unless rows are whole blocks.

        Raises:
            PayloadError: A row ends inside a block.
        """
        wanted = self.whole_rows
        if columns % wanted:
            raise PayloadError(
                f"{name} must be a multiple of {wanted} in {self.name}, got {columns}; "
                f"try {name}={-(-columns // wanted) * wanted}"
            )

    def declare(self, name: str, shape: tuple[int, ...], bound: float) -> tuple[Argument, ...]:
        """Arguments of a weight ``(..., N, K)``: bytes, scales and least numbers, and units of those.

        Args:
            name: Name of the weight.
            shape: Shape of the weight, its elements counted.
            bound: About the largest weight of random data.
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
        """The weight ``(..., N, K)`` in float64: the oracle of what products with it must be.

        Args:
            name: Name of the weight.
            arrays: Bytes, scales, least numbers and units by name.
        """
        stored, scale = arrays[name], self.number(name + SCALE, arrays)
        whole = stored if self.bits == 8 else nibbles(stored, signed=self.signed)
        blocks = whole.reshape(*scale.shape, self.block) * scale[..., None]
        if self.least:
            blocks = blocks - self.number(name + LEAST, arrays)[..., None]
        return np.asarray(blocks.reshape(*scale.shape[:-1], -1), np.float64)

    def number(self, name: str, arrays: Mapping[str, Array]) -> Doubles:
        """Scales or least numbers ``(..., N, K / block)`` in float64."""
        found = arrays[name].astype(np.float64)
        return found * np.repeat(arrays[name + UNIT].astype(np.float64), self.group, axis=-1) if self.group else found


def nibbles(stored: Array, *, signed: bool) -> Array:
    """Whole numbers ``(..., K)`` of bytes ``(..., K / 2)``, blocks of 32 in their order."""
    blocks = stored.view(np.uint8).reshape(*stored.shape[:-1], -1, HALF)
    both = np.concatenate([blocks & 15, blocks >> 4], axis=-1).astype(np.int8)
    if signed:
        both = np.where(both > 7, both - 16, both).astype(np.int8)
    return both.reshape(*stored.shape[:-1], -1)


def as_nibbles(whole: Array) -> Array:
    """Bytes ``(..., K / 2)`` of whole numbers ``(..., K)`` of four bits, signed or not: what `nibbles` undoes."""
    blocks = (whole.astype(np.int16) & 15).astype(np.uint8).reshape(*whole.shape[:-1], -1, 2, HALF)
    packed = blocks[..., 0, :] | (blocks[..., 1, :] << 4)
    return np.ascontiguousarray(packed.reshape(*whole.shape[:-1], -1)).view(np.int8)


Q8_0 = BlockFormat("q8_0", 8, 32)
Q4_0 = BlockFormat("q4_0", 4, 32)
Q4_K = BlockFormat("q4_k", 4, 32, least=True, group=8)
Q6_K = BlockFormat("q6_k", 8, 16, group=16)
BOTH_K = BlockFormat("both_k", 8, 16, least=True, group=16)  # what those of groups can be written as
EXACT = BlockFormat("exact", 8, 16, "f32", least=True)  # what any of the others can be written as
FORMATS = {each.name: each for each in (Q8_0, Q4_0, Q4_K, Q6_K)}


def format_named(name: str) -> BlockFormat:
    """The format of a name.

    Raises:
        PayloadError: There is none of that name.
    """
    if name not in FORMATS:
        raise PayloadError(f"format must be one of {', '.join(FORMATS)}, got {name!r}; try format=q8_0")
    return FORMATS[name]
