"""Builders of structured operations, at the current insertion point."""

from collections.abc import Callable, Sequence
from math import prod

from mlir import ir
from mlir.dialects import arith, linalg, tensor

Element = Callable[..., ir.Value]


def dims(count: int) -> list[ir.AffineExpr]:
    """Return the affine dimension expressions d0, d1, ... of an iteration space."""
    return [ir.AffineDimExpr.get(index) for index in range(count)]


def generic(
    inputs: Sequence[ir.Value],
    into: ir.Value,
    maps: Sequence[ir.AffineMap],
    iterators: Sequence[str],
    write: Element | None = None,
) -> ir.Value:
    """Build a `linalg.generic`.

    Args:
        inputs: Input operands.
        into: Destination operand.
        maps: Indexing maps, one per operand.
        iterators: Iterator types, such as ``parallel``.
        write: Builder of the body: takes the elements of all operands, returns the value to yield; by default, the
            first element is copied.

    Returns:
        Result of the operation.
    """
    iterator_types = ir.ArrayAttr.get([ir.Attribute.parse(f"#linalg.iterator_type<{kind}>") for kind in iterators])
    indexing_maps = ir.ArrayAttr.get([ir.AffineMapAttr.get(amap) for amap in maps])
    op = linalg.GenericOp([into.type], inputs, [into], indexing_maps, iterator_types)
    element_types = [getattr(value.type, "element_type", value.type) for value in (*inputs, into)]
    block = op.regions[0].blocks.append(*element_types, arg_locs=[op.location] * len(element_types))
    with ir.InsertionPoint(block):
        linalg.yield_([write(*block.arguments) if write is not None else block.arguments[0]])
    return op.results[0]


def copy_of_body(op: ir.Operation) -> Element:
    """Return a builder that clones the body of an operation onto other elements and returns the yielded value."""
    block = op.regions[0].blocks[0]
    *steps, end = (inner.operation for inner in block.operations)

    def copy(*elements: ir.Value) -> ir.Value:
        mapping = dict(zip(block.arguments, elements, strict=True))
        for step in steps:
            clone = step.clone().operation
            for number, value in enumerate(step.operands):
                clone.operands[number] = mapping.get(value, value)
            mapping |= dict(zip(step.results, clone.results, strict=True))
        return mapping.get(end.operands[0], end.operands[0])

    return copy


def permuted(value: ir.Value, order: Sequence[int]) -> ir.Value:
    """Build the transposition of a tensor: dimension i of the result is dimension ``order[i]`` of the value.

    Example: order (0, 2, 3, 1) moves channels last.
    """
    input_type = value.type
    into = tensor.empty([input_type.shape[d] for d in order], input_type.element_type)
    loops = dims(len(order))
    read = ir.AffineMap.get(len(order), 0, [loops[order.index(d)] for d in range(len(order))])
    maps = [read, ir.AffineMap.get_identity(len(order))]
    return generic([value], into, maps, ["parallel"] * len(order))


def flat(value: ir.Value, groups: Sequence[Sequence[int]]) -> ir.Value:
    """Collapse each group of adjacent dimensions of a tensor into one dimension."""
    tensor_type = value.type
    if len(groups) == len(tensor_type.shape):
        return value
    shape = [prod(tensor_type.shape[d] for d in group) for group in groups]
    return tensor.collapse_shape(ir.RankedTensorType.get(shape, tensor_type.element_type), value, groups)


def unflat(value: ir.Value, groups: Sequence[Sequence[int]], shape: Sequence[int]) -> ir.Value:
    """Expand each dimension of a tensor into a group of dimensions of `shape`; the inverse of `flat`."""
    if len(groups) == len(shape):
        return value
    tensor_type = ir.RankedTensorType.get(list(shape), value.type.element_type)
    return tensor.expand_shape(tensor_type, value, groups, [], list(shape))


def filled(shape: Sequence[int], element: ir.Type, value: ir.Value) -> ir.Value:
    """Build a tensor filled with a scalar."""
    return linalg.fill(value, outs=[tensor.empty(list(shape), element)])


def part_read(value: ir.Value, amap: ir.AffineMap, sizes: Sequence[int]) -> ir.Value:
    """Slice a tensor to the part that loops of the given sizes access by a map; strided windows may not reach the end.

    Upstream folds unit loops, and would then infer the trip counts of the others from the whole dimension.
    """
    last = ir.AffineMap.get(0, 0, [ir.AffineConstantExpr.get(size - 1) for size in sizes])
    shape = [ir.AffineConstantExpr(expr.compose(last)).value + 1 for expr in amap.results]
    if shape == list(value.type.shape):
        return value
    slice_type = ir.RankedTensorType.get(shape, value.type.element_type)
    return tensor.extract_slice(slice_type, value, [], [], [], [0] * len(shape), shape, [1] * len(shape))


def read_all(*elements: ir.Value) -> ir.Value:
    """Build the sum of all elements but the last, converted to the type of the last."""
    *read, into = elements
    total = as_kind(read[0], into.type)
    for element in read[1:]:
        more = as_kind(element, into.type)
        total = arith.addf(total, more) if isinstance(into.type, ir.FloatType) else arith.addi(total, more)
    return total


def as_kind(value: ir.Value, mlir_type: ir.Type) -> ir.Value:
    """Convert a scalar to another type, as a signed number."""
    if value.type == mlir_type:
        return value
    is_from_float, is_to_float = isinstance(value.type, ir.FloatType), isinstance(mlir_type, ir.FloatType)
    if is_from_float and is_to_float:
        return arith.extf(mlir_type, value) if value.type.width < mlir_type.width else arith.truncf(mlir_type, value)
    if is_from_float:
        return arith.fptosi(mlir_type, value)
    if is_to_float:
        return arith.sitofp(mlir_type, value)
    return arith.extsi(mlir_type, value) if value.type.width < mlir_type.width else arith.trunci(mlir_type, value)
