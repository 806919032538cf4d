"""Rewrites of Softmax, LogSoftmax and Hardmax before version 13, which flatten all dimensions from the axis on."""

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from payload.importers.onnx_nodes import KnownTensors, NodeWriter, Rewrite, of

if TYPE_CHECKING:
    from onnx import NodeProto

BY_ROWS = 12  # last opset version with these semantics


def write_rows(writer: NodeWriter, node: "NodeProto", known: KnownTensors) -> bool:
    """Rewrite such an op on flattened rows, with ops that are the same in every version; return whether it is one."""
    x = node.input[0]
    if known.version > BY_ROWS or x not in known.shapes:
        return False
    shape = known.shapes[x]
    axis = of(node, "axis", 1) % len(shape) if shape else 0
    rows = writer.reshape(x, prod(shape[:axis]), prod(shape[axis:]))
    if node.op_type == "Hardmax":
        indices = writer.constant(np.arange(prod(shape[axis:])))
        first = writer.add("ArgMax", rows, axis=1, keepdims=1)
        result = writer.add("Cast", writer.add("Equal", indices, first), to=known.kinds[x])
    else:
        centred = writer.add("Sub", rows, writer.add("ReduceMax", rows, axes=[1], keepdims=1))
        powers = writer.add("Exp", centred)
        total = writer.add("ReduceSum", powers, axes=[1], keepdims=1)
        if node.op_type == "Softmax":
            result = writer.add("Div", powers, total)
        else:
            result = writer.add("Sub", centred, writer.add("Log", total))
    writer.reshape(result, *shape, into=node.output[0])
    return True


ROWS: dict[str, Rewrite] = dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax"), write_rows)
