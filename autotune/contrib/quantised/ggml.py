"""GGML's blocks as they lie in a file, and the same weights as products read them: exact, and repacked once."""

from collections.abc import Sequence

import numpy as np

from autotune.core.payload import Array
from payload.blocks import (
    BOTH_K,
    EXACT,
    LEAST,
    Q4_0,
    Q4_K,
    Q6_K,
    Q8_0,
    SCALE,
    UNIT,
    BlockFormat,
    as_nibbles,
    nibbles,
)

Parts = dict[str, Array]  # of a weight, by what their names end in
FORMATS = {"Q8_0": Q8_0, "Q4_0": Q4_0, "Q4_K": Q4_K, "Q6_K": Q6_K}


def repack(kind: str, raw: Array) -> Parts:
    """Bytes of rows ``(..., bytes)`` as whole numbers, scales and least numbers, by what their names end in."""
    return {"Q8_0": repack_q8_0, "Q4_0": repack_q4_0, "Q4_K": repack_q4_k, "Q6_K": repack_q6_k}[kind](raw)


def blocks_of(raw: Array, size: int) -> Array:
    """Rows of bytes as rows of blocks."""
    return np.asarray(raw).reshape(*raw.shape[:-1], -1, size)


def halves_of(blocks: Array, first: int) -> Array:
    """The number of f16 that stands at a byte of every block."""
    return np.ascontiguousarray(blocks[..., first : first + 2]).view(np.float16)[..., 0]


def rows_of(blocks: Array, raw: Array) -> Array:
    """Blocks side by side again."""
    return np.ascontiguousarray(blocks.reshape(*raw.shape[:-1], -1))


def repack_q8_0(raw: Array) -> Parts:
    """A scale, then 32 signed bytes."""
    blocks = blocks_of(raw, 34)
    return {"": rows_of(blocks[..., 2:], raw).view(np.int8), SCALE: halves_of(blocks, 0)}


def repack_q4_0(raw: Array) -> Parts:
    """A scale, then 32 nibbles, from which 8 is subtracted: two's complement with the top bit the other way round."""
    blocks = blocks_of(raw, 18)
    return {"": rows_of(blocks[..., 2:] ^ 0x88, raw).view(np.int8), SCALE: halves_of(blocks, 0)}


def repack_q4_k(raw: Array) -> Parts:
    """Two scales, of scales and of least numbers in 6 bits; 8 of those; 256 nibbles, 64 to 32 bytes."""
    blocks = blocks_of(raw, 144)
    scales, least = six_bits(blocks[..., 4:16])
    pairs = blocks[..., 16:].reshape(*blocks.shape[:-1], 4, 32)
    whole = np.stack([pairs & 15, pairs >> 4], axis=-2)  # 4 x 2 x 32: sub-blocks in their order
    return {
        "": as_nibbles(rows_of(whole, raw)),
        SCALE: rows_of(scales, raw),
        LEAST: rows_of(least, raw),
        SCALE + UNIT: halves_of(blocks, 0),
        LEAST + UNIT: halves_of(blocks, 2),
    }


def six_bits(packed: Array) -> tuple[Array, Array]:
    """Eight scales and eight least numbers of 6 bits, of 12 bytes: GGML's ``get_scale_min_k4``."""
    low, middle, high = packed[..., :4], packed[..., 4:8], packed[..., 8:]
    scales = np.concatenate([low & 63, (high & 15) | ((low >> 6) << 4)], axis=-1)
    least = np.concatenate([middle & 63, (high >> 4) | ((middle >> 6) << 4)], axis=-1)
    return scales.astype(np.int8), least.astype(np.int8)


def repack_q6_k(raw: Array) -> Parts:
    """Four low bits of 256 weights, two high bits, 16 scales of a signed byte, and a scale of those."""
    blocks = blocks_of(raw, 210)
    lead = blocks.shape[:-1]
    low, high = blocks[..., :128].reshape(*lead, 2, 2, 32), blocks[..., 128:192].reshape(*lead, 2, 1, 32)
    below = np.concatenate([low & 15, low >> 4], axis=-2)  # 2 x 4 x 32
    above = np.concatenate([(high >> shift) & 3 for shift in (0, 2, 4, 6)], axis=-2)
    whole = (below | (above << 4)).astype(np.int8) - 32
    scales = np.ascontiguousarray(blocks[..., 192:208]).view(np.int8)
    return {"": rows_of(whole.astype(np.int8), raw), SCALE: rows_of(scales, raw), SCALE + UNIT: halves_of(blocks, 208)}


def as_one(forms: Sequence[BlockFormat], layers: Sequence[Parts]) -> tuple[BlockFormat, list[Parts]]:
    """Weights of several formats in one that all can be written as, exact; and that format."""
    if all(form.group for form in forms):
        return BOTH_K, [as_groups(form, parts) for form, parts in zip(forms, layers, strict=True)]
    return EXACT, [as_exact(form, parts) for form, parts in zip(forms, layers, strict=True)]


def as_groups(form: BlockFormat, parts: Parts) -> Parts:
    """The same weights in groups of blocks of 16 bytes with a least number."""
    times = form.block // BOTH_K.block
    scale, unit = np.repeat(parts[SCALE], times, axis=-1), parts[SCALE + UNIT]
    least = np.repeat(parts[LEAST], times, axis=-1) if form.least else np.zeros_like(scale)
    under = parts[LEAST + UNIT] if form.least else np.zeros_like(unit)
    return {"": whole_of(form, parts), SCALE: scale, LEAST: least, SCALE + UNIT: unit, LEAST + UNIT: under}


def as_exact(form: BlockFormat, parts: Parts) -> Parts:
    """The same weights in blocks of 16 bytes with a scale and a least number in f32, in which products of units fit."""
    times = form.block // EXACT.block
    found = {end: np.repeat(form.number(end, parts).astype(np.float32), times, axis=-1) for end in form.numbers}
    return {"": whole_of(form, parts), LEAST: np.zeros_like(found[SCALE]), **found}


def whole_of(form: BlockFormat, parts: Parts) -> Array:
    """Whole numbers as bytes."""
    return parts[""] if form.bits == 8 else nibbles(parts[""], signed=form.signed)
