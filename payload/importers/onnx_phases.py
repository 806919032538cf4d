"""Transposed convolutions of ONNX models, written as dense ones: one for every phase of the stride, all in one.

    y[s q + r] = sum over j of x[q - j] w[s j + r]   ->   a convolution by s channels a channel, spread over places

torch-mlir puts zeros between the places of what is read and turns the kernel around in every call; here nothing is
multiplied by a zero but where the stride does not divide the kernel, and kernels, which must be weights, lie as they
are read.
"""

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from autotune.core.payload import Array
from payload.importers.onnx_nodes import KnownTensors, NodeWriter, of
from payload.importers.onnx_weighted import rewrite_weighted
from payload.importers.phases import Phases, arranged, phases_of

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

KERNEL, BIAS = 1, 2  # places among the inputs


def write_phases(model: "ModelProto", weights: dict[str, Array]) -> None:
    """Write transposed convolutions by weights as dense ones, in place; weights that nobody reads then are given up.

    Args:
        model: Model whose shapes are inferred.
        weights: Arrays of the graph's inputs that are weights, by name.
    """
    rewrite_weighted(model, weights, "ConvTranspose", "phases", write_dense)


def write_dense(writer: NodeWriter, node: "NodeProto", facts: KnownTensors, weights: dict[str, Array]) -> bool:
    """Write one as a dense convolution; tells whether it could be."""
    x, kernel = node.input[0], weights.get(node.input[KERNEL])
    bias = weights.get(node.input[BIAS]) if len(node.input) > BIAS else None
    is_odd = of(node, "auto_pad", "NOTSET") != "NOTSET" or of(node, "output_shape", None) is not None
    if kernel is None or x not in facts.shapes or is_odd or (len(node.input) > BIAS and bias is None):
        return False
    rank, group = kernel.ndim - 2, of(node, "group", 1)
    if set(of(node, "dilations", [1])) != {1} or rank < 1:
        return False
    n, _, *given = facts.shapes[x]
    strides, pads = of(node, "strides", [1] * rank), of(node, "pads", [0] * 2 * rank)
    added = of(node, "output_padding", [0] * rank)
    found = [
        phases_of(given[d], kernel.shape[2 + d], strides[d], (pads[d], pads[rank + d]), added[d]) for d in range(rank)
    ]
    axes = [each for each in found if each is not None]
    if len(axes) < rank:
        return False
    write_spread(writer, node, [n, *given], arranged(kernel, axes, group), bias, axes)
    return True


def write_spread(  # noqa: PLR0917 - each is of another kind
    writer: NodeWriter,
    node: "NodeProto",
    given: Sequence[int],
    kernel: Array,
    bias: Array | None,
    axes: Sequence[Phases],
) -> None:
    """A dense convolution, whose channels are then spread over the places of a group, and what is too much cut off."""
    rank, phases = len(axes), prod(axis.stride for axis in axes)
    made = kernel.shape[0] // phases
    inputs = [node.input[0], writer.constant(kernel)]
    if bias is not None:
        inputs.append(writer.constant(np.repeat(bias, phases)))
    around = [axis.pads[side] for side in (0, 1) for axis in axes]
    is_whole = all(axis.skipped == 0 and axis.groups * axis.stride == axis.size for axis in axes)
    into = node.output[0]
    dense = writer.add(
        "Conv",
        *inputs,
        into=into if phases == 1 and is_whole else "",
        kernel_shape=list(kernel.shape[2:]),
        pads=around,
        group=of(node, "group", 1),
    )
    if phases > 1:
        apart = writer.reshape(dense, given[0], made, *(axis.stride for axis in axes), *(axis.groups for axis in axes))
        order = [0, 1, *(2 + d + of_group for d in range(rank) for of_group in (rank, 0))]
        turned = writer.add("Transpose", apart, perm=order)
        sizes = [axis.groups * axis.stride for axis in axes]
        dense = writer.reshape(turned, given[0], made, *sizes, into=into if is_whole else "")
    if not is_whole:
        bounds = [[axis.skipped for axis in axes], [axis.skipped + axis.size for axis in axes], range(2, 2 + rank)]
        writer.add("Slice", dense, *(writer.numbers(*each) for each in bounds), into=into)
