"""Structured ops, written from here."""

from collections.abc import Callable, Sequence
from math import prod

from mlir import ir
from mlir.dialects import arith, linalg, tensor

Element = Callable[..., ir.Value]


def dims(count: int) -> list[ir.AffineExpr]:
    """The loops of an op."""
    return [ir.AffineDimExpr.get(index) for index in range(count)]


def generic(
    inputs: Sequence[ir.Value],
    into: ir.Value,
    maps: Sequence[ir.AffineMap],
    iterators: Sequence[str],
    write: Element | None = None,
) -> ir.Value:
    """A linalg.generic whose body `write` makes of the elements of its operands; by default it moves the first."""
    kinds = ir.ArrayAttr.get([ir.Attribute.parse(f"#linalg.iterator_type<{kind}>") for kind in iterators])
    layouts = ir.ArrayAttr.get([ir.AffineMapAttr.get(amap) for amap in maps])
    op = linalg.GenericOp([into.type], inputs, [into], layouts, kinds)
    elements = [getattr(value.type, "element_type", value.type) for value in (*inputs, into)]
    block = op.regions[0].blocks.append(*elements, arg_locs=[op.location] * len(elements))
    with ir.InsertionPoint(block):
        linalg.yield_([write(*block.arguments) if write is not None else block.arguments[0]])
    return op.results[0]


def copy_of_body(op: ir.Operation) -> Element:
    """What writes the scalar ops of an op's body again, on other elements; it gives what the body yields."""
    block = op.regions[0].blocks[0]
    *steps, end = (inner.operation for inner in block.operations)

    def copy(*elements: ir.Value) -> ir.Value:
        known = dict(zip(block.arguments, elements, strict=True))
        for step in steps:
            clone = step.clone().operation
            for number, value in enumerate(step.operands):
                clone.operands[number] = known.get(value, value)
            known |= dict(zip(step.results, clone.results, strict=True))
        return known.get(end.operands[0], end.operands[0])

    return copy


def permuted(value: ir.Value, order: Sequence[int]) -> ir.Value:
    """A tensor with its dimensions in another order: dimension i is dimension ``order[i]`` of the value.

    Example: order (0, 2, 3, 1) takes channels last.
    """
    kind = value.type
    into = tensor.empty([kind.shape[d] for d in order], kind.element_type)
    loops = dims(len(order))
    read = ir.AffineMap.get(len(order), 0, [loops[order.index(d)] for d in range(len(order))])
    maps = [read, ir.AffineMap.get_identity(len(order))]
    return generic([value], into, maps, ["parallel"] * len(order))


def flat(value: ir.Value, groups: Sequence[Sequence[int]]) -> ir.Value:
    """A tensor with groups of neighbouring dimensions made one each."""
    kind = value.type
    if len(groups) == len(kind.shape):
        return value
    shape = [prod(kind.shape[d] for d in group) for group in groups]
    return tensor.collapse_shape(ir.RankedTensorType.get(shape, kind.element_type), value, groups)


def unflat(value: ir.Value, groups: Sequence[Sequence[int]], shape: Sequence[int]) -> ir.Value:
    """The opposite of `flat`: a tensor of a shape, of which groups of dimensions were one."""
    if len(groups) == len(shape):
        return value
    kind = ir.RankedTensorType.get(list(shape), value.type.element_type)
    return tensor.expand_shape(kind, value, groups, [], list(shape))


def filled(shape: Sequence[int], element: ir.Type, value: ir.Value) -> ir.Value:
    """A tensor that holds one number everywhere."""
    return linalg.fill(value, outs=[tensor.empty(list(shape), element)])


def part_read(value: ir.Value, amap: ir.AffineMap, sizes: Sequence[int]) -> ir.Value:
    """The part of a tensor that loops of some sizes read by a map: windows with steps may leave a rest.

    Upstream drops loops of one step, and then takes the whole of a dimension for what is left of them.
    """
    last = ir.AffineMap.get(0, 0, [ir.AffineConstantExpr.get(size - 1) for size in sizes])
    shape = [ir.AffineConstantExpr(expr.compose(last)).value + 1 for expr in amap.results]
    if shape == list(value.type.shape):
        return value
    kind = ir.RankedTensorType.get(shape, value.type.element_type)
    return tensor.extract_slice(kind, value, [], [], [], [0] * len(shape), shape, [1] * len(shape))


def read_all(*elements: ir.Value) -> ir.Value:
    """A number that all but the last element decide, of the last one's type."""
    *read, into = elements
    total = as_kind(read[0], into.type)
    for element in read[1:]:
        more = as_kind(element, into.type)
        total = arith.addf(total, more) if isinstance(into.type, ir.FloatType) else arith.addi(total, more)
    return total


def as_kind(value: ir.Value, kind: ir.Type) -> ir.Value:
    """A number as one of another type."""
    if value.type == kind:
        return value
    mine, theirs = isinstance(value.type, ir.FloatType), isinstance(kind, ir.FloatType)
    if mine and theirs:
        return arith.extf(kind, value) if value.type.width < kind.width else arith.truncf(kind, value)
    if mine:
        return arith.fptosi(kind, value)
    if theirs:
        return arith.sitofp(kind, value)
    return arith.extsi(kind, value) if value.type.width < kind.width else arith.trunci(kind, value)
