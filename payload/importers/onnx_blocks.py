"""Block-quantized weights of ONNX models that stay quantized, so that a product reads 4 or 8 bits per weight, not 32.

Until the graph is lowered, such a weight is an f32 input ``(K, N)``, which reference and runtime read. Afterwards
`linalg_blocks` replaces it by its quantized values and scales.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from autotune.core.payload import Array
from payload.blocks import HALF, LEAST, SCALE, BlockFormat, as_nibbles
from payload.importers.onnx_nodes import KnownTensors, NodeWriter, facts_of
from payload.importers.onnx_origins import take_origin
from payload.importers.onnx_values import replace_all

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto

F32 = 1  # TensorProto.FLOAT
WHOLE_BLOCK = 32  # block size of the packed 4-bit layout
NIBBLE_BITS, NIBBLE_MIDDLE = 4, 8


@dataclass(frozen=True)
class BlockWeight:
    """A block-quantized weight ``(N, K)`` in the layout that products read.

    Attributes:
        form: Block format.
        parts: Quantized values, scales and minima, by name suffix.
        node: Result name of the node that the weight belongs to.
    """

    form: BlockFormat
    parts: Mapping[str, Array]
    node: str = ""


@dataclass(frozen=True)
class OnnxBlocks:
    """A block-quantized weight as ONNX defines it.

    Attributes:
        whole: Signed quantized values ``(N, blocks, size)``; unsigned ones are shifted by half of their range.
        zeros: Zero points ``(N, blocks)``, likewise.
        scales: Scales ``(N, blocks)`` in f32; they may be 0 or negative.
        bits: Bits of a quantized value, 4 or 8.
        columns: Number of columns K; the last block may be padded.
    """

    whole: Array
    zeros: Array
    scales: Array
    bits: int
    columns: int

    @property
    def widened(self) -> Array:
        """Dequantized weight ``(K, N)`` in f32, with each step rounded as in ONNX."""
        moved = (self.whole.astype(np.int16) - self.zeros[..., None]).astype(np.float32)
        rows = (moved * self.scales[..., None]).reshape(len(self.whole), -1)
        return np.ascontiguousarray(rows[:, : self.columns].T)

    def block_weight(self) -> BlockWeight | None:
        """Convert to the layout of products, exact but for the rounding of minima; `None` if K is not whole blocks."""
        size = self.whole.shape[2]
        bits = NIBBLE_BITS if self.bits == NIBBLE_BITS and size % WHOLE_BLOCK == 0 else 8
        block = WHOLE_BLOCK if size % WHOLE_BLOCK == 0 and self.columns % WHOLE_BLOCK == 0 else HALF
        if size % block or self.columns % block or (bits == NIBBLE_BITS and block != WHOLE_BLOCK):
            return None
        blocks = self.columns // block
        whole = self.whole.reshape(len(self.whole), -1)[:, : self.columns].astype(np.int8)
        scales, zeros = (np.repeat(x, size // block, axis=1)[:, :blocks] for x in (self.scales, self.zeros))
        numbers = {SCALE: scales}
        least = bool(zeros.any())
        if least:
            middle = NIBBLE_MIDDLE if bits == NIBBLE_BITS else 0
            whole = whole + np.int8(middle)
            numbers[LEAST] = scales * (zeros.astype(np.float32) + middle)
        kind = "f16" if all(map(is_half, numbers.values())) else "f32"
        form = BlockFormat(f"blocks of {block}", bits, block, kind, least=least)
        dtype = np.dtype(np.float16 if kind == "f16" else np.float32)
        stored = as_nibbles(whole) if bits == NIBBLE_BITS else whole
        return BlockWeight(
            form, {"": stored, **{end: np.ascontiguousarray(x.astype(dtype)) for end, x in numbers.items()}}
        )


class WidenedWeight:
    """Lazy array of an f32 weight ``(K, N)``, dequantized on every read, so that models larger than memory can be read.

    Attributes:
        shape: K and N.
        dtype: f32.
    """

    def __init__(self, blocks: OnnxBlocks) -> None:
        self._blocks = blocks
        self.shape = (blocks.columns, len(blocks.whole))
        self.dtype = np.dtype(np.float32)
        self.ndim, self.size = len(self.shape), prod(self.shape)
        self.nbytes = self.size * self.dtype.itemsize

    def __array__(self, dtype: "np.dtype[Any] | None" = None, copy: "bool | None" = None) -> Array:
        """Return the weight, by NumPy's array protocol."""
        return self._blocks.widened.astype(dtype or self.dtype, copy=False)

    def astype(self, dtype: "type[np.generic]") -> Array:
        """Return the weight in another element type."""
        return self._blocks.widened.astype(dtype)


def is_half(numbers: Array) -> bool:
    """Return whether all values are exact in f16."""
    with np.errstate(over="ignore"):
        return bool(np.array_equal(numbers.astype(np.float16).astype(np.float32), numbers))


def hold(writer: NodeWriter, known: KnownTensors, node: "NodeProto", blocks: OnnxBlocks) -> str:
    """Make a weight of a node a graph input that stays block-quantized; return its name, empty if it cannot stay."""
    weight = blocks.block_weight()
    if weight is None or known.block_weights is None:
        return ""
    from onnx import helper  # noqa: PLC0415 - comes with an extra

    name = f"{node.output[0]}_weight"
    while name in known.shapes or name in known.block_weights or any(name in each.output for each in writer.graph.node):
        name += "_"
    widened = WidenedWeight(blocks)
    known.block_weights[name], known.weights[name] = replace(weight, node=node.output[0]), cast("Array", widened)
    writer.graph.input.append(helper.make_tensor_value_info(name, F32, list(widened.shape)))
    return name


def multiply_rows(graph: "GraphProto", block_weights: Mapping[str, BlockWeight]) -> None:
    """Flatten the left-hand sides of products by block-quantized weights to matrices, in place."""
    known, nodes = facts_of(graph), list["NodeProto"]()
    for number, node in enumerate(graph.node):
        shape = known.shapes.get(node.input[0]) if node.op_type == "MatMul" and node.input[1] in block_weights else None
        if shape is None or len(shape) == 2:
            nodes.append(node)
            continue
        writer, columns = NodeWriter(graph, f"rows_{number}"), known.shapes[node.input[1]][1]
        y = writer.add("MatMul", writer.reshape(node.input[0], prod(shape[:-1]), shape[-1]), node.input[1])
        writer.reshape(y, *shape[:-1], columns, into=node.output[0])
        nodes += take_origin(writer.nodes, node)
    replace_all(graph.node, nodes)
