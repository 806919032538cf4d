"""Rewrites of Resize in forms that torch-mlir does not lower: gathers and weighted sums, one axis at a time.

    nearest: y[i] = x[n(i)];   linear: y[i] = (1 - w(i)) x[f(i)] + w(i) x[f(i) + 1]

All indices and weights are constants, since sizes are static. Coordinates of output positions in the input are computed
by ONNX's formula of each `coordinate_transformation_mode`.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from autotune.core.payload import Array
from payload.importers.onnx_nodes import KnownTensors, NodeWriter, dtype_of, of

if TYPE_CHECKING:
    from onnx import NodeProto

SCALES = 2  # position of the scales among the inputs
HOW = "coordinate_transformation_mode"
PLANES = 4  # rank of images, whose linear resizing torch-mlir lowers
# By mode: coordinates in the input, from output positions, scale, output size and input size.
POSITIONS: dict[str, Callable[[Array, float, int, int], Array]] = {
    "half_pixel": lambda i, scale, out, into: (i + 0.5) / scale - 0.5,
    "half_pixel_symmetric": lambda i, scale, out, into: into / 2 * (1 - out / (scale * into)) + (i + 0.5) / scale - 0.5,
    "pytorch_half_pixel": lambda i, scale, out, into: (i + 0.5) / scale - 0.5 if out > 1 else 0 * i,
    "align_corners": lambda i, scale, out, into: i * (into - 1) / (out - 1) if out > 1 else 0 * i,
    "asymmetric": lambda i, scale, out, into: i / scale,
}
ROUNDED: dict[str, Callable[[Array], Array]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}
FLOAT = 1  # TensorProto.FLOAT
LOWERED = ("half_pixel", "asymmetric")  # coordinate modes that torch-mlir lowers for `nearest`


def resize_as_specified(writer: NodeWriter, node: "NodeProto", facts: KnownTensors) -> bool:
    """Rewrite Resize where ONNX's reference differs: linear mode on integers, and `align_corners` with scales.

    Integers are interpolated in float and truncated, as in ONNX Runtime. With `align_corners`, scales are replaced by
    the integer sizes of the result; the reference uses the input size times the scale without rounding.
    """
    x, *others = node.input
    kind = facts.kinds[x]
    attributes = {attribute.name: of(node, attribute.name, None) for attribute in node.attribute}
    lengths = facts.shapes.get(node.output[0])
    by_scales = lengths is not None and len(others) == SCALES and attributes.get(HOW) == "align_corners"
    is_mean = of(node, "mode", "nearest") == "linear" and np.issubdtype(dtype_of(kind), np.integer)
    if lengths is not None and by_scales:
        others = [
            others[0],
            "",
            writer.numbers(*(lengths[axis] for axis in attributes.get("axes", range(len(lengths))))),
        ]
        attributes.pop("keep_aspect_ratio_policy", None)  # applies to sizes only
    if is_mean:
        real = writer.add("Cast", x, to=FLOAT)
        writer.add("Cast", writer.add("Resize", real, *others, **attributes), into=node.output[0], to=kind)
    elif by_scales:
        writer.add("Resize", x, *others, into=node.output[0], **attributes)
    return is_mean or by_scales


def add_coordinate_mode(node: "NodeProto", scales: Array | None) -> None:
    """Set the coordinate mode of a Resize from before version 11, in place, which ONNX's version converter omits.

    Coordinates are output positions divided by the scale, rounded up when downsampling, as in ONNX Runtime.

    Args:
        node: Node, already converted to a later version.
        scales: Scales of the node, if they are constant.
    """
    from onnx.helper import make_attribute  # noqa: PLC0415 - comes with an extra

    is_smaller = scales is not None and bool(np.all(scales <= 1))
    node.attribute.append(make_attribute(HOW, "asymmetric"))
    node.attribute.append(make_attribute("nearest_mode", "ceil" if is_smaller else "floor"))


def resize(writer: NodeWriter, node: "NodeProto", facts: KnownTensors) -> bool:
    """Rewrite Resize in nearest or linear mode, for any number of dimensions."""
    shape, wanted = facts.shapes[node.input[0]], facts.shapes.get(node.output[0], [])
    how, mode = of(node, HOW, "half_pixel"), of(node, "mode", "nearest")
    is_of_planes = not of(node, "axes", []) and shape[:2] == wanted[:2]
    is_lowered = is_of_planes and (how in LOWERED if mode == "nearest" else len(shape) == PLANES)
    is_plain = of(node, "keep_aspect_ratio_policy", "stretch") == "stretch" and not of(node, "antialias", 0)
    if is_lowered or mode == "cubic" or how not in POSITIONS or not is_plain or len(wanted) != len(shape):
        return False
    axes = list(of(node, "axes", range(len(shape))))
    scales = facts.constants.get(node.input[SCALES]) if len(node.input) > SCALES else None
    by_axis = dict(zip(axes, scales if scales is not None and scales.size else (), strict=False))
    last = node.input[0]
    for axis, (into, out) in enumerate(zip(shape, wanted, strict=True)):
        scale = float(by_axis.get(axis, out / into))
        if (into, scale) == (out, 1.0):
            continue
        coordinates = POSITIONS[how](np.arange(out, dtype=np.float64), scale, out, into)
        if mode == "nearest":
            indices = ROUNDED[of(node, "nearest_mode", "round_prefer_floor")](coordinates)
            last = take(writer, last, axis, np.clip(indices, 0, into - 1))
        else:
            last = weigh(
                writer, (last, axis, facts.kinds[node.input[0]]), np.clip(coordinates, 0, into - 1), len(shape)
            )
    writer.add("Identity", last, into=node.output[0])
    return True


def take(writer: NodeWriter, x: str, axis: int, indices: Array) -> str:
    """Gather elements along an axis."""
    return writer.add("Gather", x, writer.constant(indices.astype(np.int64)), axis=axis)


def weigh(writer: NodeWriter, source: tuple[str, int, int], coordinates: Array, rank: int) -> str:
    """Interpolate neighbours along an axis of a tensor, at fractional coordinates."""
    x, axis, kind = source
    first = np.floor(coordinates)
    share = (coordinates - first).reshape([-1 if d == axis else 1 for d in range(rank)])
    parts = [(first, 1 - share), (np.ceil(coordinates), share)]
    weighted = [
        writer.add("Mul", take(writer, x, axis, indices), writer.constant(weights.astype(dtype_of(kind))))
        for indices, weights in parts
    ]
    return writer.add("Add", *weighted)
