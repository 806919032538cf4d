"""Intermediates that lie in a result until that is written: softmax of a long row goes through two arrays, not three.

    b[i] = exp(x[i]);  s = sum of b;  y[i] = b[i] / s     ->     y[i] = exp(x[i]);  s = sum of y;  y[i] = y[i] / s

A buffer lies in a result if every op that reads it from the first store of the result on then stores to the indices
that it has read, and the stores of the result write as many elements as it has: all of them, each once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from mlir import ir

from autotune.compiler.ir.values import is_constant, maker_named, static_slice, trip_count
from autotune.compiler.ir.views import DYNAMIC
from autotune.compiler.passes.block_copies import bytes_of_row
from autotune.compiler.passes.lifetimes import Steps
from autotune.compiler.passes.loads import VIEW, linear
from autotune.compiler.passes.marked_loops import parents
from autotune.compiler.passes.zeros import BOUNDS

LEAST_BYTES = 1 << 17  # of a buffer: smaller ones stay in L2 beside the result, which begins anywhere in a line
LOADS = ("memref.load", "vector.load", "vector.maskedload")
STORES = ("memref.store", "vector.store", "vector.maskedstore")
Sum = tuple[dict[ir.Value, int], int]  # values, each so many times, and a number
Indices = tuple[tuple[frozenset[tuple[ir.Value, int]], int], ...]  # such sums, one a dimension


class UnknownUseError(Exception):
    """An array is used in a way that is not looked into."""


@dataclass(frozen=True)
class RowAccess:
    """One op that loads or stores elements that lie side by side.

    Attributes:
        op: The op.
        indices: Indices of the first of them.
        elements: How many they are.
    """

    op: ir.Operation
    indices: Indices
    elements: int

    @property
    def stores(self) -> bool:
        """Whether it writes."""
        return self.op.name in STORES

    @property
    def times(self) -> int:
        """How often the op is run.

        Raises:
            UnknownUseError: Something else is around it than loops with constant bounds.
        """
        loops = list(parents(self.op))[:-1]
        if any(loop.name != "scf.for" or not all(map(is_constant, list(loop.operands)[:BOUNDS])) for loop in loops):
            raise UnknownUseError
        return prod(map(trip_count, loops))


@dataclass(frozen=True)
class StoredResult:
    """A large argument of a function that is stored to as a whole, and never loaded.

    Attributes:
        value: The argument.
        stores: All of its stores.
    """

    value: ir.Value
    stores: tuple[RowAccess, ...]

    @classmethod
    def of(cls, argument: ir.Value) -> "StoredResult | None":
        """An argument, if it is such a result."""
        try:
            found = tuple(accesses(argument)) if is_large(argument.type) else ()
            count = sum(each.elements * each.times for each in found) if all(each.stores for each in found) else 0
        except UnknownUseError:
            return None
        return cls(argument, found) if found and count == prod(argument.type.shape) else None

    def may_hold(self, buffer: ir.Value, numbers: dict[ir.Operation, int]) -> bool:
        """Tell whether a buffer may lie in it."""
        if buffer.type != self.value.type:
            return False
        first = min(numbers[outermost(each.op)] for each in self.stores)
        try:
            late = [each for each in accesses(buffer) if numbers[outermost(each.op)] >= first]
        except UnknownUseError:
            return False
        paired = [next((s for s in self.stores if follows(s, each, numbers)), None) for each in late]
        others = [each for each in self.stores if each not in paired]
        last = max((numbers[outermost(each.op)] for each in late), default=first)
        return bool(late) and None not in paired and all(numbers[outermost(each.op)] > last for each in others)


def share_results(module: ir.Module) -> None:
    """Let large buffers lie in results of the same type where they may, in place."""
    for function in module.body.operations:
        if function.operation.name == "func.func" and len(function.regions[0].blocks) == 1:
            results = [StoredResult.of(argument) for argument in function.regions[0].blocks[0].arguments]
            share_among(function.operation, [result for result in results if result is not None])


def share_among(function: ir.Operation, results: list[StoredResult]) -> None:
    """Let buffers of a function, the latest first, lie in results: one in each, which is then loaded, too."""
    if not results:
        return
    steps = Steps.of(function)
    for alloc in reversed(steps.allocs):
        held = next((result for result in results if result.may_hold(alloc.results[0], steps.numbers)), None)
        if held is not None:
            alloc.results[0].replace_all_uses_with(held.value)
            alloc.erase()
            results.remove(held)


def is_large(kind: ir.Type) -> bool:
    """Tell whether a type is of arrays that take many bytes."""
    if not isinstance(kind, ir.MemRefType) or DYNAMIC in kind.shape:
        return False
    return bytes_of_row(prod(kind.shape), kind) >= LEAST_BYTES


def follows(store: RowAccess, load: RowAccess, numbers: dict[ir.Operation, int]) -> bool:
    """Tell whether a store writes what a load before it has read, in the same step of all loops."""
    same = (store.indices, store.elements, store.op.block) == (load.indices, load.elements, load.op.block)
    return not load.stores and same and numbers[store.op] > numbers[load.op]


def outermost(op: ir.Operation) -> ir.Operation:
    """The op of a function's own block that an op is, or is in."""
    around = [op, *parents(op)]
    return around[-2]


def accesses(array: ir.Value, begins: Sequence[Sum] = ()) -> Iterator[RowAccess]:
    """All accesses of an array, through parts of it.

    Args:
        array: The array, or a part.
        begins: First element of the part along each dimension; empty for all of the array.

    Raises:
        UnknownUseError: Another op uses it.
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
    """First element, along each dimension of an array, of a part of a part of it that begins so.

    Raises:
        UnknownUseError: The part has fewer dimensions, or leaves elements out.
    """
    offsets, sizes, strides = static_slice(cut)
    if DYNAMIC in sizes or set(strides) != {1} or cut.results[0].type.rank != len(begins):
        raise UnknownUseError
    given = iter(list(cut.operands)[1:])
    return [
        added(begin, linear(next(given)) if offset == DYNAMIC else ({}, offset))
        for begin, offset in zip(begins, offsets, strict=True)
    ]


def added(one: Sum, other: Sum) -> Sum:
    """The sum of two sums."""
    terms = {value: one[0].get(value, 0) + other[0].get(value, 0) for value in {**one[0], **other[0]}}
    return terms, one[1] + other[1]


def first_operand(op: ir.Operation) -> int:
    """Which operand of a load or store is the array."""
    return 1 if op.name in ("memref.store", "vector.store") else 0


def access(op: ir.Operation, begins: Sequence[Sum]) -> RowAccess:
    """A load or a store, of a part that begins so.

    Raises:
        UnknownUseError: A vector has several dimensions, or an unknown mask.
    """
    number = first_operand(op) + 1
    given = list(op.operands)[number : number + len(begins)]
    sums = [added(begin, linear(value)) for begin, value in zip(begins, given, strict=True)]
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
