"""Weights in blocks: a run of each row shares a scale, and is stored in whole numbers of 8 or 4 bits.

    w[n, k] = scale[n, k / block] * q[n, k] - least[n, k / block]

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
SCALE, LEAST = "_scale", "_least"  # what names of weights end in


@dataclass(frozen=True)
class BlockFormat:
    """How a matrix ``(N, K)`` is stored.

    Attributes:
        name: Name of the format, GGML's in small letters.
        bits: Bits of a whole number, 8 or 4.
        block: Elements of a row that share a scale, 16 or 32; nibbles 32.
        scale: Element type of scales, ``f16`` or ``f32``.
        least: Whether blocks have a least number, of the same type, that is subtracted.
    """

    name: str
    bits: int
    block: int
    scale: str = "f16"
    least: bool = False

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
        if columns % self.block:
            raise PayloadError(
                f"{name} must be a multiple of {self.block} in {self.name}, got {columns}; "
                f"try {name}={-(-columns // self.block) * self.block}"
            )

    def declare(self, name: str, shape: tuple[int, ...], bound: float) -> tuple[Argument, ...]:
        """Arguments of a weight ``(..., N, K)``: bytes, scales and least numbers.

        Args:
            name: Name of the weight.
            shape: Shape of the weight, its elements counted.
            bound: About the largest weight of random data.
        """
        *lead, columns = shape
        scales, unit = (*lead, columns // self.block), bound / self.largest
        low, high = (-127, 128) if self.bits == 8 else (-128, 128)
        declared = [
            Argument(name, "weight", (*lead, columns * self.bits // 8), "i8", low=low, high=high),
            Argument(name + SCALE, "weight", scales, self.scale, low=0.5 * unit, high=unit),
        ]
        if self.least:
            declared.append(Argument(name + LEAST, "weight", scales, self.scale, low=0.0, high=bound))
        return tuple(declared)

    def restore(self, name: str, arrays: Mapping[str, Array]) -> Doubles:
        """The weight ``(..., N, K)`` in float64: the oracle of what products with it must be.

        Args:
            name: Name of the weight.
            arrays: Bytes, scales and least numbers by name.
        """
        stored, scale = arrays[name], arrays[name + SCALE].astype(np.float64)
        whole = stored if self.bits == 8 else nibbles(stored, signed=self.signed)
        blocks = whole.reshape(*scale.shape, self.block) * scale[..., None]
        if self.least:
            blocks = blocks - arrays[name + LEAST].astype(np.float64)[..., None]
        return np.asarray(blocks.reshape(*scale.shape[:-1], -1), np.float64)


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
Q4_K = BlockFormat("q4_k", 4, 32, "f32", least=True)
Q6_K = BlockFormat("q6_k", 8, 16, "f32")
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
