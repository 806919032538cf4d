"""Weights in blocks of ONNX models that stay in blocks: a product reads 4 or 8 bits of a weight, and not 32.

Until the graph is lowered such a weight is an input of it in f32, ``(K, N)``, which reference and runtime read; then
`linalg_blocks` replaces it by its whole numbers and scales.
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

F32 = 1  # ONNX's number of the type
WHOLE_BLOCK = 32  # elements of a block of nibbles, as they lie
NIBBLE_BITS, NIBBLE_MIDDLE = 4, 8


@dataclass(frozen=True)
class HeldWeight:
    """A weight ``(N, K)`` as products read it.

    Attributes:
        form: Format.
        parts: Whole numbers, scales and least numbers, by what names end in.
        node: What the node gives that had it in blocks.
    """

    form: BlockFormat
    parts: Mapping[str, Array]
    node: str = ""


@dataclass(frozen=True)
class OnnxBlocks:
    """A weight in blocks as ONNX says it.

    Attributes:
        whole: Whole numbers ``(N, blocks, size)`` with a sign: of unsigned types less half of their range.
        zeros: Zero points ``(N, blocks)``, likewise.
        scales: Scales ``(N, blocks)`` in f32; they may be 0 and negative.
        bits: Bits of a whole number, 4 or 8.
        columns: Columns K: the last block may be longer than what is left.
    """

    whole: Array
    zeros: Array
    scales: Array
    bits: int
    columns: int

    @property
    def widened(self) -> Array:
        """The weight ``(K, N)`` in f32, each step rounded as ONNX has it."""
        moved = (self.whole.astype(np.int16) - self.zeros[..., None]).astype(np.float32)
        rows = (moved * self.scales[..., None]).reshape(len(self.whole), -1)
        return np.ascontiguousarray(rows[:, : self.columns].T)

    def held(self) -> HeldWeight | None:
        """The same as products read it, exact but for one rounding of what is subtracted; `None` of no whole blocks."""
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
        return HeldWeight(
            form, {"": stored, **{end: np.ascontiguousarray(x.astype(dtype)) for end, x in numbers.items()}}
        )


class WidenedWeight:
    """A weight ``(K, N)`` in f32 that is widened whenever it is read: a model of them need not fit the memory.

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
        """The weight, as NumPy asks for it."""
        return self._blocks.widened.astype(dtype or self.dtype, copy=False)

    def astype(self, dtype: "type[np.generic]") -> Array:
        """The weight in another type."""
        return self._blocks.widened.astype(dtype)


def is_half(numbers: Array) -> bool:
    """Whether f16 holds all numbers as they are."""
    with np.errstate(over="ignore"):
        return bool(np.array_equal(numbers.astype(np.float16).astype(np.float32), numbers))


def hold(writer: NodeWriter, known: KnownTensors, node: "NodeProto", blocks: OnnxBlocks) -> str:
    """Make a weight of a node an input of the graph that stays in blocks; its name, empty where it cannot stay."""
    held = blocks.held()
    if held is None or known.held is None:
        return ""
    from onnx import helper  # noqa: PLC0415 - comes with an extra

    name = f"{node.output[0]}_weight"
    while name in known.shapes or name in known.held or any(name in each.output for each in writer.graph.node):
        name += "_"
    widened = WidenedWeight(blocks)
    known.held[name], known.weights[name] = replace(held, node=node.output[0]), cast("Array", widened)
    writer.graph.input.append(helper.make_tensor_value_info(name, F32, list(widened.shape)))
    return name


def multiply_rows(graph: "GraphProto", held: Mapping[str, HeldWeight]) -> None:
    """Write products by weights in blocks as those of two matrices, in place; shapes are inferred."""
    known, nodes = facts_of(graph), list["NodeProto"]()
    for number, node in enumerate(graph.node):
        shape = known.shapes.get(node.input[0]) if node.op_type == "MatMul" and node.input[1] in held else None
        if shape is None or len(shape) == 2:
            nodes.append(node)
            continue
        writer, columns = NodeWriter(graph, f"rows_{number}"), known.shapes[node.input[1]][1]
        y = writer.add("MatMul", writer.reshape(node.input[0], prod(shape[:-1]), shape[-1]), node.input[1])
        writer.reshape(y, *shape[:-1], columns, into=node.output[0])
        nodes += take_origin(writer.nodes, node)
    replace_all(graph.node, nodes)
