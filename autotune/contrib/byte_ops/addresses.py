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
        dynamic: Dynamic offsets: values from the enclosing loops, and the stride of each.
        strides: Stride of each loop of the op, in elements.
    """

    array: ir.Value
    constant: int
    dynamic: tuple[tuple[ir.Value, int], ...] = ()
    strides: tuple[int, ...] = ()

    @property
    def line(self) -> tuple[object, ...]:
        """Key shared by two addresses whose distance is the same for all iterations."""
        return (self.array, self.dynamic, self.strides)

    def at(self, loops: Sequence[ir.Value], offset: int = 0) -> ir.Value:
        """Build the linear index for given induction variables, plus `offset` elements, at the insertion point."""
        total = index(self.constant + offset)
        for value, stride in (*self.dynamic, *zip(loops, self.strides, strict=False)):
            if stride:
                total = arith.addi(total, arith.muli(value, index(stride)))
        return total

    def flat(self) -> ir.Value:
        """Build a one-dimensional view of the array at the insertion point."""
        memref_type = ir.MemRefType(self.array.type)
        if memref_type.rank <= 1:
            return (
                self.array if memref_type.rank else memref.expand_shape(flat_type(memref_type), self.array, [], [], [1])
            )
        return memref.collapse_shape(flat_type(memref_type), self.array, [list(range(memref_type.rank))])


def flat_type(memref_type: ir.MemRefType) -> ir.MemRefType:
    """Return the one-dimensional memref type with the same elements."""
    count = 1
    for size in memref_type.shape:
        count *= size
    return ir.MemRefType.get([count], memref_type.element_type)


def address_of(value: ir.Value, amap: ir.AffineMap) -> Address:
    """Return the address of an operand's element as a function of the loops of its op.

    Raises:
        CompileError: Stage ``transform``; sizes or strides are dynamic, or an index is not linear in the loops.
    """
    first, strides = first_of(value), strides_of(value)
    loop_strides = [0] * amap.n_dims
    for expression, stride in zip(amap.results, strides, strict=True):
        affine = read_index(expression)
        if affine.parts:
            raise CompileError("transform", f"an op of bytes must read sums of its loops, got {amap}")
        first = replace(first, constant=first.constant + affine.constant * stride)
        for loop, factor in affine.terms:
            loop_strides[loop] += factor * stride
    return replace(first, strides=tuple(loop_strides))


def first_of(value: ir.Value) -> Address:
    """Return the address of a memref's first element."""
    producer = maker(value)
    if producer is not None and producer.name in SAME_ELEMENTS:
        return first_of(producer.operands[0])
    if producer is not None and producer.name == "memref.subview":
        return first_of_part(producer)
    if not is_plain(ir.MemRefType(value.type)):
        raise CompileError("transform", f"an op of bytes must have arrays of known sizes, got {value.type}")
    return Address(value, 0)


def first_of_part(part: ir.Operation) -> Address:
    """Return the address of a subview's first element."""
    source, *operands = list(part.operands)
    address, dynamic_offsets = first_of(source), iter(operands)
    for offset, stride in zip(ir.DenseI64ArrayAttr(part.attributes["static_offsets"]), strides_of(source), strict=True):
        if offset == DYNAMIC:
            address = replace(address, dynamic=(*address.dynamic, (next(dynamic_offsets), stride)))
        else:
            address = replace(address, constant=address.constant + offset * stride)
    return address


def is_plain(memref_type: ir.MemRefType) -> bool:
    """Return whether a memref type has a static shape and the identity layout."""
    return bool(memref_type.has_static_shape) and memref_type.layout == ir.AffineMapAttr.get(
        ir.AffineMap.get_identity(memref_type.rank)
    )


def strides_of(value: ir.Value) -> list[int]:
    """Return the static strides of a memref, in elements."""
    strides, _ = ir.MemRefType(value.type).get_strides_and_offset()
    if DYNAMIC in strides:
        raise CompileError("transform", f"an op of bytes must have buffers of known strides, got {value.type}")
    return list(strides)
