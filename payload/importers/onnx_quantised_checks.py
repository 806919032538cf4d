"""What a quantised ONNX model says of its scales and zero points, held against ONNX before anything is computed.

Neither ONNX's checker nor its reference looks: a number that its type does not hold is cut off in silence, and a zero
point of another type is subtracted as it is.
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

OUTPUT = -1  # of a node, instead of an input
LAST, ROWS = -1, -2  # axes
PACKED = ("INT4", "UINT4", "INT2", "UINT2")  # types of which several lie in a number
STORED = ("INT8", "UINT8", "INT16", "UINT16", "BOOL", *PACKED)  # types that may lie in numbers of 32 bits
MOST_BYTE = 255


@dataclass(frozen=True)
class QuantisedTensor:
    """Which inputs of a node say what a tensor of whole numbers is.

    Attributes:
        at: Input that it is, or `OUTPUT`.
        scale: Input that is its scale; `None` where it has none.
        zero: Input that is its zero point.
        axis: Axis that scales may be along; `None` for what attribute ``axis`` says.
    """

    at: int
    scale: int | None
    zero: int
    axis: int | None = None


def plain(*firsts: int, out: int) -> tuple[QuantisedTensor, ...]:
    """Tensors each with its scale and zero point behind it, and those of the output."""
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
    """A node whose numbers are none."""
    return UnsupportedError(f"{node.doc_string} must be quantised as its op says: {why}; quantise the model again")


def check_numbers(graph: "GraphProto") -> None:
    """Raise unless the types of initializers hold their numbers.

    Raises:
        UnsupportedError: A number is out of range, such as a zero point of 300 in bytes.
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
    """Raise unless scales of blocks are finite; they may be 0 and negative.

    Raises:
        UnsupportedError: A scale is not.
    """
    known = {**{tensor.name: tensor for tensor in graph.initializer}, **weights}
    for node in graph.node:
        name = name_of(node, OF_BLOCKS.get(node.op_type))
        if name not in known or (node.op_type in OF_ATTRIBUTE and not of(node, "block_size", 0)):
            continue
        held = known[name]
        wrong = (array := held if isinstance(held, np.ndarray) else to_array(held))[~np.isfinite(array)]
        if wrong.size:
            raise UnsupportedError(f"scales {name} must be finite, one is {wrong[0]}; quantise the model again")


def ends_of(name: str) -> tuple[int, int]:
    """The smallest and the largest number of 32 bits that a type is stored in."""
    if name == "BOOL":
        return 0, 1
    if name in PACKED:
        return 0, MOST_BYTE
    ends = np.iinfo(name.lower())
    return int(ends.min), int(ends.max)


def check_node(node: "NodeProto", known: KnownTensors) -> None:
    """Raise unless scales and zero points of a node belong to what they are said of.

    Raises:
        UnsupportedError: A type or a number of them is another.
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
        for name, what in ((scale, "scales"), (zero, "zero points")):
            if name in known.shapes and (shape is not None or axis is None):
                check_count(node, what, known.shapes[name], shape or [], axis)


def name_of(node: "NodeProto", at: int | None) -> str:
    """An input of a node, or its output; empty where there is none."""
    if at == OUTPUT:
        return str(node.output[0])
    return str(node.input[at]) if at is not None and at < len(node.input) else ""


def check_type(node: "NodeProto", x: str, zero: str, known: KnownTensors) -> None:
    """Raise unless a zero point is of the type of its tensor.

    Raises:
        UnsupportedError: The zero point is of another type.
    """
    from onnx import TensorProto  # noqa: PLC0415

    mine, theirs = known.kinds.get(zero, 0), known.kinds.get(x, 0)
    name = TensorProto.DataType.Name
    if x == node.output[0]:  # whose type follows from the zero point
        if mine and name(mine) not in STORED and not name(mine).startswith("FLOAT"):
            raise not_quantised(node, f"zero points must be of 16 bits at most, they are {name(mine).lower()}")
    elif mine and theirs and mine != theirs:
        raise not_quantised(
            node, f"zero points of {name(theirs).lower()} must be of that type, they are {name(mine).lower()}"
        )


def check_count(node: "NodeProto", what: str, sizes: Sequence[int], shape: Sequence[int], axis: int | None) -> None:
    """Raise unless there is one for all, or one for each index of an axis.

    Raises:
        UnsupportedError: The count is another, or there is no such axis.
    """
    count = prod(sizes)
    if count == 1 or len(sizes) > 1:  # of rows of a batch: their own shape says where they belong
        return
    if axis is None:
        raise not_quantised(node, f"{what} must be one for all, there are {count}")
    check_axis(node, axis, shape)
    if count != shape[axis]:
        raise not_quantised(
            node, f"{what} must be one for all or {shape[axis]}, those of axis {axis % len(shape)}, there are {count}"
        )


def check_axis(node: "NodeProto", axis: int, shape: Sequence[int]) -> None:
    """Raise unless a tensor has an axis.

    Raises:
        UnsupportedError: The axis is outside the tensor's rank.
    """
    if not -len(shape) <= axis < len(shape):
        raise not_quantised(node, f"axis must be one of {len(shape)} dimensions, it is {axis}")


def check_blocks(node: "NodeProto", known: KnownTensors) -> None:
    """Raise unless blocks along an axis have a scale each.

    Raises:
        UnsupportedError: A block has none, or blocks do not divide the axis.
    """
    size, shape = int(of(node, "block_size", 0)), known.shapes.get(node.input[0])
    if shape is None:
        return
    axis = int(of(node, "axis", 1))
    check_axis(node, axis, shape)
    if not 1 <= size <= shape[axis] or shape[axis] % size:
        raise not_quantised(node, f"block_size must divide the {shape[axis]} of axis {axis}, it is {size}")
    wanted = [each // size if number == axis % len(shape) else each for number, each in enumerate(shape)]
    for name, what in zip(node.input[1:], ("scales", "zero points"), strict=False):
        if known.shapes.get(name, wanted) != wanted:
            raise not_quantised(node, f"{what} must be {written(wanted)}, they are {written(known.shapes[name])}")


def written(shape: Sequence[int]) -> str:
    """A shape as a message has it."""
    return "x".join(map(str, shape))
