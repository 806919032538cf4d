"""Native rewrites for what PDL cannot express: operations with regions, created at the replaced operation."""

from mlir import ir
from mlir.rewrite import PatternRewriter

from autotune.compiler.normalise.emit import dims, generic


def read_instead(rewriter: PatternRewriter, op: ir.Operation, number: ir.Attribute, value: ir.Value) -> ir.Operation:
    """Clone an operation with one operand replaced by a value of the same type."""
    copy = op.clone(rewriter.ip).operation
    copy.operands[ir.IntegerAttr(number).value] = value
    return copy


def combined(rewriter: PatternRewriter, name: ir.Attribute, first: ir.Value, second: ir.Value) -> ir.Value:
    """Create a ``linalg.generic`` that applies a binary operation to the elements of two tensors of the same type."""
    tensor_type = first.type
    identity = ir.AffineMap.get(len(tensor_type.shape), 0, dims(len(tensor_type.shape)))
    with rewriter.ip, ir.Location.unknown():
        into = ir.Operation.create("tensor.empty", [tensor_type], []).result

        def write(a: ir.Value, b: ir.Value, _: ir.Value) -> ir.Value:
            return ir.Operation.create(ir.StringAttr(name).value, [a.type], [a, b]).result

        return generic([first, second], into, [identity] * 3, ["parallel"] * len(tensor_type.shape), write)
