"""Rewrite of GatherBlockQuantized: rows of a block-quantized table are gathered, and only those are dequantized."""

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from autotune.core.payload import Array
from payload.importers.onnx_block_ops import BLOCK_TYPES, WHOLE_BITS, check_block_size, unpacked
from payload.importers.onnx_nodes import KnownTensors, NodeWriter, of
from payload.importers.onnx_quantised_checks import not_quantised

if TYPE_CHECKING:
    from onnx import NodeProto

BLOCK_SIZE = 128  # default of the attribute


def gathered_blocks(writer: NodeWriter, node: "NodeProto", known: KnownTensors) -> bool:
    """Rewrite the gather from a constant table along an axis other than that of its blocks."""
    data, indices, scales, zeros = [*node.input, ""][:4]
    packed, points = known.constants.get(data), known.constants.get(zeros)
    shapes = known.shapes
    if packed is None or (zeros and points is None) or scales not in known.kinds or indices not in shapes:
        return False
    whole, middle = whole_numbers(node, packed)
    block_size = int(of(node, "block_size", BLOCK_SIZE))
    check_block_size(node, block_size)
    along, across = axes_of(node, whole.ndim)
    size = max(1, min(block_size, whole.shape[across]))  # a shorter axis is a single block without padding
    blocks = -(-whole.shape[across] // size)
    wanted = [blocks if d == across else each for d, each in enumerate(whole.shape)]
    if shapes.get(scales, wanted) != wanted:
        raise not_quantised(node, f"scales must be {wanted}, they are {shapes[scales]}")
    spare = [(0, blocks * size - whole.shape[across] if d == across else 0) for d in range(whole.ndim)]
    read = writer.add("Gather", writer.constant(np.pad(whole, spare)), indices, axis=along)
    kind, rank = known.kinds[scales], len(shapes[indices])
    block_axis = across + (rank - 1 if along < across else 0)
    counts = [*wanted[:along], *shapes[indices], *wanted[along + 1 :]]
    apart = [*counts[: block_axis + 1], size, *counts[block_axis + 1 :]]
    per_block = [*counts[: block_axis + 1], 1, *counts[block_axis + 1 :]]
    numbers = writer.reshape(writer.add("Cast", read, to=kind), *apart)
    if points is not None:
        offset = zero_points(node, points, wanted, middle)
        points_read = writer.add("Gather", writer.constant(offset), indices, axis=along)
        numbers = writer.add("Sub", numbers, writer.reshape(writer.add("Cast", points_read, to=kind), *per_block))
    elif str(packed.dtype) == "uint4":  # the default zero point is 0 here, but the middle for uint8
        numbers = writer.add("Add", numbers, writer.number(middle, kind))
    steps = writer.reshape(writer.add("Gather", scales, indices, axis=along), *per_block)
    counts[block_axis] = blocks * size
    result = writer.reshape(writer.add("Mul", numbers, steps), *counts)
    if blocks * size > whole.shape[across]:
        result = writer.slice(result, 0, whole.shape[across], block_axis)
    writer.add("Identity", result, into=node.output[0])
    return True


def axes_of(node: "NodeProto", rank: int) -> tuple[int, int]:
    """Return the axis of the gather and the axis of the blocks.

    Raises:
        UnsupportedError: An axis is out of range, or both are the same.
    """
    axes = [int(of(node, name, default)) for name, default in (("gather_axis", 0), ("quantize_axis", 1))]
    if not all(-rank <= axis < rank for axis in axes):
        raise not_quantised(node, f"its axes must be those of {rank} dimensions, they are {axes}")
    along, across = (axis % rank for axis in axes)
    if along == across:
        raise not_quantised(node, f"rows must be along another axis than blocks, both are along axis {along}")
    return along, across


def whole_numbers(node: "NodeProto", packed: Array) -> tuple[Array, int]:
    """Return the unpacked values of a table in i8, and the amount subtracted from unsigned ones.

    Raises:
        UnsupportedError: The element type of the table is not supported.
    """
    kind, bits = str(packed.dtype), int(of(node, "bits", 4))
    if kind not in BLOCK_TYPES or bits not in WHOLE_BITS or not packed.ndim:
        raise not_quantised(node, f"data must be int4, uint4 or bytes of 4 or 8 bits, they are {kind} of {bits} bits")
    if kind == "uint8":
        packed = unpacked(packed, bits)
    middle = (1 << (bits - 1 if kind == "uint8" else 3)) if kind.startswith("u") else 0
    return (packed.astype(np.int16) - middle).astype(np.int8), middle


def zero_points(node: "NodeProto", points: Array, shape: list[int], middle: int) -> Array:
    """Return the zero points of each block, for signed values.

    Raises:
        UnsupportedError: The number of zero points does not match the blocks.
    """
    if str(points.dtype) == "uint8":
        points = unpacked(points, int(of(node, "bits", 4)))[..., : shape[-1]]
    if points.size != prod(shape):
        raise not_quantised(node, f"zero points must be {shape}, they are {list(points.shape)}")
    return (points.astype(np.int16) - middle).astype(np.int8).reshape(shape)
