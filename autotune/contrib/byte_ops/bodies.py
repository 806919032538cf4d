"""The body of an element-wise op, computed of vectors."""

from collections.abc import Collection

from mlir import ir
from mlir.dialects import arith, vector

from autotune.compiler.ir.values import is_constant
from autotune.compiler.passes.rounding import vector_of


def in_vectors(
    body: ir.Block, known: dict[ir.Value, ir.Value], lanes: int, skipped: Collection[ir.Operation] = ()
) -> list[ir.Value]:
    """What a body gives, at the insertion point, one vector a result.

    Args:
        body: The body.
        known: Vectors of its arguments and of what skipped steps give; constants are spread where they are needed.
        lanes: Elements of a vector.
        skipped: Steps that are computed otherwise.
    """
    *steps, ending = (each.operation for each in body.operations)

    def value(of: ir.Value) -> ir.Value:
        if of not in known:
            known[of] = spread(of, lanes)
        return known[of]

    for step in steps:
        if step.name == "arith.constant" or step in skipped:
            continue
        results = [vector_of(lanes, str(each.type)) for each in step.results]
        attributes = {name: step.attributes[name] for name in step.attributes}
        operands = [value(each) for each in step.operands]
        made = ir.Operation.create(step.name, results=results, operands=operands, attributes=attributes)
        known |= dict(zip(step.results, made.results, strict=True))
    return [value(each) for each in ending.operands]


def spread(value: ir.Value, lanes: int) -> ir.Value:
    """A value from outside in every lane; a constant may be made inside, where the insertion point is not."""
    kind = vector_of(lanes, str(value.type))
    if not is_constant(value):
        return vector.broadcast(kind, value)
    return arith.constant(kind, ir.DenseElementsAttr.get_splat(kind, value.owner.attributes["value"]))
