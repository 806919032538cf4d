"""Bounds checks of memref views: which ones provably lie inside their source, by types and constants.

A view aliases its source, so that a wrong size or offset accesses memory outside of it.
"""

from collections.abc import Sequence
from math import prod

from mlir import ir

from autotune.compiler.ir.values import constant, is_constant

MOST_INDEX = 1 << 62
DYNAMIC = ir.ShapedType.get_dynamic_size()
RESHAPES = ("memref.expand_shape", "memref.collapse_shape", "memref.reshape")


def view_fault(op: ir.Operation) -> str | None:
    """Return an error if a view may reach outside its source, or is a view of nothing (poison); else `None`."""
    if op.name == "ub.poison" and is_array(op.results[0].type):
        return f"must hold views of arrays, {op.name} is of none"
    lies_inside = {
        "memref.cast": cast_forgets,
        "memref.reinterpret_cast": cast_lies_inside,
        "memref.subview": part_lies_inside,
        "memref.view": bytes_lie_inside,
        **dict.fromkeys(RESHAPES, shape_lies_inside),
    }
    if op.name not in lies_inside or lies_inside[op.name](op):
        return None
    return (
        "must hold views that lie inside their arrays by constant offsets, sizes and strides, "
        f"{op.name} of {str(op.operands[0].type)[:80]} may reach outside"
    )


def is_array(mlir_type: ir.Type) -> bool:
    """Return whether a type is a memref."""
    return isinstance(mlir_type, ir.MemRefType | ir.UnrankedMemRefType)


def reach(offset: int, sizes: Sequence[int], strides: Sequence[int]) -> range | None:
    """Return the range of linear element indices that a strided view spans; `None` if it is not static."""
    if DYNAMIC in (offset, *sizes, *strides) or min(sizes, default=0) < 0:
        return None
    if 0 in sizes:
        return range(0)
    steps = [(size - 1) * stride for size, stride in zip(sizes, strides, strict=True)]
    return range(offset + sum(step for step in steps if step < 0), offset + sum(s for s in steps if s > 0) + 1)


def layout_of(memref_type: ir.MemRefType) -> tuple[list[int], int] | None:
    """Return strides and offset of a memref type, `DYNAMIC` where unknown; `None` if its layout is not strided."""
    try:
        strides, offset = memref_type.get_strides_and_offset()
    except ValueError:
        return None
    return list(strides), int(offset)


def reach_of(mlir_type: ir.Type) -> range | None:
    """Return the range of linear element indices of a memref type; `None` if it is not static."""
    if not isinstance(mlir_type, ir.MemRefType) or (layout := layout_of(mlir_type)) is None:
        return None
    strides, offset = layout
    return reach(offset, list(mlir_type.shape), strides)


def within(part: range | None, whole: range | None) -> bool:
    """Return whether range `part` is known to lie within `whole`."""
    if part is None or whole is None:
        return False
    return not part or (whole.start <= part.start and part.stop <= whole.stop)


def numbers_of(op: ir.Operation) -> tuple[list[int], list[int], list[int]]:
    """Return offsets, sizes and strides of a view, `DYNAMIC` where they are not constants."""
    dynamic_operands = iter(op.operands[1:])
    offsets, sizes, strides = (
        [
            number_of(next(dynamic_operands)) if number == DYNAMIC else number
            for number in ir.DenseI64ArrayAttr(op.attributes[name])
        ]
        for name in ("static_offsets", "static_sizes", "static_strides")
    )
    return offsets, sizes, strides


def number_of(value: ir.Value) -> int:
    """Return the value of an index constant; `DYNAMIC` for any other value."""
    return constant(value) if is_constant(value) else DYNAMIC


def cast_lies_inside(op: ir.Operation) -> bool:
    """Return whether a reinterpret_cast stays inside its source; its offset counts from the base of the buffer."""
    (offset,), sizes, strides = numbers_of(op)
    whole, declared = reach_of(op.operands[0].type), reach_of(op.results[0].type)
    return within(reach(offset, sizes, strides), whole) and (declared is None or within(declared, whole))


def part_lies_inside(op: ir.Operation) -> bool:
    """Return whether a subview is in bounds in every dimension, in all iterations of the loops around it."""
    dynamic_operands = iter(op.operands[1:])
    offsets = ir.DenseI64ArrayAttr(op.attributes["static_offsets"])
    firsts = [indices_of(next(dynamic_operands)) if first == DYNAMIC else range(first, first + 1) for first in offsets]
    _, sizes, strides = numbers_of(op)
    return all(
        first is not None and all(within(reach(end, [size], [step]), reach(0, [whole], [1])) for end in ends(first))
        for first, size, step, whole in zip(firsts, sizes, strides, op.operands[0].type.shape, strict=True)
    )


def ends(indices: range) -> list[int]:
    """Return the first and the last index of a range; nothing if it is empty."""
    return [indices[0], indices[-1]] if indices else []


def indices_of(value: ir.Value) -> range | None:
    """Return the range of a constant or of an induction variable with constant bounds; `None` for any other value."""
    if is_constant(value):
        return range(constant(value), constant(value) + 1)
    bounds = bounds_of(value) if isinstance(value, ir.BlockArgument) else None
    if bounds is None or not all(0 <= bound < MOST_INDEX for bound in bounds) or bounds[2] == 0:
        return None  # bounds may be compared unsigned, and a step may wrap around
    return range(*bounds)


def bounds_of(value: ir.BlockArgument) -> tuple[int, int, int] | None:
    """Return the bounds and step of the loop whose induction variable a value is; `None` for any other value."""
    loop, number = value.owner.owner.operation, value.arg_number
    if loop.name == "scf.for" and number == 0:
        lower, upper, step = (number_of(bound) for bound in list(loop.operands)[:3])
        return lower, upper, step
    if loop.name == "scf.parallel":
        count = len(value.owner.arguments)
        lower, upper, step = (number_of(loop.operands[group * count + number]) for group in range(3))
        return lower, upper, step
    names = ("staticLowerBound", "staticUpperBound", "staticStep")
    if loop.name == "scf.forall" and number < len(ir.DenseI64ArrayAttr(loop.attributes[names[0]])):
        lower, upper, step = (ir.DenseI64ArrayAttr(loop.attributes[name])[number] for name in names)
        return lower, upper, step
    return None


def bytes_lie_inside(op: ir.Operation) -> bool:
    """Return whether a memref.view stays inside the byte buffer that it is a view of."""
    view_type, dynamic_sizes = op.results[0].type, iter(op.operands[2:])
    first_byte = number_of(op.operands[1])
    sizes = [number_of(next(dynamic_sizes)) if size == DYNAMIC else size for size in view_type.shape]
    size, whole = bytes_of(view_type.element_type), reach_of(op.operands[0].type)
    if size is None or whole is None or first_byte == DYNAMIC or reach(0, sizes, [1] * len(sizes)) is None:
        return False
    return within(range(first_byte, first_byte + prod(sizes) * size), whole)


def bytes_of(mlir_type: ir.Type) -> int | None:
    """Return the size in bytes of an element type in memory; `None` if it is not a number."""
    if isinstance(mlir_type, ir.IndexType):
        return 8
    if isinstance(mlir_type, ir.IntegerType | ir.FloatType):
        return int(1 << (-(-mlir_type.width // 8) - 1).bit_length())  # a power of two: 16 for the 10 bytes of f80
    return None


def shape_lies_inside(op: ir.Operation) -> bool:
    """Return whether a reshaped memref spans only elements of its source."""
    return within(reach_of(op.results[0].type), reach_of(op.operands[0].type))


def cast_forgets(op: ir.Operation) -> bool:
    """Return whether a cast only forgets static sizes, strides and offsets, and asserts none anew."""
    source, result = op.operands[0].type, op.results[0].type
    if not isinstance(result, ir.MemRefType):
        return True
    if not isinstance(source, ir.MemRefType) or source.rank != result.rank:
        return False
    before, after = layout_of(source), layout_of(result)
    if before is None or after is None:
        return bool(source == result)
    claims = zip((*source.shape, *before[0], before[1]), (*result.shape, *after[0], after[1]), strict=True)
    return all(claimed in (known, DYNAMIC) for known, claimed in claims)
