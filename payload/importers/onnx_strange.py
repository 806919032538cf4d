"""Ops that torch-mlir reads otherwise than ONNX says of NaN and infinities: written as others."""

from typing import TYPE_CHECKING

import numpy as np

from payload.importers.onnx_nodes import KnownTensors, NodeWriter, of

if TYPE_CHECKING:
    from onnx import NodeProto

REAL = (1, 10, 11, 16)  # ONNX's numbers of f32, f16, f64 and bf16


def equal_to_itself(writer: NodeWriter, node: "NodeProto", facts: KnownTensors) -> bool:
    """Equal of real numbers, of which NaN is none: torch-mlir folds what is compared with itself to true."""
    a, b = node.input
    if a == b:
        return compare_with_itself(writer, node, facts)
    if facts.kinds.get(a) not in REAL:
        return False
    writer.add("And", writer.add("LessOrEqual", a, b), writer.add("GreaterOrEqual", a, b), into=node.output[0])
    return True


def compare_with_itself(writer: NodeWriter, node: "NodeProto", facts: KnownTensors) -> bool:
    """What is compared with itself: NaN is neither less nor greater nor equal, and torch-mlir folds it to true."""
    a, b = node.input
    if a != b:
        return False
    is_equal = node.op_type.endswith("Equal")
    if facts.kinds.get(a) in REAL and is_equal:
        writer.add("LessOrEqual", a, writer.number(np.inf, facts.kinds[a]), into=node.output[0])
    else:
        writer.add("Identity", writer.constant(np.full(facts.shapes[a], is_equal)), into=node.output[0])
    return True


def choose_of_equals(writer: NodeWriter, node: "NodeProto", facts: KnownTensors) -> bool:
    """One of two that are the same, which torch-mlir gives in its own shape, not in that of the choice."""
    _, x, y = node.input
    shape = facts.shapes.get(node.output[0])
    if x != y or shape is None:
        return False
    writer.add("Expand", x, writer.numbers(*shape), into=node.output[0])
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
