"""What rules write that PDL cannot: ops with bodies. Everything is written where the op that a rule replaces stands."""

from mlir import ir
from mlir.rewrite import PatternRewriter

from autotune.compiler.normalise.emit import dims, generic


def read_instead(rewriter: PatternRewriter, op: ir.Operation, number: ir.Attribute, value: ir.Value) -> ir.Operation:
    """A copy of an op that reads a value as one of its operands, which has the type of the one before."""
    copy = op.clone(rewriter.ip).operation
    copy.operands[ir.IntegerAttr(number).value] = value
    return copy


def combined(rewriter: PatternRewriter, name: ir.Attribute, first: ir.Value, second: ir.Value) -> ir.Value:
    """A tensor whose elements are one operation on those of two others, of the same type."""
    kind = first.type
    identity = ir.AffineMap.get(len(kind.shape), 0, dims(len(kind.shape)))
    with rewriter.ip, ir.Location.unknown():
        into = ir.Operation.create("tensor.empty", [kind], []).result

        def write(a: ir.Value, b: ir.Value, _: ir.Value) -> ir.Value:
            return ir.Operation.create(ir.StringAttr(name).value, [a.type], [a, b]).result

        return generic([first, second], into, [identity] * 3, ["parallel"] * len(kind.shape), write)
