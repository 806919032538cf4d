"""The largest, or least, element of a vector that may hold NaN: NaN is looked for apart, the rest is compared without.

    maximum of v   ->   any of v is NaN ? NaN : maximum of v, where none is

LLVM asks for NaN at each of the steps in which it halves a vector: some forty instructions for 16 elements, a dozen so.
What tells -0 from 0 stays as it is.
"""

from mlir import ir
from mlir.dialects import arith, vector

from autotune.compiler.ir.module import every_op, replace_ops
from autotune.compiler.passes.fastmath import FASTMATH, flags_of, reduced_by

KINDS = {"maximumf": arith.maximumf, "minimumf": arith.minimumf}
LEAST = 4  # elements


def look_for_nan_apart(module: ir.Module) -> None:
    """Rewrite reductions of vectors, in place."""
    replace_ops(module, [op for op in every_op(module) if reduced_by(op) in KINDS and is_slow(op)], reduced)


def is_slow(op: ir.Operation) -> bool:
    """Tell whether a reduction is of several elements, any of which may be NaN, and does not tell -0 from 0."""
    flags = flags_of(op)
    return "nsz" in flags and "nnan" not in flags and op.operands[0].type.shape[0] >= LEAST


def reduced(op: ir.Operation) -> ir.Value:
    """The same, at the insertion point."""
    values, *before = op.operands
    kind, element = op.attributes["kind"], values.type.element_type
    are_nan = arith.cmpf(arith.CmpFPredicate.UNO, values, values)
    is_any = vector.reduction(ir.IntegerType.get_signless(1), vector.CombiningKind.OR, are_nan)
    flags = ir.Attribute.parse("#arith.fastmath<nnan,nsz>")
    found = vector.reduction(element, kind, values, fastmath=flags)
    nan = arith.constant(element, ir.FloatAttr.get(element, float("nan")))
    whole = arith.select(is_any, nan, found)
    return KINDS[reduced_by(op)](whole, before[0], fastmath=op.attributes[FASTMATH]) if before else whole
