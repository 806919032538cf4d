"""Vectorize the body of an element-wise op."""

from collections.abc import Collection

from mlir import ir
from mlir.dialects import arith, vector

from autotune.compiler.ir.values import is_constant
from autotune.compiler.passes.rounding import vector_of


def in_vectors(
    body: ir.Block, vectors: dict[ir.Value, ir.Value], lanes: int, skipped: Collection[ir.Operation] = ()
) -> list[ir.Value]:
    """Clone a body on vectors at the insertion point; return one vector per result.

    Args:
        body: Body of a linalg op.
        vectors: Vectors of its arguments and of the results of skipped ops; extended in place.
        lanes: Elements of a vector.
        skipped: Operations not to clone.
    """
    *steps, ending = (each.operation for each in body.operations)

    def vector_for(scalar: ir.Value) -> ir.Value:
        if scalar not in vectors:
            vectors[scalar] = spread(scalar, lanes)
        return vectors[scalar]

    for step in steps:
        if step.name == "arith.constant" or step in skipped:
            continue
        results = [vector_of(lanes, str(each.type)) for each in step.results]
        attributes = {name: step.attributes[name] for name in step.attributes}
        operands = [vector_for(each) for each in step.operands]
        clone = ir.Operation.create(step.name, results=results, operands=operands, attributes=attributes)
        vectors |= dict(zip(step.results, clone.results, strict=True))
    return [vector_for(each) for each in ending.operands]


def spread(value: ir.Value, lanes: int) -> ir.Value:
    """Broadcast a value from outside; a constant is rebuilt, as it may be defined inside the body."""
    vector_type = vector_of(lanes, str(value.type))
    if not is_constant(value):
        return vector.broadcast(vector_type, value)
    return arith.constant(vector_type, ir.DenseElementsAttr.get_splat(vector_type, value.owner.attributes["value"]))
