"""GGML's blocks as they lie in a file, and the same weights as products read them: exact, and repacked once."""

import numpy as np

from autotune.contrib.quantised.blocks import (
    EXACT,
    LEAST,
    Q4_0,
    Q4_K,
    Q6_K,
    Q8_0,
    SCALE,
    BlockFormat,
    as_nibbles,
    nibbles,
)
from autotune.core.payload import Array

FORMATS = {"Q8_0": Q8_0, "Q4_0": Q4_0, "Q4_K": Q4_K, "Q6_K": Q6_K}


def repack(kind: str, raw: Array) -> dict[str, Array]:
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


def repack_q8_0(raw: Array) -> dict[str, Array]:
    """A scale, then 32 signed bytes."""
    blocks = blocks_of(raw, 34)
    return {"": rows_of(blocks[..., 2:], raw).view(np.int8), SCALE: halves_of(blocks, 0)}


def repack_q4_0(raw: Array) -> dict[str, Array]:
    """A scale, then 32 nibbles, from which 8 is subtracted: two's complement with the top bit the other way round."""
    blocks = blocks_of(raw, 18)
    return {"": rows_of(blocks[..., 2:] ^ 0x88, raw).view(np.int8), SCALE: halves_of(blocks, 0)}


def repack_q4_k(raw: Array) -> dict[str, Array]:
    """Two scales, of scales and of least numbers in 6 bits; 8 of those; 256 nibbles, 64 to 32 bytes."""
    blocks = blocks_of(raw, 144)
    scales, least = six_bits(blocks[..., 4:16])
    pairs = blocks[..., 16:].reshape(*blocks.shape[:-1], 4, 32)
    whole = np.stack([pairs & 15, pairs >> 4], axis=-2)  # 4 x 2 x 32: sub-blocks in their order
    return {
        "": as_nibbles(rows_of(whole, raw)),
        SCALE: rows_of(halves_of(blocks, 0).astype(np.float32)[..., None] * scales, raw),
        LEAST: rows_of(halves_of(blocks, 2).astype(np.float32)[..., None] * least, raw),
    }


def six_bits(packed: Array) -> tuple[Array, Array]:
    """Eight scales and eight least numbers of 6 bits, of 12 bytes: GGML's ``get_scale_min_k4``."""
    low, middle, high = packed[..., :4], packed[..., 4:8], packed[..., 8:]
    scales = np.concatenate([low & 63, (high & 15) | ((low >> 6) << 4)], axis=-1)
    least = np.concatenate([middle & 63, (high >> 4) | ((middle >> 6) << 4)], axis=-1)
    return scales.astype(np.float32), least.astype(np.float32)


def repack_q6_k(raw: Array) -> dict[str, Array]:
    """Four low bits of 256 weights, two high bits, 16 scales of a signed byte, and a scale of those."""
    blocks = blocks_of(raw, 210)
    lead = blocks.shape[:-1]
    low, high = blocks[..., :128].reshape(*lead, 2, 2, 32), blocks[..., 128:192].reshape(*lead, 2, 1, 32)
    below = np.concatenate([low & 15, low >> 4], axis=-2)  # 2 x 4 x 32
    above = np.concatenate([(high >> shift) & 3 for shift in (0, 2, 4, 6)], axis=-2)
    whole = (below | (above << 4)).astype(np.int8) - 32
    scales = np.ascontiguousarray(blocks[..., 192:208]).view(np.int8).astype(np.float32)
    scale = halves_of(blocks, 208).astype(np.float32)[..., None] * scales
    return {"": rows_of(whole.astype(np.int8), raw), SCALE: rows_of(scale, raw)}


def as_exact(form: BlockFormat, parts: dict[str, Array]) -> dict[str, Array]:
    """The same weights in the format that any other can be written as."""
    whole = parts[""] if form.bits == 8 else nibbles(parts[""], signed=form.signed)
    times = form.block // EXACT.block
    scale = np.repeat(parts[SCALE].astype(np.float32), times, axis=-1)
    least = np.repeat(parts[LEAST], times, axis=-1) if form.least else np.zeros_like(scale)
    return {"": whole, SCALE: scale, LEAST: least}
