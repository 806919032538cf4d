"""Store intermediates in result buffers until the result is written, so that a long softmax streams fewer arrays.

    b[i] = exp(x[i]);  s = sum of b;  y[i] = b[i] / s     ->     y[i] = exp(x[i]);  s = sum of y;  y[i] = y[i] / s

A buffer can share a result's memory if every load of it, from the first store of the result on, is followed by a store
of the result to the same indices, and the stores of the result write each of its elements exactly once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from mlir import ir

from autotune.compiler.ir.values import is_constant, maker_named, static_slice, trip_count
from autotune.compiler.ir.views import DYNAMIC, RESHAPES
from autotune.compiler.passes.block_copies import bytes_of_row
from autotune.compiler.passes.lifetimes import Steps
from autotune.compiler.passes.loads import VIEW, linear
from autotune.compiler.passes.marked_loops import parents
from autotune.compiler.passes.zeros import BOUNDS

LEAST_BYTES = 1 << 17  # of a buffer: smaller ones stay in L2 beside the result, whose alignment is unknown
LOADS = ("memref.load", "vector.load", "vector.maskedload")
STORES = ("memref.store", "vector.store", "vector.maskedstore")
Sum = tuple[dict[ir.Value, int], int]  # linear combination: factor by value, and a constant
Indices = tuple[tuple[frozenset[tuple[ir.Value, int]], int], ...]  # such sums, one per dimension


class UnknownUseError(Exception):
    """An array has a use that the analysis does not support."""


@dataclass(frozen=True)
class RowAccess:
    """A load or store of contiguous elements.

    Attributes:
        op: Load or store operation.
        indices: Indices of the first element.
        elements: Number of elements.
    """

    op: ir.Operation
    indices: Indices
    elements: int

    @property
    def stores(self) -> bool:
        """Whether it is a store."""
        return self.op.name in STORES

    @property
    def times(self) -> int:
        """Number of executions of the op.

        Raises:
            UnknownUseError: An ancestor is not a loop with constant bounds.
        """
        loops = list(parents(self.op))[:-1]
        if any(loop.name != "scf.for" or not all(map(is_constant, list(loop.operands)[:BOUNDS])) for loop in loops):
            raise UnknownUseError
        return prod(map(trip_count, loops))


@dataclass(frozen=True)
class StoredResult:
    """A large function argument of which all elements are stored, and none are loaded.

    Attributes:
        value: Function argument, or the only view that is used of it, which reshapes it.
        stores: All of its stores.
    """

    value: ir.Value
    stores: tuple[RowAccess, ...]

    @classmethod
    def of(cls, argument: ir.Value) -> "StoredResult | None":
        """Analyze an argument; return `None` if it is not such a result."""
        value = reshaped(argument)
        try:
            stores = tuple(accesses(value)) if is_large(argument.type) else ()
            count = sum(each.elements * each.times for each in stores) if all(each.stores for each in stores) else 0
        except UnknownUseError:
            return None
        return cls(value, stores) if stores and count == prod(argument.type.shape) else None

    def may_hold(self, buffer: ir.Value, numbers: dict[ir.Operation, int]) -> bool:
        """Return whether a buffer may share its memory."""
        if buffer.type != self.value.type:
            return False
        first = min(numbers[outermost(each.op)] for each in self.stores)
        try:
            late_accesses = [each for each in accesses(buffer) if numbers[outermost(each.op)] >= first]
        except UnknownUseError:
            return False
        # Every late access must be a load that a store of the result overwrites; all other stores must come later.
        paired = [next((s for s in self.stores if follows(s, each, numbers)), None) for each in late_accesses]
        others = [each for each in self.stores if each not in paired]
        last = max((numbers[outermost(each.op)] for each in late_accesses), default=first)
        return bool(late_accesses) and None not in paired and all(numbers[outermost(each.op)] > last for each in others)


def share_results(module: ir.Module) -> None:
    """Replace large buffers by results of the same type where possible, in place."""
    for function in module.body.operations:
        if function.operation.name == "func.func" and len(function.regions[0].blocks) == 1:
            results = [StoredResult.of(argument) for argument in function.regions[0].blocks[0].arguments]
            share_among(function.operation, [result for result in results if result is not None])


def share_among(function: ir.Operation, results: list[StoredResult]) -> None:
    """Replace buffers of a function by results, the latest first, at most one per result, as it is loaded then."""
    if not results:
        return
    steps = Steps.of(function)
    for alloc in reversed(steps.allocs):
        target = next((result for result in results if result.may_hold(alloc.results[0], steps.numbers)), None)
        if target is not None:
            if isinstance(target.value.owner, ir.Operation | ir.OpView):
                target.value.owner.move_before(function.regions[0].blocks[0].operations[0])
            alloc.results[0].replace_all_uses_with(target.value)
            alloc.erase()
            results.remove(target)


def reshaped(argument: ir.Value) -> ir.Value:
    """Return the static reshape of an argument that is its only use; the argument itself if there is none."""
    users = [use.owner.operation for use in argument.uses]
    if len(users) != 1 or users[0].name not in RESHAPES or len(users[0].operands) > 1:
        return argument
    return users[0].results[0]


def is_large(mlir_type: ir.Type) -> bool:
    """Return whether a type is a static memref of at least `LEAST_BYTES`."""
    if not isinstance(mlir_type, ir.MemRefType) or DYNAMIC in mlir_type.shape:
        return False
    return bytes_of_row(prod(mlir_type.shape), mlir_type) >= LEAST_BYTES


def follows(store: RowAccess, load: RowAccess, numbers: dict[ir.Operation, int]) -> bool:
    """Return whether a store overwrites the elements of an earlier load in the same iteration of all loops."""
    same = (store.indices, store.elements, store.op.block) == (load.indices, load.elements, load.op.block)
    return not load.stores and same and numbers[store.op] > numbers[load.op]


def outermost(op: ir.Operation) -> ir.Operation:
    """Return the ancestor of an op, or itself, in the function's entry block."""
    chain = [op, *parents(op)]
    return chain[-2]


def accesses(array: ir.Value, begins: Sequence[Sum] = ()) -> Iterator[RowAccess]:
    """Yield all accesses of an array, through subviews of it.

    Args:
        array: Array or subview.
        begins: Offsets of the subview along each dimension; empty for the whole array.

    Raises:
        UnknownUseError: Unsupported user.
    """
    begins = begins or [({}, 0)] * array.type.rank
    for use in array.uses:
        op = use.owner.operation
        if op.name == VIEW:
            yield from accesses(op.results[0], begins_of_part(op, begins))
        elif op.name in LOADS + STORES and op.operands[first_operand(op)] == array:
            yield access(op, begins)
        else:
            raise UnknownUseError


def begins_of_part(cut: ir.Operation, begins: Sequence[Sum]) -> list[Sum]:
    """Return the offsets, along each dimension of an array, of a subview of a subview with offsets `begins`.

    Raises:
        UnknownUseError: The subview reduces the rank, is strided, or has dynamic sizes.
    """
    offsets, sizes, strides = static_slice(cut)
    if DYNAMIC in sizes or set(strides) != {1} or cut.results[0].type.rank != len(begins):
        raise UnknownUseError
    dynamic_offsets = iter(list(cut.operands)[1:])
    return [
        added(begin, linear(next(dynamic_offsets)) if offset == DYNAMIC else ({}, offset))
        for begin, offset in zip(begins, offsets, strict=True)
    ]


def added(one: Sum, other: Sum) -> Sum:
    """Add two linear combinations."""
    terms = {value: one[0].get(value, 0) + other[0].get(value, 0) for value in {**one[0], **other[0]}}
    return terms, one[1] + other[1]


def first_operand(op: ir.Operation) -> int:
    """Return the operand number of the array in a load or store."""
    return 1 if op.name in ("memref.store", "vector.store") else 0


def access(op: ir.Operation, begins: Sequence[Sum]) -> RowAccess:
    """Describe a load or store of a subview with offsets `begins`.

    Raises:
        UnknownUseError: A vector has several dimensions, or a non-constant mask.
    """
    number = first_operand(op) + 1
    index_operands = list(op.operands)[number : number + len(begins)]
    sums = [added(begin, linear(value)) for begin, value in zip(begins, index_operands, strict=True)]
    indices = tuple((frozenset(terms.items()), offset) for terms, offset in sums)
    if op.name.startswith("memref."):
        return RowAccess(op, indices, 1)
    value = op.results[0] if len(op.results) else op.operands[0 if op.name == "vector.store" else len(op.operands) - 1]
    if value.type.rank != 1:
        raise UnknownUseError
    if "masked" not in op.name:
        return RowAccess(op, indices, value.type.shape[0])
    mask = maker_named(op.operands[number + len(begins)], "vector.constant_mask")
    if mask is None:
        raise UnknownUseError
    (elements,) = ir.DenseI64ArrayAttr(mask.attributes["mask_dim_sizes"])
    return RowAccess(op, indices, elements)
