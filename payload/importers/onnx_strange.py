"""Ops that torch-mlir reads otherwise than ONNX says of NaN and infinities: written as others."""

from typing import TYPE_CHECKING

from payload.importers.onnx_nodes import KnownTensors, NodeWriter, of

if TYPE_CHECKING:
    from onnx import NodeProto

REAL = (1, 10, 11, 16)  # ONNX's numbers of f32, f16, f64 and bf16


def equal_to_itself(writer: NodeWriter, node: "NodeProto", facts: KnownTensors) -> bool:
    """Equal of real numbers, of which NaN is none: torch-mlir folds what is compared with itself to true."""
    a, b = node.input
    if facts.kinds.get(a) not in REAL:
        return False
    writer.add("And", writer.add("LessOrEqual", a, b), writer.add("GreaterOrEqual", a, b), into=node.output[0])
    return True


def remainder_towards_zero(writer: NodeWriter, node: "NodeProto", facts: KnownTensors) -> bool:
    """Mod of real numbers: the exact remainder of their amounts, with the sign of the first.

    torch-mlir multiplies by the quotient instead, which is NaN where the second is infinite, and not exact.
    """
    a, b = node.input
    if facts.kinds.get(a) not in REAL or not of(node, "fmod", 0):
        return False
    rest = writer.add("Mod", writer.add("Abs", a), writer.add("Abs", b), fmod=0)
    is_negative = writer.add("Less", a, writer.number(0, facts.kinds[a]))
    writer.add("Where", is_negative, writer.add("Neg", rest), rest, into=node.output[0])
    return True
