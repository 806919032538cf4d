"""Addresses of the elements that an op on buffers reads and writes, as sums of what its loops count."""

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
    """An element of an array, counted from its first one.

    Attributes:
        array: The array, which is no view of another.
        constant: What is always added.
        moved: Values that are added, by how much each; from loops around the op.
        strides: Elements that a step of each loop of the op goes on.
    """

    array: ir.Value
    constant: int
    moved: tuple[tuple[ir.Value, int], ...] = ()
    strides: tuple[int, ...] = ()

    @property
    def line(self) -> tuple[object, ...]:
        """What two addresses have in common that are always as far apart."""
        return (self.array, self.moved, self.strides)

    def at(self, loops: Sequence[ir.Value], more: int = 0) -> ir.Value:
        """The element's index for what loops count, at the insertion point."""
        found = index(self.constant + more)
        for value, stride in (*self.moved, *zip(loops, self.strides, strict=False)):
            if stride:
                found = arith.addi(found, arith.muli(value, index(stride)))
        return found

    def flat(self) -> ir.Value:
        """All of the array in one dimension, at the insertion point."""
        kind = ir.MemRefType(self.array.type)
        if kind.rank <= 1:
            return self.array if kind.rank else memref.expand_shape(flat_kind(kind), self.array, [], [], [1])
        return memref.collapse_shape(flat_kind(kind), self.array, [list(range(kind.rank))])


def flat_kind(kind: ir.MemRefType) -> ir.MemRefType:
    """The type of an array in one dimension."""
    count = 1
    for size in kind.shape:
        count *= size
    return ir.MemRefType.get([count], kind.element_type)


def address_of(value: ir.Value, amap: ir.AffineMap) -> Address:
    """The address of an operand's element, for what the loops of its op count.

    Raises:
        CompileError: Stage ``transform``; sizes or strides are known at run time only, or an index is no sum of loops.
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
    """The address of a buffer's first element."""
    made_by = maker(value)
    if made_by is not None and made_by.name in SAME_ELEMENTS:
        return first_of(made_by.operands[0])
    if made_by is not None and made_by.name == "memref.subview":
        return first_of_part(made_by)
    if not is_plain(ir.MemRefType(value.type)):
        raise CompileError("transform", f"an op of bytes must have arrays of known sizes, got {value.type}")
    return Address(value, 0)


def first_of_part(part: ir.Operation) -> Address:
    """The address of a subview's first element."""
    source, *given = list(part.operands)
    found, moving = first_of(source), iter(given)
    for offset, stride in zip(ir.DenseI64ArrayAttr(part.attributes["static_offsets"]), strides_of(source), strict=True):
        if offset == DYNAMIC:
            found = replace(found, moved=(*found.moved, (next(moving), stride)))
        else:
            found = replace(found, constant=found.constant + offset * stride)
    return found


def is_plain(kind: ir.MemRefType) -> bool:
    """Whether an array's elements follow each other, and their number is known."""
    return bool(kind.has_static_shape) and kind.layout == ir.AffineMapAttr.get(ir.AffineMap.get_identity(kind.rank))


def strides_of(value: ir.Value) -> list[int]:
    """Elements between neighbours along each dimension of a buffer."""
    strides, _ = ir.MemRefType(value.type).get_strides_and_offset()
    if DYNAMIC in strides:
        raise CompileError("transform", f"an op of bytes must have buffers of known strides, got {value.type}")
    return list(strides)
