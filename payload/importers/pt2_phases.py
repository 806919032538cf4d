"""Rewrite of transposed convolutions of exported programs to dense ones, as in `payload.importers.onnx_phases`."""

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from autotune.core.payload import DTYPES, Array
from payload.importers.phases import Phases, dense_convolutions, phases_of, spread_order

if TYPE_CHECKING:
    from torch.fx import Graph, Node

FLOATS = tuple(DTYPES[name] for name in ("f32", "f16", "bf16"))
TRANSPOSED = 6  # argument number of `transposed` in aten.convolution


def write_phases(graph: "Graph", weights: dict[str, Array]) -> None:
    """Rewrite transposed convolutions by weights as dense ones, in place; unused weights are removed.

    Args:
        graph: Graph of a program with static sizes.
        weights: Arrays of placeholders that are weights, by name.
    """
    for node in list(graph.nodes):
        if "aten.convolution.default" in str(node.target) and node.args[TRANSPOSED]:
            write_dense(graph, node, weights)
    for node in list(graph.nodes):
        if node.op == "placeholder" and not node.users and node.name in weights:
            graph.erase_node(node)
            del weights[node.name]


def write_dense(graph: "Graph", node: "Node", weights: dict[str, Array]) -> None:
    """Rewrite a transposed convolution as a dense one, if possible."""
    import torch  # noqa: PLC0415 - comes with an extra

    x, kernel, bias, strides, pads, dilations, _, added, groups = node.args
    weight = weights.get(kernel.name)
    if weight is None or weight.dtype not in FLOATS or set(dilations) != {1} or (bias and bias.name not in weights):
        return
    rank, spatial = weight.ndim - 2, list(x.meta["val"].shape)[2:]
    steps, cut, more = (list(each) * (rank // len(each)) for each in (strides, pads, added))
    phases = [phases_of(spatial[d], weight.shape[2 + d], steps[d], (cut[d], cut[d]), more[d]) for d in range(rank)]
    axes = [each for each in phases if each is not None]
    if len(axes) < rank:
        return
    writer, dense = ProgramWriter(graph, node), []
    has_unread = any(axis.read < axis.stride for axis in axes)
    parts = dense_convolutions(weight, axes, groups)
    sizes = [axis.groups for axis in axes]
    for number, part in enumerate(parts):
        added_bias = None if has_unread else bias
        if added_bias is not None and part.phases > 1:
            repeated = np.repeat(weights[bias.name], part.phases)
            added_bias = writer.weight(f"{bias.name}_phases", repeated, weights)
        filters = writer.weight(f"{kernel.name}_phases{number}", part.kernel, weights)
        dense.append(convolution(writer, x, (filters, added_bias), part.pads, sizes, groups))
    result = spread(writer, dense, axes)
    if has_unread and bias is not None:
        column = writer.weight(f"{bias.name}_column", weights[bias.name].reshape(-1, *[1] * rank), weights)
        result = writer.add(torch.ops.aten.add.Tensor, result.meta["val"].shape, result, column)
    node.replace_all_uses_with(result)
    graph.erase_node(node)


class ProgramWriter:
    """Writer of nodes that replace a node.

    Args:
        graph: Graph that nodes are added to.
        node: Node to replace, before which nodes are inserted; they inherit its origin.
    """

    def __init__(self, graph: "Graph", node: "Node") -> None:
        self._graph, self._node = graph, node

    def add(self, op: Any, shape: Sequence[int], *arguments: object) -> "Node":  # noqa: ANN401 - an op of PyTorch
        """Add a call of an op whose result has the given shape."""
        with self._graph.inserting_before(self._node):
            return self._described(self._graph.call_function(op, arguments), shape)

    def weight(self, name: str, array: Array, weights: dict[str, Array]) -> "Node":
        """Add a placeholder for an array, and the array to the weights."""
        last = [each for each in self._graph.nodes if each.op == "placeholder"][-1]
        with self._graph.inserting_after(last):
            node = self._graph.placeholder(name)
        weights[node.name] = array
        return self._described(node, array.shape)

    def _described(self, node: "Node", shape: Sequence[int]) -> "Node":
        node.meta = {name: value for name, value in self._node.meta.items() if name != "tensor_meta"}
        node.meta["val"] = self._node.meta["val"].new_empty(list(shape))
        return node


def convolution(  # noqa: PLR0917 - each is of another kind
    writer: ProgramWriter,
    x: "Node",
    inputs: "tuple[Node, Node | None]",
    pads: Sequence[tuple[int, int]],
    sizes: list[int],
    groups: int,
) -> "Node":
    """Add a dense convolution with unit strides."""
    import torch  # noqa: PLC0415 - comes with an extra

    aten, rank = torch.ops.aten, len(sizes)
    n, channels, *spatial = x.meta["val"].shape
    padding = [size for each in reversed(pads) for size in each]
    wide = [size + sum(each) for size, each in zip(spatial, pads, strict=True)]
    padded = writer.add(aten.constant_pad_nd.default, [n, channels, *wide], x, padding, 0.0) if any(padding) else x
    ones = [1] * rank
    steps = (ones, [0] * rank, ones, False, [0] * rank, groups)
    filters = inputs[0].meta["val"].shape[0]
    return writer.add(aten.convolution.default, [n, filters, *sizes], padded, *inputs, *steps)


def spread(writer: ProgramWriter, dense: "list[Node]", axes: Sequence[Phases]) -> "Node":
    """Interleave the channels of dense convolutions into the positions of a group, and crop the excess."""
    import torch  # noqa: PLC0415 - comes with an extra

    aten, rank, phases = torch.ops.aten, len(axes), [axis.read for axis in axes]
    is_joined, result = len(dense) > 1, dense[0]
    n, channels, *sizes = result.meta["val"].shape
    if prod(axis.stride for axis in axes) > 1:
        filters = channels if is_joined else channels // prod(phases)
        if is_joined:
            result = writer.add(aten.cat.default, [n, channels * len(dense), *sizes], dense, 1)
        apart = [n, *((*phases, filters) if is_joined else (filters, *phases)), *sizes]
        order = spread_order(rank, is_joined=is_joined)
        result = writer.add(aten.view.default, apart, result, apart)
        shape = [apart[d] for d in order]
        result = writer.add(aten.permute.default, shape, result, order)
        if phases != [axis.stride for axis in axes]:
            behind = [size for axis in reversed(axes) for size in (0, axis.stride - axis.read, 0, 0)]
            shape = [n, filters, *(size for axis in axes for size in (axis.groups, axis.stride))]
            result = writer.add(aten.constant_pad_nd.default, shape, result, behind, 0.0)
        sizes = [axis.groups * axis.stride for axis in axes]
        channels = filters
        result = writer.add(aten.reshape.default, [n, filters, *sizes], result, [n, filters, *sizes])
    for d, axis in enumerate(axes):
        if sizes[d] != axis.size:
            sizes[d] = axis.size
            bounds = (2 + d, axis.skipped, axis.skipped + axis.size)
            result = writer.add(aten.slice.Tensor, [n, channels, *sizes], result, *bounds)
    return result
