"""Rewrites of ops on block-quantized weights: MatMulNBits, and DequantizeLinear with a block size."""

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from autotune.core.payload import Array
from payload.importers.onnx_blocks import F32, OnnxBlocks, hold
from payload.importers.onnx_nodes import KnownTensors, NodeWriter, of
from payload.importers.onnx_quantised_checks import not_quantised

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto

MATRIX = 2  # rank of a matrix
WHOLE_BITS = (4, 8)  # supported bit widths of block-quantized weights
BLOCK_TYPES = ("int4", "uint4", "int8", "uint8")
LEAST_BLOCK, MOST_SIZE = 16, 1 << 24  # minimum block size, and maximum of block size, N and K
ZEROS, UINT8 = 3, 2  # input position of the zero points; TensorProto.UINT8


def product_of_blocks(writer: NodeWriter, node: "NodeProto", known: KnownTensors) -> bool:
    """Rewrite MatMulNBits by a constant weight: it stays block-quantized if possible, else it is dequantized at import.

    Scales may be 0 or negative: ONNX Runtime's quantizer writes them for blocks of zeros, and for blocks whose element
    of largest magnitude has the other sign.
    """
    a, b, scales, zeros, order, bias = [*node.input, "", "", ""][:6]
    packed, points = known.constants.get(b), known.constants.get(zeros)
    n, k, bits, size = sizes_of_blocks(node, known)
    if packed is None or order or (zeros and points is None):
        return False
    if packed.dtype != np.uint8 or (points is not None and points.dtype != np.uint8):
        return False
    blocks = -(-k // size)
    middle = 1 << (bits - 1)
    whole = (unpacked(packed, bits).reshape(n, blocks, size).astype(np.int16) - middle).astype(np.int8)
    at = unpacked(points.reshape(n, -1), bits)[:, :blocks] if points is not None else np.full((n, blocks), middle)
    zero = at.astype(np.int16) - middle
    transposed = ""
    if known.kinds.get(a) == F32 and scales in known.weights:
        numbers = known.weights[scales].reshape(n, blocks)
        transposed = hold(writer, known, node, OnnxBlocks(whole, zero, numbers, bits, k))
    if not transposed:
        transposed = widened(writer, whole, zero, scales, k)
    if not bias:
        writer.add("MatMul", a, transposed, into=node.output[0])
        return True
    writer.add("Add", writer.add("MatMul", a, transposed), bias, into=node.output[0])
    return True


def widened(writer: NodeWriter, whole: Array, zero: Array, scales: str, columns: int) -> str:
    """Add the dequantization of a weight to ``(K, N)`` in f32; return its name.

    Args:
        writer: Writer of the nodes.
        whole: Quantized values ``(N, blocks, size)``.
        zero: Zero points ``(N, blocks)``.
        scales: Name of the scales.
        columns: Number of columns K.
    """
    n, blocks, size = whole.shape
    stored = writer.constant(whole.reshape(n * blocks, size))
    zeros = writer.constant(zero.reshape(-1, 1).astype(np.float32))
    moved = writer.add("Sub", writer.add("Cast", stored, to=F32), zeros)
    weight = writer.reshape(writer.add("Mul", moved, writer.reshape(scales, n * blocks, 1)), n, blocks * size)
    if columns < blocks * size:
        weight = writer.slice(weight, 0, columns, 1)
    return writer.add("Transpose", weight, perm=[1, 0])


def sizes_of_blocks(node: "NodeProto", known: KnownTensors) -> tuple[int, int, int, int]:
    """Return N and K of a block-quantized weight, its bits and its block size.

    Raises:
        UnsupportedError: A size is invalid, or does not match an input of the node.
    """
    n, k, bits, size = (int(of(node, name, 4 * (name == "bits"))) for name in ("N", "K", "bits", "block_size"))
    if bits not in WHOLE_BITS:
        raise not_quantised(node, f"bits must be 4 or 8, they are {bits}")
    if not (0 < n <= MOST_SIZE and 0 < k <= MOST_SIZE):
        raise not_quantised(node, f"N and K must be from 1 to {MOST_SIZE}, they are {n} and {k}")
    check_block_size(node, size)
    blocks = -(-k // size)
    packed = -(-blocks * bits // 8)
    wanted = {1: n * blocks * size * bits // 8, 2: n * blocks, 3: n * packed, 5: n}
    for number, title in ((1, "bytes of B"), (2, "scales"), (3, "bytes of zero points"), (5, "biases")):
        name = node.input[number] if number < len(node.input) else ""
        is_real = number == ZEROS and known.kinds.get(name) != UINT8  # zero points may also be floats, one per block
        if name in known.shapes and not is_real and prod(known.shapes[name]) != wanted[number]:
            raise not_quantised(node, f"{title} must be {wanted[number]}, they are {prod(known.shapes[name])}")
    columns = known.shapes.get(node.input[0], [k])[-1]
    if columns != k:
        raise not_quantised(node, f"K must be the {columns} columns of A, it is {k}")
    return n, k, bits, size


def check_block_size(node: "NodeProto", size: int) -> None:
    """Raise unless a block size is valid.

    Raises:
        UnsupportedError: The size is too small or too large, or not a power of two.
    """
    if size < LEAST_BLOCK or size & (size - 1) or size > MOST_SIZE:
        raise not_quantised(node, f"block_size must be a power of two from {LEAST_BLOCK} on, it is {size}")


def blocks_along_an_axis(writer: NodeWriter, node: "NodeProto", known: KnownTensors) -> bool:
    """Rewrite DequantizeLinear with a block size; a constant weight stays quantized, if possible."""
    size, (x, scale, zero) = int(of(node, "block_size", 0)), [*node.input, ""][:3]
    if not size or x not in known.shapes or scale not in known.shapes or scale not in known.kinds:
        return False
    if weight := hold_axis(writer, node, known):
        for product in writer.graph.node:
            if node.output[0] in product.input:
                product.input[1] = weight
        return True
    shape, kind = known.shapes[x], known.kinds[scale]
    axis = int(of(node, "axis", 1)) % len(shape)
    apart = [*shape[:axis], shape[axis] // size, size, *shape[axis + 1 :]]
    of_blocks = [*apart[: axis + 1], 1, *apart[axis + 2 :]]
    whole = writer.reshape(writer.add("Cast", x, to=kind), *apart)
    if zero:
        whole = writer.add("Sub", whole, writer.reshape(writer.add("Cast", zero, to=kind), *of_blocks))
    scaled = writer.add("Mul", whole, writer.reshape(scale, *of_blocks))
    writer.add("Identity", writer.reshape(scaled, *shape), into=node.output[0])
    return True


def hold_axis(writer: NodeWriter, node: "NodeProto", known: KnownTensors) -> str:
    """Keep the weight ``(K, N)`` of a DequantizeLinear block-quantized; return its name, or an empty one if impossible.

    The weight must be constant, with blocks along K, and only be read by products.
    """
    size, (x, scale, zero) = int(of(node, "block_size", 0)), [*node.input, ""][:3]
    packed, points, numbers = known.constants.get(x), known.constants.get(zero), known.weights.get(scale)
    if packed is None or numbers is None or (zero and points is None) or known.kinds.get(scale) != F32:
        return ""
    kind, shape = str(packed.dtype), packed.shape
    if kind not in BLOCK_TYPES or len(shape) != MATRIX or int(of(node, "axis", 1)) % MATRIX or size < LEAST_BLOCK:
        return ""
    if not multiplies(writer.graph, node.output[0]):
        return ""
    bits, (k, n) = 4 if kind.endswith("int4") else 8, shape
    middle = (1 << (bits - 1)) if kind.startswith("u") else 0
    whole = (packed.astype(np.int16) - middle).astype(np.int8).T.reshape(n, k // size, size)
    zeros = points.astype(np.int16) - middle if points is not None else np.full((k // size, n), -middle)
    blocks = OnnxBlocks(whole, zeros.reshape(k // size, n).T, numbers.reshape(k // size, n).T, bits, k)
    return hold(writer, known, node, blocks)


def multiplies(graph: "GraphProto", name: str) -> bool:
    """Return whether a tensor has readers, all of which are MatMuls with it as right-hand side."""
    readers = [node for node in graph.node if name in node.input]
    is_output = any(output.name == name for output in graph.output)
    return bool(readers) and not is_output and all(n.op_type == "MatMul" and n.input[0] != name for n in readers)


def unpacked(packed: Array, bits: int) -> Array:
    """Unpack integers (.., n) of `bits` bits from bytes, lower bits first."""
    shifts = range(0, 8, bits)
    return np.stack([(packed >> shift) & ((1 << bits) - 1) for shift in shifts], axis=-1).reshape(
        *packed.shape[:-1], -1
    )
