"""Fold a constant that is combined with the result of a reduction into its initial value.

m = max over x from -inf;  y = max(m, c)   ->   y = max over x from c
s = sum over x from 0;     y = s + c       ->   y = sum over x from c
"""

from mlir import ir
from mlir.dialects import arith

from autotune.compiler.ir.module import every_op
from autotune.compiler.ir.nests import indexing_maps
from autotune.compiler.ir.values import fill_of, is_constant, maker
from autotune.compiler.normalise.emit import filled

NEUTRAL = {"arith.addf": 0.0, "arith.maximumf": -float("inf"), "arith.minimumf": float("inf")}
BOUNDS = {4: "arith.maximumf", 2: "arith.minimumf"}  # x < c ? c : x, and x > c ? c : x, by predicate of arith.cmpf


def start_from_constants(module: ir.Module) -> None:
    """Fold constants that are combined with the results of reductions into their initial values, in place."""
    for op in every_op(module):
        if op.name == "linalg.generic" and (match := combined(op)) is not None:
            reduction, start = match
            reduction.operands[1] = start_like(reduction, start)
            op.results[0].replace_all_uses_with(reduction.results[0])
            op.erase()


def combined(op: ir.Operation) -> tuple[ir.Operation, ir.Value] | None:
    """Match an operation that combines a single-use reduction with a constant, by the operation that it reduces with.

    Returns:
        Reduction and constant; `None` if the operation does not match.
    """
    reduction = maker(op.operands[0]) if len(op.operands) == 2 else None
    if reduction is None or reduction.name != "linalg.generic" or len(reduction.results) != 1:
        return None
    maps = indexing_maps(op)
    is_identity = (
        maps[0] == maps[1] == ir.AffineMap.get_identity(maps[0].n_dims) and op.results[0].type == op.operands[0].type
    )
    if not is_identity or len(list(reduction.results[0].uses)) != 1:
        return None
    combiner, constant = bound_of(op)
    return (reduction, constant) if constant is not None and combiner == reduced_by(reduction) else None


def bound_of(op: ir.Operation) -> tuple[str, ir.Value | None]:
    """Return the name of the operation that combines the first operand with a constant, and the constant, if any."""
    block = op.regions[0].blocks[0]
    (x, _), yielded = block.arguments, maker(block.operations[len(block.operations) - 1].operands[0])
    if yielded is None or not isinstance(x.type, ir.F32Type | ir.F64Type):
        return "", None
    combiner, pair = yielded.name, list(yielded.operands)
    if combiner == "arith.select":
        comparison, *pair = maker(yielded.operands[0]), *pair[1:]
        if (
            comparison is None
            or comparison.name != "arith.cmpf"
            or list(comparison.operands) != pair[::-1]
            or pair[1] != x
        ):
            return "", None
        combiner = BOUNDS.get(ir.IntegerAttr(comparison.attributes["predicate"]).value, "")
    constants = [value for value in pair if value != x]
    return (
        (combiner, constants[0]) if len(pair) == 2 and len(constants) == 1 and is_constant(constants[0]) else ("", None)
    )


def reduced_by(op: ir.Operation) -> str:
    """Return the combiner of a reduction that starts from its neutral element; empty for any other operation."""
    block, fill = op.regions[0].blocks[0], fill_of(op.operands[len(op.operands) - 1])
    body = [inner.operation for inner in block.operations]
    start = maker(fill.operands[0]) if fill is not None else None
    if len(body) != 2 or len(op.operands) != 2 or start is None or start.name != "arith.constant":
        return ""
    name = body[0].name if set(body[0].operands) == set(block.arguments) else ""
    reduces = indexing_maps(op)[0] != indexing_maps(op)[1] and body[1].operands[0] == body[0].results[0]
    if not reduces or name not in NEUTRAL:
        return ""
    return name if NEUTRAL[name] == ir.FloatAttr(start.attributes["value"]).value else ""


def start_like(reduction: ir.Operation, number: ir.Value) -> ir.Value:
    """Return a tensor like the initial value of a reduction, filled with a constant."""
    tensor_type = reduction.operands[1].type
    with ir.InsertionPoint(reduction), reduction.location:
        return filled(
            tensor_type.shape, tensor_type.element_type, arith.constant(number.type, number.owner.attributes["value"])
        )
