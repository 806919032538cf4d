"""Numbers that both operands of a product are multiplied by: all of them on the operand of fewer elements.

    sum over k of (s * A[m, k]) * (t * B[k, n])   ->   sum over k of ((s * A[m, k]) * t) * B[k, n]

PyTorch exports attention so, with the square root of its scale on queries and on keys, which are transposed, too: that
took a pass over all keys. The other operand is then read where it lies.
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
    """An operand of a product that is a tensor times a number, perhaps reshaped.

    Attributes:
        source: The tensor before it was multiplied.
        factor: The number, as a tensor with one element.
        reshapes: What makes the operand of the multiplied tensor, the first one first.
    """

    source: ir.Value
    factor: ir.Value
    reshapes: tuple[ir.Operation, ...]

    def times(self, factors: Sequence[ir.Value]) -> ir.Value:
        """The operand with its source multiplied by some numbers, one after the other."""
        kind = self.source.type
        identity = ir.AffineMap.get_identity(kind.rank)
        first = ir.AffineConstantExpr.get(0)
        reads = [ir.AffineMap.get(kind.rank, 0, [first] * each.type.rank) for each in factors]
        value = self.source
        if factors:
            into = tensor.empty(kind.shape, kind.element_type)
            maps = [identity, *reads, identity]
            value = generic([value, *factors], into, maps, ["parallel"] * kind.rank, multiply)
        for reshape in self.reshapes:
            clone = reshape.clone().operation
            clone.operands[0] = value
            value = clone.results[0]
        return value


def multiply_smaller_operands(module: ir.Module) -> None:
    """Let the smaller of two scaled operands of a product be multiplied by the numbers of both, in place."""
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
    """What an operand is a number times of; `None` where it is not seen to be that."""
    made_by, reshapes = maker(value), list[ir.Operation]()
    while made_by is not None and made_by.name in RESHAPES:
        reshapes.insert(0, made_by)
        made_by = maker(made_by.operands[0])
    if made_by is None or made_by.name != "linalg.generic" or len(made_by.operands) != FACTORS + 1:
        return None
    block = made_by.regions[0].blocks[0]
    steps = [inner.operation for inner in block.operations]
    if [step.name for step in steps] != SCALING or set(steps[0].operands) != set(list(block.arguments)[:FACTORS]):
        return None
    *maps, written = indexing_maps(made_by)
    if written != ir.AffineMap.get_identity(written.n_dims):
        return None
    for source, factor in ((0, 1), (1, 0)):
        number = made_by.operands[factor]
        if maps[source] == written and is_one_number(number) and set(dimensions(maps[factor])) <= {None}:
            return ScaledOperand(made_by.operands[source], number, tuple(reshapes))
    return None


def is_one_number(value: ir.Value) -> bool:
    """Tell whether a value is a tensor with one element."""
    return isinstance(value.type, ir.RankedTensorType) and value.type.has_static_shape and prod(value.type.shape) == 1


def multiply(element: ir.Value, *rest: ir.Value) -> ir.Value:
    """An element times numbers, one after the other; the last value is what the result held."""
    for factor in rest[:-1]:
        element = arith.mulf(element, factor)
    return element
