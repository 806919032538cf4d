"""Verification of scales and zero points of quantized ONNX models before anything is computed.

Neither ONNX's checker nor its reference verifies them: a value out of its type's range is truncated silently, and a
zero point of another type is subtracted as it is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from autotune.core.payload import Array
from payload.importers.linalg import UnsupportedError
from payload.importers.onnx_nodes import KnownTensors, of
from payload.importers.onnx_oracle import to_array

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto

OUTPUT = -1  # position that denotes the node's output instead of an input
LAST, ROWS = -1, -2  # axes
PACKED = ("INT4", "UINT4", "INT2", "UINT2")  # types of which several lie in a number
STORED = ("INT8", "UINT8", "INT16", "UINT16", "BOOL", *PACKED)  # types that may lie in numbers of 32 bits
MOST_BYTE = 255


@dataclass(frozen=True)
class QuantisedTensor:
    """Positions of a quantized tensor and its parameters among the inputs of a node.

    Attributes:
        at: Position of the tensor, or `OUTPUT`.
        scale: Position of its scale; `None` if it has none.
        zero: Position of its zero point.
        axis: Axis that scales may be along; `None` if they must be scalar, or attribute ``axis`` holds it.
    """

    at: int
    scale: int | None
    zero: int
    axis: int | None = None


def plain(*firsts: int, out: int) -> tuple[QuantisedTensor, ...]:
    """Return tensors that are followed by their scale and zero point, and the output with its parameters."""
    return (*(QuantisedTensor(at, at + 1, at + 2) for at in firsts), QuantisedTensor(OUTPUT, out, out + 1))


OPS: dict[str, tuple[QuantisedTensor, ...]] = {
    "ConvInteger": (QuantisedTensor(0, None, 2), QuantisedTensor(1, None, 3, 0)),
    "DequantizeLinear": (QuantisedTensor(0, 1, 2),),
    "MatMulInteger": (QuantisedTensor(0, None, 2, ROWS), QuantisedTensor(1, None, 3, LAST)),
    "QLinearAdd": plain(0, 3, out=6),
    "QLinearAveragePool": plain(0, out=3),
    "QLinearConv": (QuantisedTensor(0, 1, 2), QuantisedTensor(3, 4, 5, 0), QuantisedTensor(OUTPUT, 6, 7)),
    "QLinearGlobalAveragePool": plain(0, out=3),
    "QLinearLeakyRelu": plain(0, out=3),
    "QLinearMatMul": (QuantisedTensor(0, 1, 2, ROWS), QuantisedTensor(3, 4, 5, LAST), QuantisedTensor(OUTPUT, 6, 7)),
    "QLinearMul": plain(0, 3, out=6),
    "QLinearSigmoid": plain(0, out=3),
    "QLinearSoftmax": plain(0, out=3),
    "QuantizeLinear": (QuantisedTensor(OUTPUT, 1, 2),),
}
OF_BLOCKS = {"GatherBlockQuantized": 2, "MatMulNBits": 2, "DequantizeLinear": 1}  # inputs that are scales of blocks
OF_ATTRIBUTE = ("QuantizeLinear", "DequantizeLinear")  # ops whose attribute says the axis


def not_quantised(node: "NodeProto", why: str) -> UnsupportedError:
    """Return the error about invalid quantization parameters of a node."""
    return UnsupportedError(f"{node.doc_string} must be quantised as its op says: {why}; quantise the model again")


def check_numbers(graph: "GraphProto") -> None:
    """Raise unless the values of integer initializers are in the range of their types.

    Raises:
        UnsupportedError: A value is out of range, such as a zero point of 300 in 8 bits.
    """
    from onnx import TensorProto  # noqa: PLC0415 - comes with an extra

    for tensor in graph.initializer:
        name = TensorProto.DataType.Name(tensor.data_type)
        if name not in STORED or not tensor.int32_data:
            continue
        low, high = ends_of(name)
        wrong = next((each for each in (min(tensor.int32_data), max(tensor.int32_data)) if not low <= each <= high), 0)
        if wrong:
            raise UnsupportedError(
                f"initializer {tensor.name} of {name.lower()} must hold numbers from {low} to {high}, one is {wrong}; "
                "quantise the model again"
            )


def check_scales(graph: "GraphProto", weights: Mapping[str, Array]) -> None:
    """Raise unless scales of blocks are finite; they may be 0 or negative.

    Raises:
        UnsupportedError: A scale is not finite.
    """
    known = {**{tensor.name: tensor for tensor in graph.initializer}, **weights}
    for node in graph.node:
        name = name_of(node, OF_BLOCKS.get(node.op_type))
        if name not in known or (node.op_type in OF_ATTRIBUTE and not of(node, "block_size", 0)):
            continue
        scales = known[name]
        wrong = (array := scales if isinstance(scales, np.ndarray) else to_array(scales))[~np.isfinite(array)]
        if wrong.size:
            raise UnsupportedError(f"scales {name} must be finite, one is {wrong[0]}; quantise the model again")


def ends_of(name: str) -> tuple[int, int]:
    """Return the range of the 32-bit integers that a type is stored in."""
    if name == "BOOL":
        return 0, 1
    if name in PACKED:
        return 0, MOST_BYTE
    ends = np.iinfo(name.lower())
    return int(ends.min), int(ends.max)


def check_node(node: "NodeProto", known: KnownTensors) -> None:
    """Raise unless types and shapes of the scales and zero points of a node match their tensors.

    Raises:
        UnsupportedError: A type or a shape does not match.
    """
    for tensor in OPS.get(node.op_type, ()):
        x, scale, zero = (name_of(node, at) for at in (tensor.at, tensor.scale, tensor.zero))
        check_type(node, x, zero, known)
        if of(node, "block_size", 0):
            check_blocks(node, known)
            continue
        has_axis = node.op_type in OF_ATTRIBUTE
        axis = int(of(node, "axis", 1)) if has_axis else tensor.axis
        shape = known.shapes.get(node.input[0] if has_axis else x)
        for name, title in ((scale, "scales"), (zero, "zero points")):
            if name in known.shapes and (shape is not None or axis is None):
                check_count(node, title, known.shapes[name], shape or [], axis)


def name_of(node: "NodeProto", at: int | None) -> str:
    """Return the name of an input of a node, or of its output; empty if there is none."""
    if at == OUTPUT:
        return str(node.output[0])
    return str(node.input[at]) if at is not None and at < len(node.input) else ""


def check_type(node: "NodeProto", x: str, zero: str, known: KnownTensors) -> None:
    """Raise unless a zero point is of the type of its tensor.

    Raises:
        UnsupportedError: The zero point is of another type.
    """
    from onnx import TensorProto  # noqa: PLC0415

    zero_type, tensor_type = known.kinds.get(zero, 0), known.kinds.get(x, 0)
    name = TensorProto.DataType.Name
    if x == node.output[0]:  # whose type follows from the zero point
        if zero_type and name(zero_type) not in STORED and not name(zero_type).startswith("FLOAT"):
            raise not_quantised(node, f"zero points must be of 16 bits at most, they are {name(zero_type).lower()}")
    elif zero_type and tensor_type and zero_type != tensor_type:
        raise not_quantised(
            node, f"zero points of {name(tensor_type).lower()} must be of that type, they are {name(zero_type).lower()}"
        )


def check_count(node: "NodeProto", title: str, sizes: Sequence[int], shape: Sequence[int], axis: int | None) -> None:
    """Raise unless parameters are scalar, or one for each index of an axis.

    Raises:
        UnsupportedError: The count is another, or the axis does not exist.
    """
    count = prod(sizes)
    if count == 1 or len(sizes) > 1:  # of rows of a batch: their own shape says where they belong
        return
    if axis is None:
        raise not_quantised(node, f"{title} must be one for all, there are {count}")
    check_axis(node, axis, shape)
    if count != shape[axis]:
        raise not_quantised(
            node, f"{title} must be one for all or {shape[axis]}, those of axis {axis % len(shape)}, there are {count}"
        )


def check_axis(node: "NodeProto", axis: int, shape: Sequence[int]) -> None:
    """Raise unless a tensor has an axis.

    Raises:
        UnsupportedError: The axis is outside the tensor's rank.
    """
    if not -len(shape) <= axis < len(shape):
        raise not_quantised(node, f"axis must be one of {len(shape)} dimensions, it is {axis}")


def check_blocks(node: "NodeProto", known: KnownTensors) -> None:
    """Raise unless each block along an axis has a scale.

    Raises:
        UnsupportedError: A block has no scale, or the block size does not divide the axis.
    """
    size, shape = int(of(node, "block_size", 0)), known.shapes.get(node.input[0])
    if shape is None:
        return
    axis = int(of(node, "axis", 1))
    check_axis(node, axis, shape)
    if not 1 <= size <= shape[axis] or shape[axis] % size:
        raise not_quantised(node, f"block_size must divide the {shape[axis]} of axis {axis}, it is {size}")
    wanted = [each // size if number == axis % len(shape) else each for number, each in enumerate(shape)]
    for name, title in zip(node.input[1:], ("scales", "zero points"), strict=False):
        if known.shapes.get(name, wanted) != wanted:
            raise not_quantised(node, f"{title} must be {written(wanted)}, they are {written(known.shapes[name])}")


def written(shape: Sequence[int]) -> str:
    """Format a shape for a message."""
    return "x".join(map(str, shape))
