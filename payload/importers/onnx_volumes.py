"""Rewrite of 3-D convolutions of ONNX models to 2-D convolutions.

    y[o, d] = sum over e of conv(x[s d + e], w[o, e])   ->   conv of what has the planes s d + e of x as channels

Only depthwise ones are rewritten, which torch-mlir does not import. Each plane of the input is copied once for each
kernel element along the depth that reads it.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from autotune.core.payload import Array
from payload.importers.onnx_nodes import KnownTensors, NodeWriter, of
from payload.importers.onnx_plain import rewrite_nodes

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

KERNEL, VOLUME = 1, 3  # input position of the kernel; spatial dimensions of a volume


def write_planes(model: "ModelProto", weights: dict[str, Array]) -> None:
    """Rewrite 3-D convolutions by weights as 2-D ones, in place; unused weights are removed.

    Args:
        model: Model whose shapes are inferred.
        weights: Arrays of the graph's inputs that are weights, by name.
    """
    rewrite_nodes(model.graph, {"Conv": write_conv}, weights)


def write_conv(writer: NodeWriter, node: "NodeProto", facts: KnownTensors) -> bool:
    """Rewrite a depthwise 3-D convolution by a weight as a 2-D one; return whether it was such."""
    kernel, shape = facts.weights.get(node.input[KERNEL]), facts.shapes[node.input[0]]
    is_padded = of(node, "auto_pad", "NOTSET") != "NOTSET"
    if kernel is None or kernel.ndim != VOLUME + 2 or is_padded:
        return False
    made, channels, *taps = kernel.shape
    group = of(node, "group", 1)
    strides, dilations = (of(node, name, [1] * VOLUME) for name in ("strides", "dilations"))
    if group == 1 or channels > 1:
        return False
    pads = of(node, "pads", [0] * 2 * VOLUME)
    wide = [shape[2 + d] + pads[d] + pads[VOLUME + d] for d in range(VOLUME)]
    spans = [dilations[d] * (taps[d] - 1) + 1 for d in range(VOLUME)]
    sizes = [(size - span) // stride + 1 for size, span, stride in zip(wide, spans, strides, strict=True)]
    more = [*node.input[2:], ""][0]
    inputs = [writer.constant(np.ascontiguousarray(kernel.reshape(made, taps[0], *taps[1:])))]
    inputs += [more] if more else []
    x = node.input[0]
    if any(pads):
        x = writer.add("Pad", x, writer.constant(np.asarray([0, 0, *pads[:VOLUME], 0, 0, *pads[VOLUME:]], np.int64)))
    planes = planes_of(writer, x, [*shape[:2], *wide], [strides[0], dilations[0], taps[0], sizes[0]])
    result = writer.add(
        "Conv", planes, *inputs, kernel_shape=taps[1:], strides=strides[1:], dilations=dilations[1:], group=group
    )
    apart = writer.reshape(result, shape[0], sizes[0], made, *sizes[1:])
    writer.add("Transpose", apart, perm=[0, 2, 1, 3, 4], into=node.output[0])
    return True


def planes_of(writer: NodeWriter, x: str, shape: Sequence[int], along: Sequence[int]) -> str:
    """Gather planes ``(n d, c e, h, w)`` of volumes ``(n, c, depth, h, w)``: tap e of the window at depth d.

    Args:
        writer: Writer of the nodes.
        x: Name of the volumes.
        shape: Shape of the volumes.
        along: Stride, dilation, taps and size of the result, along the depth.
    """
    n, channels, _, high, wide = shape
    stride, dilation, taps, out_depth = along
    lines = []
    for tap in range(taps):
        first = tap * dilation
        part = writer.slice(x, first, first + (out_depth - 1) * stride + 1, 2, step=stride)
        lines.append(writer.reshape(part, n, channels, 1, out_depth, high, wide))
    joined = writer.add("Concat", *lines, axis=2) if taps > 1 else lines[0]
    transposed = writer.add("Transpose", joined, perm=[0, 3, 1, 2, 4, 5])
    return writer.reshape(transposed, n * out_depth, channels * taps, high, wide)
