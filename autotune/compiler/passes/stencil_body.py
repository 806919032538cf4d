"""Bodies of stencils in vectors; what follows from places alone is computed beforehand, lane by lane."""

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import arith

from autotune.compiler.tasks.stencils import is_known

Lane = tuple[int, int]
Point = tuple[int, ...]
# By the number of the predicate; from `UNSIGNED` on those of numbers without a sign follow, in the same order.
COMPARISONS = (int.__eq__, int.__ne__, int.__lt__, int.__le__, int.__gt__, int.__ge__)
UNSIGNED, WIDTH = len(COMPARISONS), 64  # bits of an index


class StencilBody:
    """The body of an op, to be written for many elements at once.

    Args:
        op: The op.
    """

    def __init__(self, op: ir.Operation) -> None:
        self._block = op.regions[0].blocks[0]
        *self._ops, self._end = (inner.operation for inner in self._block.operations)
        self._known = {op.results[0] for op in self._ops if is_known(op.results[0])}

    def wanted(self, points: Sequence[Point]) -> list[list[bool]]:
        """For every input, which lanes matter: not those that a selection by places leaves out."""
        known = self._places(points)
        found = []
        for argument in list(self._block.arguments)[:-1]:
            users = [use.owner.operation for use in argument.uses]
            masks = [known.get(op.operands[0]) if is_choice(op, argument) else None for op in users]
            masked = [mask for mask in masks if mask is not None]
            plain = len(masked) < len(masks)
            found.append([plain or any(mask[lane] for mask in masked) for lane in range(len(points))])
        return found

    def write(self, points: Sequence[Point], inputs: Sequence[ir.Value]) -> ir.Value:
        """The body on vectors, one lane a point; gives what it yields."""
        known, width = self._places(points), len(points)
        values: dict[ir.Value, ir.Value] = dict(zip(self._block.arguments, inputs, strict=False))

        def of(value: ir.Value) -> ir.Value:
            if value not in values:
                values[value] = constants(known[value], value.type) if value in known else splat(value, width)
            return values[value]

        for op in self._ops:
            if op.results[0] in self._known or op.name == "arith.constant":
                continue
            kinds = [ir.VectorType.get([width], result.type) for result in op.results]
            said = {name: op.attributes[name] for name in op.attributes}
            made = ir.Operation.create(op.name, kinds, [of(value) for value in op.operands], said)
            values |= dict(zip(op.results, made.results, strict=True))
        return of(self._end.operands[0])

    def _places(self, points: Sequence[Point]) -> dict[ir.Value, list[int]]:
        """Values that follow from places, at every point."""
        found: dict[ir.Value, list[int]] = {}
        for op in (op for op in self._ops if op.results[0] in self._known):
            if op.name == "linalg.index":
                dim = ir.IntegerAttr(op.attributes["dim"]).value
                found[op.results[0]] = [point[dim] for point in points]
                continue
            operands = [found[v] if v in found else [number(v)] * len(points) for v in op.operands]
            found[op.results[0]] = [compute(op, pair) for pair in zip(*operands, strict=True)]
        return found


def number(value: ir.Value) -> int:
    """The whole number that a constant is."""
    return int(ir.IntegerAttr(value.owner.attributes["value"]).value)


def compute(op: ir.Operation, operands: Sequence[int]) -> int:
    """One of `PLACES` on numbers."""
    first, second = operands
    if op.name == "arith.cmpi":
        predicate = ir.IntegerAttr(op.attributes["predicate"]).value
        if predicate >= UNSIGNED:
            width = op.operands[0].type.width if isinstance(op.operands[0].type, ir.IntegerType) else WIDTH
            first, second, predicate = first % (1 << width), second % (1 << width), predicate - UNSIGNED + 2
        return int(COMPARISONS[predicate](first, second))
    return {"arith.addi": first + second, "arith.muli": first * second, "arith.andi": first & second}[op.name]


def is_choice(op: ir.Operation, value: ir.Value) -> bool:
    """Tell whether an op takes a value only where a condition holds."""
    return op.name == "arith.select" and bool(op.operands[1] == value) and bool(op.operands[2] != value)


def constants(numbers: Sequence[int], kind: ir.Type) -> ir.Value:
    """A vector of numbers."""
    held = ir.VectorType.get([len(numbers)], kind)
    elements = [ir.IntegerAttr.get(kind, each) for each in numbers]
    return arith.constant(held, ir.DenseElementsAttr.get(elements, held))


def splat(value: ir.Value, width: int) -> ir.Value:
    """A constant, in every lane."""
    made_by = value.owner.operation
    kind = ir.VectorType.get([width], value.type)
    return arith.constant(kind, ir.DenseElementsAttr.get_splat(kind, made_by.attributes["value"]))
