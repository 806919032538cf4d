"""Contrib ops of ONNX Runtime, which models that it optimised hold, each by its definition in standard ops.

A definition writes the nodes that compute what a node does, and tells whether it did: it does not where the shape or
type of what the node reads is not known yet, or where it has no standard ops for what the node's attributes ask. It is
asked again when more shapes are known. Nodes that no definition writes are refused by their names.
"""

from typing import TYPE_CHECKING

import numpy as np

from payload.importers.onnx_nodes import KnownTensors, NodeWriter, Rewrite, of

if TYPE_CHECKING:
    from onnx import NodeProto

MICROSOFT = "com.microsoft"


def fused_matmul(writer: NodeWriter, node: "NodeProto", known: KnownTensors) -> bool:
    """``alpha * A B``, either transposed in its last two dimensions, or the first of the two moved to the front."""
    if any(name not in known.shapes or name not in known.kinds for name in node.input):
        return False
    sides = [transposed(writer, node, known, side) for side in (0, 1)]
    scale = of(node, "alpha", 1.0)
    if scale == 1.0:
        writer.add("MatMul", *sides, into=node.output[0])
        return True
    scaled = writer.number(scale, known.kinds[node.input[0]])
    writer.add("Mul", writer.add("MatMul", *sides), scaled, into=node.output[0])
    return True


def transposed(writer: NodeWriter, node: "NodeProto", known: KnownTensors, side: int) -> str:
    """One of the tensors of a `fused_matmul`, as MatMul reads it."""
    name, letter = node.input[side], "AB"[side]
    order = list(range(len(known.shapes[name])))
    if len(order) > 1 and of(node, f"transBatch{letter}", 0):
        order = [*order[1:-1], order[0], order[-1]]
    if len(order) > 1 and of(node, f"trans{letter}", 0):
        order[-2:] = order[:-3:-1]
    return name if order == sorted(order) else writer.add("Transpose", name, perm=order)


def gelu(writer: NodeWriter, node: "NodeProto", known: KnownTensors) -> bool:
    """``x (1 + erf(x / sqrt 2)) / 2``."""
    x = node.input[0]
    if x not in known.kinds:
        return False
    half, one, root = (writer.number(value, known.kinds[x]) for value in (0.5, 1.0, np.sqrt(2.0)))
    bent = writer.add("Add", writer.add("Erf", writer.add("Div", x, root)), one)
    writer.add("Mul", writer.add("Mul", x, half), bent, into=node.output[0])
    return True


# By domain and op. ONNX Runtime also has ops in ONNX's own domain that no version of the standard knows.
CONTRIB: dict[tuple[str, str], Rewrite] = {
    (MICROSOFT, "FusedMatMul"): fused_matmul,
    (MICROSOFT, "Gelu"): gelu,
}
