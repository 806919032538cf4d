"""Functions of f32 vectors as polynomials, in place of one libm call per lane.

A schedule may mark the ops that shall call libm. Beside them, a row divided by one value is multiplied by its
reciprocal: at most 1.5 ulp, as long as the reciprocal is a normal number (a divisor below 8.5e37). And bf16
is widened by a shift of its bits, which is exact. What upstream has for scalars alone is called lane by lane.
"""

from collections.abc import Callable
from itertools import product
from math import prod

from mlir import ir
from mlir.dialects import arith, vector
from mlir.rewrite import PatternRewriter, RewritePatternSet, walk_and_apply_patterns

from autotune.compiler.passes.polynomials import expand_erf, expand_exp, expand_log, expand_log1p, expand_tanh, splat
from autotune.core.scripts.marks import LIBM

POLYNOMIALS = {
    "math.exp": expand_exp,
    "math.tanh": expand_tanh,
    "math.erf": expand_erf,
    "math.log": expand_log,
    "math.log1p": expand_log1p,
}
SCALARS = tuple(f"math.{name}" for name in ("acosh", "asinh", "atanh", "cbrt", "erf", "erfc"))  # for upstream


def approximate(module: ir.Module) -> None:
    """Replace functions of f32 vectors everywhere in a module, in place; scalars, and what is marked, keep libm."""
    patterns = RewritePatternSet()
    for name, expand in POLYNOMIALS.items():
        patterns.add(name, _rewrite_with(expand))
    for name in SCALARS:
        patterns.add(name, _call_by_lanes)
    patterns.add("arith.divf", _divide_once)
    patterns.add("arith.extf", _widen_by_shift)
    walk_and_apply_patterns(module.operation, patterns.freeze())


def _rewrite_with(expand: Callable[[ir.Value], ir.Value]) -> Callable[[ir.OpView, PatternRewriter], bool]:
    def rewrite(op: ir.OpView, rewriter: PatternRewriter) -> bool:
        kind = op.result.type
        if not (isinstance(kind, ir.VectorType) and isinstance(kind.element_type, ir.F32Type)):
            return True  # no match
        if LIBM in op.operation.attributes:
            return True
        with rewriter.ip:
            rewriter.replace_op(op, [expand(op.operands[0])])
        return False

    return rewrite


def _call_by_lanes(op: ir.OpView, rewriter: PatternRewriter) -> bool:
    """Turn a function of a vector into one of each lane, where no polynomial took its place."""
    kind, name = op.result.type, op.operation.name
    if not isinstance(kind, ir.VectorType):
        return True  # no match
    if name in POLYNOMIALS and isinstance(kind.element_type, ir.F32Type) and LIBM not in op.operation.attributes:
        return True
    with rewriter.ip:
        lanes = [
            ir.Operation.create(name, [kind.element_type], [vector.extract(op.operands[0], [], list(place))]).result
            for place in product(*map(range, kind.shape))
        ]
        rewriter.replace_op(op, [vector.from_elements(kind, lanes)])
    return False


def _divide_once(op: ir.OpView, rewriter: PatternRewriter) -> bool:
    """Turn x / broadcast(s) into x * broadcast(1 / s): a softmax then divides once a row, not once an element."""
    divisor = op.operands[1].owner
    if isinstance(divisor, ir.Block) or divisor.operation.name != "vector.broadcast":
        return True  # no match
    one = divisor.operation.operands[0]
    kind = ir.VectorType(op.result.type)
    if not isinstance(kind.element_type, ir.F32Type) or not isinstance(one.type, ir.VectorType):
        return True
    if prod(ir.VectorType(one.type).shape) > 1:
        return True
    with rewriter.ip:
        reciprocal = vector.broadcast(kind, arith.divf(splat(one, 1.0), one))
        rewriter.replace_op(op, [arith.mulf(op.operands[0], reciprocal)])
    return False


def _widen_by_shift(op: ir.OpView, rewriter: PatternRewriter) -> bool:
    """Turn bf16 into f32 by a shift of its bits, which is exact; LLVM does it lane by lane."""
    kind = op.operands[0].type
    if not isinstance(kind, ir.VectorType) or not isinstance(kind.element_type, ir.BF16Type):
        return True  # no match
    if not isinstance(ir.VectorType(op.result.type).element_type, ir.F32Type):
        return True
    half, whole = (ir.VectorType.get(kind.shape, ir.IntegerType.get_signless(bits)) for bits in (16, 32))
    with rewriter.ip:
        places = ir.DenseElementsAttr.get_splat(whole, ir.IntegerAttr.get(whole.element_type, 16))
        wide = arith.extui(whole, arith.bitcast(half, op.operands[0]))
        rewriter.replace_op(op, [arith.bitcast(op.result.type, arith.shli(wide, arith.constant(whole, places)))])
    return False
