"""Softmax, LogSoftmax and Hardmax before version 13: of rows, which are all dimensions from the axis on."""

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from payload.importers.onnx_nodes import KnownTensors, NodeWriter, Rewrite, of

if TYPE_CHECKING:
    from onnx import NodeProto

BY_ROWS = 12  # the last version where they are


def write_rows(writer: NodeWriter, node: "NodeProto", known: KnownTensors) -> bool:
    """Write such an op in rows, by ops that mean the same in every version; returns whether it is one."""
    x = node.input[0]
    if known.version > BY_ROWS or x not in known.shapes:
        return False
    shape = known.shapes[x]
    axis = of(node, "axis", 1) % len(shape) if shape else 0
    rows = writer.reshape(x, prod(shape[:axis]), prod(shape[axis:]))
    if node.op_type == "Hardmax":
        indices = writer.constant(np.arange(prod(shape[axis:])))
        first = writer.add("ArgMax", rows, axis=1, keepdims=1)
        found = writer.add("Cast", writer.add("Equal", indices, first), to=known.kinds[x])
    else:
        centred = writer.add("Sub", rows, writer.add("ReduceMax", rows, axes=[1], keepdims=1))
        powers = writer.add("Exp", centred)
        total = writer.add("ReduceSum", powers, axes=[1], keepdims=1)
        if node.op_type == "Softmax":
            found = writer.add("Div", powers, total)
        else:
            found = writer.add("Sub", centred, writer.add("Log", total))
    writer.reshape(found, *shape, into=node.output[0])
    return True


ROWS: dict[str, Rewrite] = dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax"), write_rows)
