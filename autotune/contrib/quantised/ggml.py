"""GGML's block formats as stored in files, and their exact, one-time repacking to the layout that products read."""

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

Parts = dict[str, Array]  # arrays of a weight, by the suffixes of their names
FORMATS = {"Q8_0": Q8_0, "Q4_0": Q4_0, "Q4_K": Q4_K, "Q6_K": Q6_K}


def repack(kind: str, raw: Array) -> Parts:
    """Repack rows of bytes ``(..., bytes)`` into integers, scales and minimums, by the suffixes of their names."""
    return {"Q8_0": repack_q8_0, "Q4_0": repack_q4_0, "Q4_K": repack_q4_k, "Q6_K": repack_q6_k}[kind](raw)


def blocks_of(raw: Array, size: int) -> Array:
    """Reshape rows of bytes into rows of blocks."""
    return np.asarray(raw).reshape(*raw.shape[:-1], -1, size)


def halves_of(blocks: Array, first: int) -> Array:
    """Return the f16 at byte `first` of every block."""
    return np.ascontiguousarray(blocks[..., first : first + 2]).view(np.float16)[..., 0]


def rows_of(blocks: Array, raw: Array) -> Array:
    """Reshape blocks back into rows."""
    return np.ascontiguousarray(blocks.reshape(*raw.shape[:-1], -1))


def repack_q8_0(raw: Array) -> Parts:
    """Repack Q8_0: a scale, then 32 signed bytes."""
    blocks = blocks_of(raw, 34)
    return {"": rows_of(blocks[..., 2:], raw).view(np.int8), SCALE: halves_of(blocks, 0)}


def repack_q4_0(raw: Array) -> Parts:
    """Repack Q4_0: a scale, then 32 nibbles with an offset of 8; flipping the top bit makes them two's complement."""
    blocks = blocks_of(raw, 18)
    return {"": rows_of(blocks[..., 2:] ^ 0x88, raw).view(np.int8), SCALE: halves_of(blocks, 0)}


def repack_q4_k(raw: Array) -> Parts:
    """Repack Q4_K: units of scales and of minimums, 8 of each in 6 bits, and 256 nibbles, 64 per 32 bytes."""
    blocks = blocks_of(raw, 144)
    scales, least = six_bits(blocks[..., 4:16])
    pairs = blocks[..., 16:].reshape(*blocks.shape[:-1], 4, 32)
    whole = np.stack([pairs & 15, pairs >> 4], axis=-2)  # 4 x 2 x 32: sub-blocks in order
    return {
        "": as_nibbles(rows_of(whole, raw)),
        SCALE: rows_of(scales, raw),
        LEAST: rows_of(least, raw),
        SCALE + UNIT: halves_of(blocks, 0),
        LEAST + UNIT: halves_of(blocks, 2),
    }


def six_bits(packed: Array) -> tuple[Array, Array]:
    """Unpack eight 6-bit scales and eight 6-bit minimums from 12 bytes, as GGML's ``get_scale_min_k4``."""
    low, middle, high = packed[..., :4], packed[..., 4:8], packed[..., 8:]
    scales = np.concatenate([low & 63, (high & 15) | ((low >> 6) << 4)], axis=-1)
    least = np.concatenate([middle & 63, (high >> 4) | ((middle >> 6) << 4)], axis=-1)
    return scales.astype(np.int8), least.astype(np.int8)


def repack_q6_k(raw: Array) -> Parts:
    """Repack Q6_K: four low bits of 256 weights, two high bits, 16 scales as signed bytes, and their unit."""
    blocks = blocks_of(raw, 210)
    lead = blocks.shape[:-1]
    low, high = blocks[..., :128].reshape(*lead, 2, 2, 32), blocks[..., 128:192].reshape(*lead, 2, 1, 32)
    below = np.concatenate([low & 15, low >> 4], axis=-2)  # 2 x 4 x 32
    above = np.concatenate([(high >> shift) & 3 for shift in (0, 2, 4, 6)], axis=-2)
    whole = (below | (above << 4)).astype(np.int8) - 32
    scales = np.ascontiguousarray(blocks[..., 192:208]).view(np.int8)
    return {"": rows_of(whole.astype(np.int8), raw), SCALE: rows_of(scales, raw), SCALE + UNIT: halves_of(blocks, 208)}


def as_one(forms: Sequence[BlockFormat], layers: Sequence[Parts]) -> tuple[BlockFormat, list[Parts]]:
    """Convert weights of several formats exactly to one that can represent all; return the format and the weights."""
    if all(form.group for form in forms):
        return BOTH_K, [as_groups(form, parts) for form, parts in zip(forms, layers, strict=True)]
    return EXACT, [as_exact(form, parts) for form, parts in zip(forms, layers, strict=True)]


def as_groups(form: BlockFormat, parts: Parts) -> Parts:
    """Convert weights to groups of blocks of 16 bytes with a minimum."""
    times = form.block // BOTH_K.block
    scale, unit = np.repeat(parts[SCALE], times, axis=-1), parts[SCALE + UNIT]
    least = np.repeat(parts[LEAST], times, axis=-1) if form.least else np.zeros_like(scale)
    least_unit = parts[LEAST + UNIT] if form.least else np.zeros_like(unit)
    return {"": whole_of(form, parts), SCALE: scale, LEAST: least, SCALE + UNIT: unit, LEAST + UNIT: least_unit}


def as_exact(form: BlockFormat, parts: Parts) -> Parts:
    """Convert weights to blocks of 16 bytes with f32 scales and minimums, exact products with the units."""
    times = form.block // EXACT.block
    numbers = {end: np.repeat(form.number(end, parts).astype(np.float32), times, axis=-1) for end in form.numbers}
    return {"": whole_of(form, parts), LEAST: np.zeros_like(numbers[SCALE]), **numbers}


def whole_of(form: BlockFormat, parts: Parts) -> Array:
    """Return the integers as bytes."""
    return parts[""] if form.bits == 8 else nibbles(parts[""], signed=form.signed)
