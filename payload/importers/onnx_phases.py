"""Rewrite of transposed convolutions of ONNX models to dense ones that compute the phases of the stride.

    y[s q + r] = sum over j of x[q - j] w[s j + r]   ->   a convolution by s channels a channel, spread over positions

torch-mlir inserts zeros between the input elements and flips the kernel in every call. Here nothing is multiplied by
zeros, and kernels, which must be weights, are rearranged at import. If the stride does not divide the kernel size, each
phase is a separate convolution. Phases beyond the end of a shorter kernel are zero before the bias.
"""

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from autotune.core.payload import Array
from payload.importers.onnx_nodes import KnownTensors, NodeWriter, of
from payload.importers.onnx_plain import rewrite_nodes
from payload.importers.phases import Dense, Phases, dense_convolutions, phases_of, spread_order

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

KERNEL, BIAS = 1, 2  # positions among the inputs


def write_phases(model: "ModelProto", weights: dict[str, Array]) -> None:
    """Rewrite transposed convolutions by weights as dense ones, in place; unused weights are removed.

    Args:
        model: Model whose shapes are inferred.
        weights: Arrays of the graph's inputs that are weights, by name.
    """
    rewrite_nodes(model.graph, {"ConvTranspose": write_dense}, weights)


def write_dense(writer: NodeWriter, node: "NodeProto", facts: KnownTensors) -> bool:
    """Rewrite a transposed convolution as a dense one; return whether that is possible."""
    x, kernel = node.input[0], facts.weights.get(node.input[KERNEL])
    bias = facts.weights.get(node.input[BIAS]) if len(node.input) > BIAS else None
    is_odd = of(node, "auto_pad", "NOTSET") != "NOTSET" or of(node, "output_shape", None) is not None
    if kernel is None or is_odd or (len(node.input) > BIAS and bias is None):
        return False
    rank, group = kernel.ndim - 2, of(node, "group", 1)
    if set(of(node, "dilations", [1])) != {1} or rank < 1:
        return False
    n, _, *spatial = facts.shapes[x]
    strides, pads = of(node, "strides", [1] * rank), of(node, "pads", [0] * 2 * rank)
    added = of(node, "output_padding", [0] * rank)
    phases = [
        phases_of(spatial[d], kernel.shape[2 + d], strides[d], (pads[d], pads[rank + d]), added[d]) for d in range(rank)
    ]
    axes = [each for each in phases if each is not None]
    if len(axes) < rank:
        return False
    write_spread(writer, node, n, dense_convolutions(kernel, axes, group), bias, axes)
    return True


def write_spread(  # noqa: PLR0917 - each is of another kind
    writer: NodeWriter, node: "NodeProto", n: int, parts: Sequence[Dense], bias: Array | None, axes: Sequence[Phases]
) -> None:
    """Add dense convolutions, interleave their channels into the positions of a group, and crop the excess."""
    rank, phases, groups = len(axes), [axis.read for axis in axes], [axis.groups for axis in axes]
    unread = [axis.stride - axis.read for axis in axes]
    is_whole = all(axis.skipped == 0 and axis.groups * axis.stride == axis.size for axis in axes)
    added = bias if any(unread) else None
    into, spread = node.output[0], node.output[0] if added is None else ""
    dense = []
    for part in parts:
        inputs = [node.input[0], writer.constant(part.kernel)]
        if bias is not None and added is None:
            inputs.append(writer.constant(np.repeat(bias, part.phases)))
        dense.append(
            writer.add(
                "Conv",
                *inputs,
                into=into if is_whole and prod(phases) == 1 and not any(unread) else "",
                kernel_shape=list(part.kernel.shape[2:]),
                pads=[pads[side] for side in (0, 1) for pads in part.pads],
                group=of(node, "group", 1),
            )
        )
    whole = dense[0]
    if prod(axis.stride for axis in axes) > 1:
        channels = parts[0].kernel.shape[0] // parts[0].phases
        is_joined = len(dense) > 1
        joined = writer.add("Concat", *dense, axis=1) if is_joined else whole
        apart = writer.reshape(joined, n, *(*phases, channels) if is_joined else (channels, *phases), *groups)
        whole = writer.add("Transpose", apart, perm=spread_order(rank, is_joined=is_joined))
        if any(unread):
            behind = [0, 0, *(size for each in unread for size in (0, each))]
            whole = writer.add("Pad", whole, writer.numbers(*[0] * len(behind), *behind))
        sizes = [axis.groups * axis.stride for axis in axes]
        whole = writer.reshape(whole, n, channels, *sizes, into=spread if is_whole else "")
    if not is_whole:
        bounds = [[axis.skipped for axis in axes], [axis.skipped + axis.size for axis in axes], range(2, 2 + rank)]
        whole = writer.add("Slice", whole, *(writer.numbers(*each) for each in bounds), into=spread)
    if added is not None:
        writer.add("Add", whole, writer.constant(added.reshape(-1, *[1] * rank)), into=into)
