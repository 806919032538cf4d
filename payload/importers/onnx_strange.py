"""Rewrites of ONNX ops that torch-mlir lowers incorrectly for NaN and infinities."""

from typing import TYPE_CHECKING

import numpy as np

from payload.importers.onnx_nodes import KnownTensors, NodeWriter, of

if TYPE_CHECKING:
    from onnx import NodeProto

REAL = (1, 10, 11, 16)  # f32, f16, f64 and bf16 in TensorProto


def equal_to_itself(writer: NodeWriter, node: "NodeProto", facts: KnownTensors) -> bool:
    """Rewrite Equal on floats: torch-mlir folds the comparison of a value with itself to true, also for NaN."""
    a, b = node.input
    if a == b:
        return compare_with_itself(writer, node, facts)
    if facts.kinds.get(a) not in REAL:
        return False
    writer.add("And", writer.add("LessOrEqual", a, b), writer.add("GreaterOrEqual", a, b), into=node.output[0])
    return True


def compare_with_itself(writer: NodeWriter, node: "NodeProto", facts: KnownTensors) -> bool:
    """Rewrite the comparison of a value with itself, which is false for NaN; torch-mlir folds it to true."""
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
    """Rewrite Where with two equal operands, which torch-mlir returns without broadcasting it to the result's shape."""
    _, x, y = node.input
    shape = facts.shapes.get(node.output[0])
    if x != y or shape is None:
        return False
    writer.add("Expand", x, writer.numbers(*shape), into=node.output[0])
    return True


def remainder_towards_zero(writer: NodeWriter, node: "NodeProto", facts: KnownTensors) -> bool:
    """Rewrite Mod of floats with ``fmod=1`` as the exact remainder of absolute values, with the sign of the dividend.

    torch-mlir computes it from the quotient instead, which is inexact, and NaN if the divisor is infinite.
    """
    a, b = node.input
    if facts.kinds.get(a) not in REAL or not of(node, "fmod", 0):
        return False
    rest = writer.add("Mod", writer.add("Abs", a), writer.add("Abs", b), fmod=0)
    is_negative = writer.add("Less", a, writer.number(0, facts.kinds[a]))
    writer.add("Where", is_negative, writer.add("Neg", rest), rest, into=node.output[0])
    return True
