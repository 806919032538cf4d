"""Pools of which the last window ends behind the pad (`ceil_mode`): the pad is made as long as it needs.

torch-mlir, and ONNX's inference of shapes, count windows that begin behind the pad, which are none; and torch-mlir
divides by elements behind it.
"""

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from autotune.core.payload import Array
from payload.importers.onnx_nodes import KnownTensors, NodeWriter, dtype_of, facts_of, of
from payload.importers.onnx_origins import take_origin
from payload.importers.onnx_values import replace_all

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

POOLS = ("AveragePool", "LpPool", "MaxPool")


class Windows:
    """Windows of a pool, along each of its dimensions.

    Args:
        node: The pool.
        shape: Sizes that windows slide along.

    Attributes:
        counts: How many windows there are.
        ends: How long the pad behind must be for the last one to end in it.
    """

    def __init__(self, node: "NodeProto", shape: list[int]) -> None:
        ones, self._shape = [1] * len(shape), shape
        pads = list(of(node, "pads", [0] * (2 * len(shape))))
        self._before, self._behind = pads[: len(shape)], pads[len(shape) :]
        self._kernel, self._steps = of(node, "kernel_shape", ones), of(node, "strides", ones)
        self._dilations = of(node, "dilations", ones)
        self.counts, self.ends = [], []
        for d, size in enumerate(shape):
            low, step, behind = self._before[d], self._steps[d], self._behind[d]
            covered = (self._kernel[d] - 1) * self._dilations[d] + 1
            count = -(-(low + size + behind - covered) // step) + 1
            count -= (count - 1) * step >= low + size
            self.counts.append(count)
            self.ends.append(max(behind, (count - 1) * step + covered - low - size))

    @property
    def pads(self) -> list[int]:
        """Pads in which all windows end."""
        return [*self._before, *self.ends]

    def shares(self) -> Array:
        """Of each window, its elements over those that are not behind the pad that the node says."""
        counts = np.ones((), np.int64)
        for d, size in enumerate(self._shape):
            begins = np.arange(self.counts[d]) * self._steps[d] - self._before[d]
            places = begins[:, None] + np.arange(self._kernel[d]) * self._dilations[d]
            counts = counts[..., None] * np.count_nonzero(places < size + self._behind[d], axis=1)
        return np.asarray(prod(self._kernel) / counts)


def end_next_pool(model: "ModelProto") -> bool:
    """Let the windows of a model's next pool with `ceil_mode` end in its pad, in place; returns whether there was one.

    Shapes must be inferred: what was inferred of results behind the pool may have been wrong.
    """
    graph = model.graph
    pools = [(number, node) for number, node in enumerate(graph.node) if node.op_type in POOLS and not node.domain]
    pools = [each for each in pools if of(each[1], "ceil_mode", 0) and of(each[1], "auto_pad", "NOTSET") == "NOTSET"]
    facts = facts_of(graph) if pools else KnownTensors({}, {}, {})
    for number, node in pools:
        if node.input[0] in facts.shapes:
            writer = NodeWriter(graph, f"pool_{number}")
            write_ended(writer, node, facts)
            nodes = list(graph.node)
            replace_all(graph.node, [*nodes[:number], *take_origin(writer.nodes, node), *nodes[number + 1 :]])
            return True
    return False


def write_ended(writer: NodeWriter, node: "NodeProto", facts: KnownTensors) -> None:
    """A pool without `ceil_mode`, and what corrects its means."""
    x = node.input[0]
    windows = Windows(node, facts.shapes[x][2:])
    attributes = {each.name: of(node, each.name, None) for each in node.attribute}
    attributes |= {"ceil_mode": 0, "pads": windows.pads}
    shares = windows.shares() if of(node, "count_include_pad", 0) else np.ones(())
    if np.all(shares == 1):
        writer.add(node.op_type, *node.input, into=list(node.output), **attributes)
        return
    means = writer.add(node.op_type, *node.input, **attributes)
    writer.add("Mul", means, writer.constant(shares.astype(dtype_of(facts.kinds[x]))), into=node.output[0])
