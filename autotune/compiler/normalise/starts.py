"""Starts of reductions: a number that is added to a sum, or bounds an extremum, is what the reduction starts from.

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
BOUNDS = {4: "arith.maximumf", 2: "arith.minimumf"}  # x < c ? c : x, and x > c ? c : x, by the number of a predicate


def start_from_constants(module: ir.Module) -> None:
    """Let reductions start from what one op combines their results with, in place."""
    for op in every_op(module):
        if op.name == "linalg.generic" and (found := combined(op)) is not None:
            reduction, start = found
            reduction.operands[1] = start_like(reduction, start)
            op.results[0].replace_all_uses_with(reduction.results[0])
            op.erase()


def combined(op: ir.Operation) -> tuple[ir.Operation, ir.Value] | None:
    """A reduction that an op alone reads, and the constant that this combines its result with, as the former does."""
    reduction = maker(op.operands[0]) if len(op.operands) == 2 else None
    if reduction is None or reduction.name != "linalg.generic" or len(reduction.results) != 1:
        return None
    maps = indexing_maps(op)
    whole = (
        maps[0] == maps[1] == ir.AffineMap.get_identity(maps[0].n_dims) and op.results[0].type == op.operands[0].type
    )
    if not whole or len(list(reduction.results[0].uses)) != 1:
        return None
    kind, number = bound_of(op)
    return (reduction, number) if number is not None and kind == reduced_by(reduction) else None


def bound_of(op: ir.Operation) -> tuple[str, ir.Value | None]:
    """How an op combines its one operand with a constant, and the constant."""
    block = op.regions[0].blocks[0]
    (x, _), chosen = block.arguments, maker(block.operations[len(block.operations) - 1].operands[0])
    if chosen is None or not isinstance(x.type, ir.F32Type | ir.F64Type):
        return "", None
    kind, pair = chosen.name, list(chosen.operands)
    if kind == "arith.select":
        compared, *pair = maker(chosen.operands[0]), *pair[1:]
        if compared is None or compared.name != "arith.cmpf" or list(compared.operands) != pair[::-1] or pair[1] != x:
            return "", None
        kind = BOUNDS.get(ir.IntegerAttr(compared.attributes["predicate"]).value, "")
    others = [value for value in pair if value != x]
    return (kind, others[0]) if len(pair) == 2 and len(others) == 1 and is_constant(others[0]) else ("", None)


def reduced_by(op: ir.Operation) -> str:
    """The op that reduces a tensor's elements to sums or extrema, from what changes none; empty of any other op."""
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
    """What a reduction starts from, filled with a constant."""
    kind = reduction.operands[1].type
    with ir.InsertionPoint(reduction), reduction.location:
        return filled(kind.shape, kind.element_type, arith.constant(number.type, number.owner.attributes["value"]))
