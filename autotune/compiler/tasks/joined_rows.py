"""Ops around a reduction of several dimensions go over these as one: a norm over planes is one over rows.

    m[n] = sum over h, w of x[n, h, w];  y[n, h, w] = x[n, h, w] - m[n]
      ->   X = collapse x;  m[n] = sum over p of X[n, p];  Y[n, p] = X[n, p] - m[n];  y = expand Y

Ops of rows become one group, which reads each row once; of planes each op reads all of them. An op beside a product is
left as it is: a reshape would hide that it follows it.
"""

from collections.abc import Iterator, Sequence
from math import prod

from mlir import ir
from mlir.dialects import tensor

from autotune.compiler.ir.nests import indexing_maps, loop_nest, structured_ops
from autotune.compiler.ir.values import maker
from autotune.compiler.normalise.emit import copy_of_body, dims, flat, generic, unflat
from autotune.compiler.normalise.shapes.dimensions import RESHAPES
from autotune.compiler.normalise.shapes.products import Groups, collapsed

GIVEN = (*RESHAPES, "bufferization.to_tensor", "arith.constant")
EMPTY = ("tensor.empty", "linalg.fill", "bufferization.alloc_tensor")


def join_reduced_rows(function: ir.OpView) -> None:
    """Join the dimensions that several reductions go over, and that ops around them go over with them; in place."""
    found, planned = list[tuple[list[ir.Operation], Groups]](), set[ir.Operation]()
    for op in [op.operation for op, _ in structured_ops(function.regions[0].blocks[0])]:
        lead = kept_loops(op) if op not in planned else None
        if lead is not None:
            groups = [*([loop] for loop in range(lead)), list(range(lead, len(op.operands[0].type.shape)))]
            around = [each for each in ops_around(op, groups) if each not in planned]
            planned.update(around)
            found.append((around, groups))
    for around, groups in found:
        if sum(op.results[0].type.shape != around[0].operands[0].type.shape for op in around) > 1:
            join_all(around, groups)


def kept_loops(op: ir.Operation) -> int | None:
    """Loops that a reduction keeps, where it goes over two or more, the last ones, of its first operand."""
    nest = loop_nest(op) if is_plain(op) else None
    if nest is None or not nest.is_known or "reduction" not in nest.iterators:
        return None
    lead, rank = nest.iterators.index("reduction"), len(nest.sizes)
    whole = indexing_maps(op)[0] == ir.AffineMap.get_identity(rank)
    several = set(nest.iterators[lead:]) == {"reduction"} and sum(size > 1 for size in nest.sizes[lead:]) > 1
    return lead if whole and several else None


def is_plain(op: ir.Operation) -> bool:
    """Tell whether an op is a generic one of known sizes with one result."""
    return op.name == "linalg.generic" and len(op.results) == 1 and bool(op.results[0].type.has_static_shape)


def ops_around(first: ir.Operation, groups: Groups) -> list[ir.Operation]:
    """A reduction and ops that it shares tensors of all its dimensions with, in the order in which they stand."""
    shape, found, waiting = list(first.operands[0].type.shape), list[ir.Operation](), [first]
    while waiting:
        op = waiting.pop()
        if op in found or not goes_over(op, shape, groups):
            continue
        found.append(op)
        for value in (*op.operands, *op.results):
            if list(getattr(value.type, "shape", [])) == shape:
                waiting += neighbours(value)
    block = list(first.parent.regions[0].blocks[0].operations)
    order = {op.operation: number for number, op in enumerate(block)}
    return sorted(found, key=lambda op: order[op])


def neighbours(value: ir.Value) -> Iterator[ir.Operation]:
    """Structured ops that make or read a tensor."""
    made_by = maker(value)
    found = [*([made_by] if made_by is not None else []), *(use.owner.operation for use in value.uses)]
    return (op for op in found if is_plain(op))


def goes_over(op: ir.Operation, shape: Sequence[int], groups: Groups) -> bool:
    """Tell whether an op goes over all dimensions, reduces the last group of them or none, and follows no product."""
    nest, maps = loop_nest(op), indexing_maps(op)
    if nest is None or list(nest.sizes) != list(shape) or any(collapsed(amap, groups) is None for amap in maps):
        return False
    lead = len(groups) - 1
    if nest.iterators[:lead] != ("parallel",) * lead or len(set(nest.iterators[lead:])) != 1:
        return False
    names = {inner.operation.name for inner in op.regions[0].blocks[0].operations}
    plain = not names & {"linalg.index", "tensor.extract"} and all(map(is_simple, op.operands))
    reduces = "reduction" in nest.iterators
    return plain and (reduces or all(reads_elements(use.owner.operation) for use in op.results[0].uses))


def is_simple(value: ir.Value) -> bool:
    """Tell whether a tensor is given, empty, filled, or made by an op that goes over elements or reduces them."""
    made_by = maker(value)
    return made_by is None or made_by.name in {*GIVEN, *EMPTY} or is_of_elements(made_by)


def is_of_elements(op: ir.Operation) -> bool:
    """Tell whether an op goes over all elements of its first operand, one after the other, and over no windows."""
    maps = indexing_maps(op) if is_plain(op) else []
    return bool(maps) and bool(maps[0].is_permutation)


def reads_elements(op: ir.Operation) -> bool:
    """Tell whether an op reads a tensor element by element, gives it another shape, or writes it as a result."""
    return op.name in {*RESHAPES, "bufferization.materialize_in_destination"} or is_of_elements(op)


def join_all(ops: Sequence[ir.Operation], groups: Groups) -> None:
    """Write ops with groups of their loops as one each; erases them."""
    loops = dims(len(groups))
    made: dict[ir.Operation | None, ir.Value] = {}
    for op in ops:
        nest, maps = loop_nest(op), indexing_maps(op)
        if nest is None:
            continue
        reads = [read for amap in maps if (read := collapsed(amap, groups)) is not None]
        iterators = [nest.iterators[group[0]] for group in groups]
        new_maps = [ir.AffineMap.get(len(groups), 0, [loops[d] for d in read]) for read, _ in reads]
        shape = op.results[0].type.shape
        with ir.InsertionPoint(op), op.location:
            pairs = zip(op.operands, reads, strict=True)
            taken = [made.get(maker(value)) or joined(value, parts) for value, (_, parts) in pairs]
            result = generic(taken[:-1], taken[-1], new_maps, iterators, copy_of_body(op))
            whole = unflat(result, reads[-1][1], shape)
        op.results[0].replace_all_uses_with(whole)
        made[maker(whole)] = result
    for op in reversed(ops):
        op.erase()
    for whole in made:
        if whole is not None and whole.name == "tensor.expand_shape" and not list(whole.results[0].uses):
            whole.erase()


def joined(value: ir.Value, parts: Groups) -> ir.Value:
    """A tensor with groups of its dimensions as one each; of one that holds nothing, another such."""
    made_by = maker(value)
    if made_by is None or made_by.name != "tensor.empty":
        return flat(value, parts)
    return tensor.empty([prod(value.type.shape[d] for d in part) for part in parts], value.type.element_type)
