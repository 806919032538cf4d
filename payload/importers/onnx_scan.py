"""Partial sums of ONNX models that leave an element out or begin at the end, written as sums of small blocks.

All others are loops, which `payload.importers.scan_loops` writes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from payload.importers.folder import order_back
from payload.importers.onnx_nodes import NodeWriter
from payload.importers.onnx_oracle import to_array
from payload.importers.onnx_origins import take_origin
from payload.importers.onnx_sizes import has_fixed_shape
from payload.importers.scan import BEST, FEW_COLUMNS, side_of, triangle

if TYPE_CHECKING:
    from onnx import ModelProto

AXES_ARE_INPUTS = 13  # the first version of the operators where they are


def decompose_sums(model: "ModelProto") -> None:
    """Write such partial sums of f32 along a known axis as sums of blocks, in place; see `payload.importers.scan`."""
    from onnx import TensorProto  # noqa: PLC0415 - comes with an extra

    graph = model.graph
    typed = [v for v in [*graph.input, *graph.value_info, *graph.output] if has_fixed_shape(v)]
    shapes = {v.name: v.type.tensor_type for v in typed}
    known = {tensor.name: tensor for tensor in graph.initializer}
    version = max((each.version for each in model.opset_import if each.domain in ("", "ai.onnx")), default=1)
    nodes = []
    for number, node in enumerate(graph.node):
        kind = shapes.get(node.input[0]) if node.op_type == "CumSum" and node.input[1] in known else None
        sound = kind is not None and version >= AXES_ARE_INPUTS
        said = {attribute.name: bool(attribute.i) for attribute in node.attribute}
        if kind is None or not sound or kind.elem_type != TensorProto.FLOAT or not any(said.values()):
            nodes.append(node)
            continue
        shape = [dim.dim_value for dim in kind.shape.dim]
        axis = int(to_array(known[node.input[1]]).reshape(())) % len(shape)
        writer = ScanWriter(graph, f"cumsum_{number}", reverse=said.get("reverse", False))
        found = writer.sums(node.input[0], shape, axis, exclusive=said.get("exclusive", False))
        writer.add("Identity", found, into=node.output[0])
        nodes += take_origin(writer.nodes, node)
    del graph.node[:]
    graph.node.extend(nodes)


@dataclass
class ScanWriter(NodeWriter):
    """Partial sums in the place of a node.

    Attributes:
        reverse: Sums begin at the last element.
    """

    reverse: bool = False

    def sums(self, x: str, shape: Sequence[int], axis: int, *, exclusive: bool) -> str:
        """Partial sums along an axis."""
        size, rows, columns = shape[axis], prod(shape[:axis]), prod(shape[axis + 1 :])
        if 1 < columns < FEW_COLUMNS:
            order = [*(d for d in range(len(shape)) if d != axis), axis]
            last = self.add("Transpose", x, perm=order)
            found = self.sums(last, [shape[d] for d in order], len(shape) - 1, exclusive=exclusive)
            return self.add("Transpose", found, perm=order_back(order))
        side = side_of(size)
        if not side:
            wide = [*shape[:axis], -(-size // BEST) * BEST, *shape[axis + 1 :]]
            zeros = np.zeros([*shape[:axis], wide[axis] - size, *shape[axis + 1 :]], np.float32)
            filled = self.add("Concat", x, self.constant(zeros), axis=axis)
            found = self.sums(filled, wide, axis, exclusive=exclusive)
            return self.add("Slice", found, self.numbers(0), self.numbers(size), self.numbers(axis))
        blocks = rows * size // side
        tail = [columns] if columns > 1 else []
        taken = triangle(side, exclusive=exclusive, reverse=self.reverse).reshape([1, side, side, *[1] * len(tail)])
        flat = self.reshape(x, blocks, side, *tail)
        apart = self.reshape(x, blocks, side, 1, *tail)
        masked = self.add("Where", self.constant(taken), apart, self.constant(np.zeros([], np.float32)))
        part = self.add("ReduceSum", masked, self.numbers(1), keepdims=0)
        if side < size:
            totals = self.add("ReduceSum", flat, self.numbers(1), keepdims=0)
            before = self.sums(
                self.reshape(totals, rows, size // side, columns), (rows, size // side, columns), 1, exclusive=True
            )
            part = self.add("Add", part, self.reshape(before, blocks, 1, *tail))
        return self.reshape(part, *shape)
