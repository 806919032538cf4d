"""Intermediates that lie in a result until that is written: softmax of a long row goes through two arrays, not three.

    b[i] = exp(x[i]);  s = sum of b;  y[i] = b[i] / s     ->     y[i] = exp(x[i]);  s = sum of y;  y[i] = y[i] / s

A buffer lies there where whoever reads it once the result is being written writes each element of the result in the
place that it has just read. Of an array that neither is, all elements are written, each once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from mlir import ir

from autotune.compiler.ir.values import is_constant, maker, static_slice, trip_count
from autotune.compiler.ir.views import DYNAMIC
from autotune.compiler.passes.block_copies import bytes_of_row
from autotune.compiler.passes.lifetimes import Steps
from autotune.compiler.passes.loads import VIEW, linear
from autotune.compiler.passes.marked_loops import parents
from autotune.compiler.passes.zeros import BOUNDS

LEAST_BYTES = 1 << 17  # of a buffer: smaller ones stay in L2 beside the result, which begins anywhere in a line
LOADS, STORES = (
    ("memref.load", "vector.load", "vector.maskedload"),
    ("memref.store", "vector.store", "vector.maskedstore"),
)
Sum = tuple[dict[ir.Value, int], int]  # values, each so many times, and a number
Place = tuple[tuple[frozenset[tuple[ir.Value, int]], int], ...]  # such sums, one a dimension


class UnknownUseError(Exception):
    """An array is used in a way that is not looked into."""


@dataclass(frozen=True)
class RowAccess:
    """One op that loads or stores elements that lie side by side.

    Attributes:
        op: The op.
        place: Place of the first of them.
        elements: How many they are.
    """

    op: ir.Operation
    place: Place
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


def share_results(module: ir.Module) -> None:
    """Let large buffers lie in results of the same type where they may, in place."""
    for function in module.body.operations:
        if function.operation.name != "func.func" or len(function.regions[0].blocks) != 1:
            continue
        results = [argument for argument in function.regions[0].blocks[0].arguments if is_large(argument.type)]
        if results:
            share_among(results, Steps.of(function.operation))


def share_among(results: Sequence[ir.Value], steps: Steps) -> None:
    """Let buffers of a function, the latest first, lie in results."""
    for alloc in reversed(steps.allocs):
        buffer = alloc.results[0]
        alike = (result for result in results if result.type == buffer.type)
        found = next((result for result in alike if may_lie_in(buffer, result, steps.numbers)), None)
        if found is not None:
            buffer.replace_all_uses_with(found)
            alloc.erase()


def is_large(kind: ir.Type) -> bool:
    """Tell whether a type is of arrays that take many bytes."""
    if not isinstance(kind, ir.MemRefType) or DYNAMIC in kind.shape:
        return False
    return bytes_of_row(prod(kind.shape), kind) >= LEAST_BYTES


def may_lie_in(buffer: ir.Value, result: ir.Value, numbers: dict[ir.Operation, int]) -> bool:
    """Tell whether a buffer may lie in a result of the same type."""
    try:
        mine, written = list(accesses(buffer)), list(accesses(result))
        count = sum(each.elements * each.times for each in written)
    except UnknownUseError:
        return False
    if not written or not all(each.stores for each in written) or count != prod(result.type.shape):
        return False
    first = min(numbers[outermost(each.op)] for each in written)
    late = [each for each in mine if numbers[outermost(each.op)] >= first]
    paired = [next((s for s in written if follows(s, each, numbers)), None) for each in late]
    others = [each for each in written if each not in paired]
    last = max((numbers[outermost(each.op)] for each in late), default=first)
    return bool(late) and None not in paired and all(numbers[outermost(each.op)] > last for each in others)


def follows(store: RowAccess, load: RowAccess, numbers: dict[ir.Operation, int]) -> bool:
    """Tell whether a store writes what a load before it has read, in the same step of all loops."""
    same = (store.place, store.elements, store.op.block) == (load.place, load.elements, load.op.block)
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
    places = list(op.operands)[number : number + len(begins)]
    sums = [added(begin, linear(value)) for begin, value in zip(begins, places, strict=True)]
    place = tuple((frozenset(terms.items()), offset) for terms, offset in sums)
    if op.name.startswith("memref."):
        return RowAccess(op, place, 1)
    value = op.results[0] if len(op.results) else op.operands[0 if op.name == "vector.store" else len(op.operands) - 1]
    if value.type.rank != 1:
        raise UnknownUseError
    if "masked" not in op.name:
        return RowAccess(op, place, value.type.shape[0])
    mask = maker(op.operands[number + len(begins)])
    if mask is None or mask.name != "vector.constant_mask":
        raise UnknownUseError
    (elements,) = ir.DenseI64ArrayAttr(mask.attributes["mask_dim_sizes"])
    return RowAccess(op, place, elements)
