"""Rewrite of GridSample: elements at coordinates given by a tensor, nearest or interpolated.

    coordinate = ((g + 1) size - 1) / 2, or (g + 1) (size - 1) / 2 where corners are aligned
    y = sum over neighbours of weight x[neighbour], of zeros where a neighbour lies outside

torch-mlir reads out of bounds where a coordinate is outside, and supports 2-D images and zero padding only.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from payload.importers.linalg import cannot_lower
from payload.importers.onnx_nodes import KnownTensors, NodeWriter, of

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto

MODES = ("nearest", "linear", "bilinear")
PADS = ("zeros", "border", "reflection")
REAL = (1, 10, 11, 16)  # f32, f16, f64 and bf16 in TensorProto
WHOLE = 7  # TensorProto.INT64
MOVES = (
    "Cast",
    "Flatten",
    "Identity",
    "Reshape",
    "Squeeze",
    "Transpose",
    "Unsqueeze",
)  # ops that do not change values
OUTSIDE = 2.0  # bound of random coordinates; those beyond 1 are outside the image


@dataclass(frozen=True)
class Neighbour:
    """An element next to a coordinate, along one axis.

    Attributes:
        index: Name of the index in i64, clamped to the image.
        inside: Name of the mask of indices that were inside the image; empty if not needed.
        weight: Name of the interpolation weight; empty for 1.
    """

    index: str
    inside: str
    weight: str


def grids_of(graph: "GraphProto") -> frozenset[str]:
    """Return the names of tensors that are sampling grids, or are only moved to one."""
    grids = set[str]()
    for node in reversed(graph.node):
        if node.op_type == "GridSample" and len(node.input) > 1:
            grids.add(node.input[1])
        elif node.op_type in MOVES and node.output[0] in grids:
            grids.add(node.input[0])
    return frozenset(grids)


def sample(writer: NodeWriter, node: "NodeProto", facts: KnownTensors) -> bool:
    """Rewrite GridSample to gathers, for any number of spatial dimensions.

    Raises:
        UnsupportedError: The mode is cubic, or a tensor is not a float tensor.
    """
    x, grid = node.input[:2]
    shape, grid_shape = facts.shapes[x], facts.shapes.get(grid)
    mode, pad = of(node, "mode", "linear"), of(node, "padding_mode", "zeros")
    if mode not in MODES or pad not in PADS:
        raise cannot_lower(node.doc_string, f"its mode must be nearest or linear, it is {mode} with {pad}")
    if facts.kinds[x] not in REAL or facts.kinds.get(grid) not in REAL:
        raise cannot_lower(node.doc_string, "it must sample real numbers, at coordinates in real numbers")
    if grid_shape is None:
        return False
    n, channels, *sizes = shape
    count = prod(grid_shape[1:-1])
    axes = []
    for d, size in enumerate(sizes):
        at = len(sizes) - 1 - d  # a grid has coordinates of the last axis first
        part = writer.slice(grid, at, at + 1, len(grid_shape) - 1)
        scaled = coordinate_in(writer, writer.reshape(part, n, 1, count), size, facts.kinds[grid], node)
        axes.append(neighbours(writer, scaled, size, facts.kinds, (x, grid), mode, pad))
    terms = [weigh(writer, node, shape, each, facts.kinds[x]) for each in product(*axes)]
    total = terms[0]
    for term in terms[1:]:
        total = writer.add("Add", total, term)
    writer.reshape(total, n, channels, *grid_shape[1:-1], into=node.output[0])
    return True


def coordinate_in(writer: NodeWriter, g: str, size: int, kind: int, node: "NodeProto") -> str:
    """Convert grid values to coordinates along an axis of `size` elements; `nearest` rounds halves to even."""
    one, half = (writer.number(each, kind) for each in (1, 2))
    begun = writer.add("Add", g, one)
    is_aligned = bool(of(node, "align_corners", 0))
    if is_aligned:
        coordinate = writer.add("Mul", writer.add("Div", begun, half), writer.number(size - 1, kind))
    else:
        behind = writer.add("Sub", writer.add("Mul", begun, writer.number(size, kind)), one)
        coordinate = writer.add("Div", behind, half)
    if of(node, "mode", "linear") == "nearest":
        coordinate = writer.add("Round", coordinate)
    if of(node, "padding_mode", "zeros") == "reflection":
        coordinate = reflect(writer, coordinate, (0, size - 1) if is_aligned else (-0.5, size - 0.5), kind)
    return coordinate


def reflect(writer: NodeWriter, coordinate: str, ends: tuple[float, float], kind: int) -> str:
    """Reflect coordinates at the two ends of an interval until they are inside."""
    low, high = ends
    if low == high:
        return writer.add("Mul", coordinate, writer.number(0, kind))
    begin, period = writer.number(low, kind), writer.number(2 * (high - low), kind)
    away = writer.add("Abs", writer.add("Sub", coordinate, begin))
    rounds = writer.add("Floor", writer.add("Div", away, period))
    rest = writer.add("Sub", away, writer.add("Mul", rounds, period))
    return writer.add("Add", begin, writer.add("Min", rest, writer.add("Sub", period, rest)))


def neighbours(  # noqa: PLR0917 - each is of another kind
    writer: NodeWriter,
    coordinate: str,
    size: int,
    kinds: Mapping[str, int],
    names: tuple[str, str],
    mode: str,
    pad: str,
) -> list[Neighbour]:
    """Return the elements along an axis that are interpolated at a coordinate."""
    x_kind, kind = (kinds[name] for name in names)
    zero, last, one = (writer.number(each, kind) for each in (0, size - 1, 1))

    def neighbour(at: str, weight: str) -> Neighbour:
        least, most = writer.add("GreaterOrEqual", at, zero), writer.add("LessOrEqual", at, last)
        inside = writer.add("And", least, most)
        if pad == "zeros":
            clipped = writer.add("Where", inside, at, zero)  # also maps NaN, which is never inside, to 0
        else:
            clipped = writer.add("Where", most, writer.add("Where", least, at, zero), last)
            inside = ""
        share = writer.add("Cast", weight, to=x_kind) if weight else ""
        return Neighbour(writer.add("Cast", clipped, to=WHOLE), inside, share)

    if mode == "nearest":
        return [neighbour(coordinate, "")]
    first = writer.add("Floor", coordinate)
    behind = writer.add("Sub", coordinate, first)
    return [
        neighbour(first, writer.add("Sub", one, behind)),
        neighbour(writer.add("Add", first, one), behind),
    ]


def weigh(writer: NodeWriter, node: "NodeProto", shape: list[int], neighbours: tuple[Neighbour, ...], kind: int) -> str:
    """Gather the elements at one neighbour per axis, times their weights: ``(n, channels, coordinates)``."""
    n, channels, *sizes = shape
    at = ""
    for d, each in enumerate(neighbours):
        step = prod(sizes[d + 1 :])
        part = writer.add("Mul", each.index, writer.numbers(step)) if step > 1 else each.index
        at = writer.add("Add", at, part) if at else part
    if n == 1:
        rows = writer.reshape(node.input[0], channels, prod(sizes))
        gathered = writer.add("Gather", rows, writer.reshape(at, -1), axis=1)
        gathered = writer.add("Unsqueeze", gathered, writer.numbers(0))
    else:
        begins = writer.constant(np.arange(n * channels, dtype=np.int64).reshape(n, channels, 1) * prod(sizes))
        gathered = writer.add("Gather", writer.reshape(node.input[0], -1), writer.add("Add", at, begins), axis=0)
    for each in neighbours:
        if each.inside:
            gathered = writer.add("Where", each.inside, gathered, writer.number(0, kind))
    for each in neighbours:
        if each.weight:
            gathered = writer.add("Mul", gathered, each.weight)
    return gathered
