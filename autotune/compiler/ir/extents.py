"""Bounded dynamic sizes: a tensor that is the leading slice of a static one, such as the filled rows of a cache."""

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import bufferization, tensor

from autotune.compiler.ir.values import maker, static_slice


@dataclass(frozen=True)
class Extent:
    """The only dynamic size of a tensor.

    Attributes:
        value: SSA value of type index that holds the size.
        bound: Upper bound of that value, inclusive.
    """

    value: ir.Value
    bound: int


def extent_of(value: ir.Value) -> Extent | None:
    """Return the dynamic size of a slice of a static tensor, or of a result computed into such a slice; else `None`."""
    if not isinstance(value.type, ir.RankedTensorType) or value.type.has_static_shape:
        return None
    made_by = maker(value)
    if made_by is None:
        return None
    if made_by.name.startswith("linalg."):
        return extent_of(made_by.operands[-1])
    if made_by.name != "tensor.extract_slice":
        return None
    _, sizes, _ = static_slice(made_by)
    dynamic = ir.ShapedType.get_dynamic_size()
    whole = ir.RankedTensorType(made_by.operands[0].type).shape
    bounds = [bound for size, bound in zip(sizes, whole, strict=True) if size == dynamic]
    if len(bounds) != 1 or bounds[0] == dynamic:
        return None
    segments = list(ir.DenseI32ArrayAttr(made_by.attributes["operandSegmentSizes"]))
    return Extent(made_by.operands[segments[0] + segments[1]], bounds[0])


def static_shape(value: ir.Value) -> list[int]:
    """Return the shape of a tensor, with a dynamic size replaced by its bound where that is known."""
    extent = extent_of(value)
    dynamic = ir.ShapedType.get_dynamic_size()
    return [extent.bound if extent is not None and size == dynamic else size for size in value.type.shape]


def open_dimensions(value: ir.Value) -> list[int]:
    """Return the dynamic dimensions of a tensor."""
    dynamic = ir.ShapedType.get_dynamic_size()
    return [d for d, size in enumerate(value.type.shape) if size == dynamic]


def first_part(tensor_type: ir.RankedTensorType, whole: ir.Value, size: ir.Value) -> ir.Value:
    """Extract the leading slice of a tensor, of a type with one dynamic size, at the insertion point."""
    sizes: Sequence[int] = tensor_type.shape
    return tensor.extract_slice(tensor_type, whole, [], [size], [], [0] * len(sizes), sizes, [1] * len(sizes))


def bound_empties(function: ir.OpView) -> None:
    """Replace empty tensors of a bounded dynamic size by leading slices of static allocations, in place.

    The bound is that of slices whose size is the same SSA value. Static buffers can be placed in the arena.
    """
    bounds: dict[ir.Value, int] = {}
    empties: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == "tensor.extract_slice":
            extent = extent_of(op.results[0])
            if extent is not None:
                bounds[extent.value] = min(extent.bound, bounds.get(extent.value, extent.bound))
        elif op.name == "tensor.empty" and len(op.operands) == 1:
            empties.append(op)
        return ir.WalkResult.ADVANCE

    function.operation.walk(visit)
    for op in empties:
        size, tensor_type = op.operands[0], ir.RankedTensorType(op.results[0].type)
        if size in bounds:
            dynamic = ir.ShapedType.get_dynamic_size()
            shape = [bounds[size] if s == dynamic else s for s in tensor_type.shape]
            with ir.InsertionPoint(op), op.location:
                static = bufferization.alloc_tensor(ir.RankedTensorType.get(shape, tensor_type.element_type), [])
                op.results[0].replace_all_uses_with(first_part(tensor_type, static, size))
            op.erase()
