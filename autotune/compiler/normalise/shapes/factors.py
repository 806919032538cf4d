"""Move scalar factors of both operands of a product to the smaller operand.

    sum over k of (s * A[m, k]) * (t * B[k, n])   ->   sum over k of ((s * A[m, k]) * t) * B[k, n]

PyTorch exports attention with the square root of its scale on queries and on keys, which would take a pass over all
keys. The larger operand is then read without a copy.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from mlir import ir
from mlir.dialects import arith, tensor

from autotune.compiler.ir.module import every_op, run_passes
from autotune.compiler.ir.nests import dimensions, indexing_maps
from autotune.compiler.ir.values import maker
from autotune.compiler.normalise.emit import generic
from autotune.compiler.normalise.shapes.dimensions import RESHAPES
from autotune.compiler.normalise.shapes.products import PRODUCTS

SCALING = ["arith.mulf", "linalg.yield"]
FACTORS = 2  # operands of a multiplication


@dataclass(frozen=True)
class ScaledOperand:
    """Operand of a product that is a tensor times a scalar, possibly reshaped.

    Attributes:
        source: Tensor before the multiplication.
        factor: Scalar factor, as a tensor with one element.
        reshapes: Reshapes between the multiplication and the operand, in program order.
    """

    source: ir.Value
    factor: ir.Value
    reshapes: tuple[ir.Operation, ...]

    def times(self, factors: Sequence[ir.Value]) -> ir.Value:
        """Build the operand with its source multiplied by the given factors in sequence."""
        source_type = self.source.type
        identity = ir.AffineMap.get_identity(source_type.rank)
        first = ir.AffineConstantExpr.get(0)
        reads = [ir.AffineMap.get(source_type.rank, 0, [first] * each.type.rank) for each in factors]
        value = self.source
        if factors:
            into = tensor.empty(source_type.shape, source_type.element_type)
            maps = [identity, *reads, identity]
            value = generic([value, *factors], into, maps, ["parallel"] * source_type.rank, multiply)
        for reshape in self.reshapes:
            clone = reshape.clone().operation
            clone.operands[0] = value
            value = clone.results[0]
        return value


def multiply_smaller_operands(module: ir.Module) -> None:
    """Multiply the smaller of two scaled operands of a product by the factors of both, in place."""
    changed = False
    for op in every_op(module):
        operands = [scaled(value) for value in op.operands[:FACTORS]] if op.name in PRODUCTS else []
        known = [each for each in operands if each is not None]
        if len(known) < FACTORS:
            continue
        changed = True
        smaller, larger = sorted(known, key=lambda each: prod(each.source.type.shape))
        with ir.InsertionPoint(op), op.location:
            for number, each in enumerate(known):
                op.operands[number] = each.times([each.factor, larger.factor] if each is smaller else [])
    if changed:
        run_passes(module, "builtin.module(canonicalize,cse)")


def scaled(value: ir.Value) -> ScaledOperand | None:
    """Match an operand that is a tensor times a scalar; return `None` if it does not match."""
    producer, reshapes = maker(value), list[ir.Operation]()
    while producer is not None and producer.name in RESHAPES:
        reshapes.insert(0, producer)
        producer = maker(producer.operands[0])
    if producer is None or producer.name != "linalg.generic" or len(producer.operands) != FACTORS + 1:
        return None
    block = producer.regions[0].blocks[0]
    steps = [inner.operation for inner in block.operations]
    if [step.name for step in steps] != SCALING or set(steps[0].operands) != set(list(block.arguments)[:FACTORS]):
        return None
    *maps, written = indexing_maps(producer)
    if written != ir.AffineMap.get_identity(written.n_dims):
        return None
    for source, factor in ((0, 1), (1, 0)):
        number = producer.operands[factor]
        if maps[source] == written and is_one_number(number) and set(dimensions(maps[factor])) <= {None}:
            return ScaledOperand(producer.operands[source], number, tuple(reshapes))
    return None


def is_one_number(value: ir.Value) -> bool:
    """Return whether a value is a tensor with one element."""
    return isinstance(value.type, ir.RankedTensorType) and value.type.has_static_shape and prod(value.type.shape) == 1


def multiply(element: ir.Value, *rest: ir.Value) -> ir.Value:
    """Build the product of an element and factors, in sequence; the last value, the destination, is ignored."""
    for factor in rest[:-1]:
        element = arith.mulf(element, factor)
    return element
