"""Linear addresses of the elements that an op on memrefs accesses, as affine functions of its loops."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mlir import ir
from mlir.dialects import arith, memref

from autotune.compiler.ir.nests import read_index
from autotune.compiler.ir.values import index, maker
from autotune.core.errors import CompileError

SAME_ELEMENTS = ("memref.expand_shape", "memref.collapse_shape", "memref.cast")
DYNAMIC = ir.ShapedType.get_dynamic_size()


@dataclass(frozen=True)
class Address:
    """Affine address of an element, in elements from the start of its array.

    Attributes:
        array: Base array, not a view.
        constant: Constant offset.
        moved: Dynamic offsets: values from loops around the op, and the stride of each.
        strides: Stride of each loop of the op, in elements.
    """

    array: ir.Value
    constant: int
    moved: tuple[tuple[ir.Value, int], ...] = ()
    strides: tuple[int, ...] = ()

    @property
    def line(self) -> tuple[object, ...]:
        """Key shared by two addresses whose distance is the same for all iterations."""
        return (self.array, self.moved, self.strides)

    def at(self, loops: Sequence[ir.Value], more: int = 0) -> ir.Value:
        """Build the linear index for given induction variables, plus `more` elements, at the insertion point."""
        total = index(self.constant + more)
        for value, stride in (*self.moved, *zip(loops, self.strides, strict=False)):
            if stride:
                total = arith.addi(total, arith.muli(value, index(stride)))
        return total

    def flat(self) -> ir.Value:
        """Build a one-dimensional view of the array at the insertion point."""
        kind = ir.MemRefType(self.array.type)
        if kind.rank <= 1:
            return self.array if kind.rank else memref.expand_shape(flat_kind(kind), self.array, [], [], [1])
        return memref.collapse_shape(flat_kind(kind), self.array, [list(range(kind.rank))])


def flat_kind(kind: ir.MemRefType) -> ir.MemRefType:
    """Return the one-dimensional memref type with the same elements."""
    count = 1
    for size in kind.shape:
        count *= size
    return ir.MemRefType.get([count], kind.element_type)


def address_of(value: ir.Value, amap: ir.AffineMap) -> Address:
    """Return the address of an operand's element as a function of the loops of its op.

    Raises:
        CompileError: Stage ``transform``; sizes or strides are dynamic, or an index is not linear in the loops.
    """
    first, strides = first_of(value), strides_of(value)
    of_loops = [0] * amap.n_dims
    for expression, stride in zip(amap.results, strides, strict=True):
        index_of = read_index(expression)
        if index_of.parts:
            raise CompileError("transform", f"an op of bytes must read sums of its loops, got {amap}")
        first = replace(first, constant=first.constant + index_of.constant * stride)
        for loop, factor in index_of.terms:
            of_loops[loop] += factor * stride
    return replace(first, strides=tuple(of_loops))


def first_of(value: ir.Value) -> Address:
    """Return the address of a memref's first element."""
    made_by = maker(value)
    if made_by is not None and made_by.name in SAME_ELEMENTS:
        return first_of(made_by.operands[0])
    if made_by is not None and made_by.name == "memref.subview":
        return first_of_part(made_by)
    if not is_plain(ir.MemRefType(value.type)):
        raise CompileError("transform", f"an op of bytes must have arrays of known sizes, got {value.type}")
    return Address(value, 0)


def first_of_part(part: ir.Operation) -> Address:
    """Return the address of a subview's first element."""
    source, *operands = list(part.operands)
    address, dynamic_offsets = first_of(source), iter(operands)
    for offset, stride in zip(ir.DenseI64ArrayAttr(part.attributes["static_offsets"]), strides_of(source), strict=True):
        if offset == DYNAMIC:
            address = replace(address, moved=(*address.moved, (next(dynamic_offsets), stride)))
        else:
            address = replace(address, constant=address.constant + offset * stride)
    return address


def is_plain(kind: ir.MemRefType) -> bool:
    """Return whether a memref type has a static shape and the identity layout."""
    return bool(kind.has_static_shape) and kind.layout == ir.AffineMapAttr.get(ir.AffineMap.get_identity(kind.rank))


def strides_of(value: ir.Value) -> list[int]:
    """Return the static strides of a memref, in elements."""
    strides, _ = ir.MemRefType(value.type).get_strides_and_offset()
    if DYNAMIC in strides:
        raise CompileError("transform", f"an op of bytes must have buffers of known strides, got {value.type}")
    return list(strides)
