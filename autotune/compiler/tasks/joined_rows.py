"""Collapse the dimensions of a multi-dimensional reduction and of operations around it, so that a norm works on rows.

    m[n] = sum over h, w of x[n, h, w];  y[n, h, w] = x[n, h, w] - m[n]
      ->   X = collapse x;  m[n] = sum over p of X[n, p];  Y[n, p] = X[n, p] - m[n];  y = expand Y

Operations on rows become one fusion group, which reads each row once; on planes, each operation reads all of them. An
operation next to a product is left unchanged: a reshape would hide that it consumes the product.
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

INPUTS = (*RESHAPES, "bufferization.to_tensor", "arith.constant")
EMPTY = ("tensor.empty", "linalg.fill", "bufferization.alloc_tensor")


def join_reduced_rows(function: ir.OpView) -> None:
    """Collapse reduction dimensions of multi-dimensional reductions and operations around them, in place."""
    plans, planned = list[tuple[list[ir.Operation], Groups]](), set[ir.Operation]()
    for op in [op.operation for op, _ in structured_ops(function.regions[0].blocks[0])]:
        lead = kept_loops(op) if op not in planned else None
        if lead is not None:
            groups = [*([loop] for loop in range(lead)), list(range(lead, len(op.operands[0].type.shape)))]
            chain = [each for each in ops_around(op, groups) if each not in planned]
            planned.update(chain)
            plans.append((chain, groups))
    for chain, groups in plans:
        if sum(op.results[0].type.shape != chain[0].operands[0].type.shape for op in chain) > 1:
            join_all(chain, groups)


def kept_loops(op: ir.Operation) -> int | None:
    """Return the number of parallel loops of a reduction over the last two or more dimensions of its first operand.

    Returns:
        Number of loops; `None` for any other operation.
    """
    nest = loop_nest(op) if is_plain(op) else None
    if nest is None or not nest.is_known or "reduction" not in nest.iterators:
        return None
    lead, rank = nest.iterators.index("reduction"), len(nest.sizes)
    is_identity = indexing_maps(op)[0] == ir.AffineMap.get_identity(rank)
    several = set(nest.iterators[lead:]) == {"reduction"} and sum(size > 1 for size in nest.sizes[lead:]) > 1
    return lead if is_identity and several else None


def is_plain(op: ir.Operation) -> bool:
    """Return whether an operation is a `linalg.generic` of static shape with one result."""
    return op.name == "linalg.generic" and len(op.results) == 1 and bool(op.results[0].type.has_static_shape)


def ops_around(first: ir.Operation, groups: Groups) -> list[ir.Operation]:
    """Return a reduction and the operations connected to it by tensors of its input shape, in program order."""
    shape, connected, worklist = list(first.operands[0].type.shape), list[ir.Operation](), [first]
    while worklist:
        op = worklist.pop()
        if op in connected or not goes_over(op, shape, groups):
            continue
        connected.append(op)
        for value in (*op.operands, *op.results):
            if list(getattr(value.type, "shape", [])) == shape:
                worklist += neighbours(value)
    block = list(first.parent.regions[0].blocks[0].operations)
    order = {op.operation: number for number, op in enumerate(block)}
    return sorted(connected, key=lambda op: order[op])


def neighbours(value: ir.Value) -> Iterator[ir.Operation]:
    """Return the structured operations that define or use a tensor."""
    producer = maker(value)
    ops = [*([producer] if producer is not None else []), *(use.owner.operation for use in value.uses)]
    return (op for op in ops if is_plain(op))


def goes_over(op: ir.Operation, shape: Sequence[int], groups: Groups) -> bool:
    """Return whether an operation loops over all dimensions, reduces the last group or none, and follows no product."""
    nest, maps = loop_nest(op), indexing_maps(op)
    if nest is None or list(nest.sizes) != list(shape) or any(collapsed(amap, groups) is None for amap in maps):
        return False
    lead = len(groups) - 1
    if nest.iterators[:lead] != ("parallel",) * lead or len(set(nest.iterators[lead:])) != 1:
        return False
    names = {inner.operation.name for inner in op.regions[0].blocks[0].operations}
    is_plain_body = not names & {"linalg.index", "tensor.extract"} and all(map(is_simple, op.operands))
    reduces = "reduction" in nest.iterators
    return is_plain_body and (reduces or all(reads_elements(use.owner.operation) for use in op.results[0].uses))


def is_simple(value: ir.Value) -> bool:
    """Return whether a tensor is an argument, constant, empty, filled, or computed without sliding windows."""
    producer = maker(value)
    return producer is None or producer.name in {*INPUTS, *EMPTY} or is_of_elements(producer)


def is_of_elements(op: ir.Operation) -> bool:
    """Return whether an operation reads its first operand by a permutation map, that is, without sliding windows."""
    maps = indexing_maps(op) if is_plain(op) else []
    return bool(maps) and bool(maps[0].is_permutation)


def reads_elements(op: ir.Operation) -> bool:
    """Return whether an operation reads a tensor element by element, reshapes it, or writes it as a result."""
    return op.name in {*RESHAPES, "bufferization.materialize_in_destination"} or is_of_elements(op)


def join_all(ops: Sequence[ir.Operation], groups: Groups) -> None:
    """Replace operations by ones with collapsed loops, and erase them."""
    loops = dims(len(groups))
    merged: dict[ir.Operation | None, ir.Value] = {}
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
            operands = [merged.get(maker(value)) or joined(value, parts) for value, (_, parts) in pairs]
            result = generic(operands[:-1], operands[-1], new_maps, iterators, copy_of_body(op))
            expanded = unflat(result, reads[-1][1], shape)
        op.results[0].replace_all_uses_with(expanded)
        merged[maker(expanded)] = result
    for op in reversed(ops):
        op.erase()
    for expanded in merged:
        if expanded is not None and expanded.name == "tensor.expand_shape" and not list(expanded.results[0].uses):
            expanded.erase()


def joined(value: ir.Value, parts: Groups) -> ir.Value:
    """Collapse groups of dimensions of a tensor; a new empty tensor if it is one."""
    producer = maker(value)
    if producer is None or producer.name != "tensor.empty":
        return flat(value, parts)
    return tensor.empty([prod(value.type.shape[d] for d in part) for part in parts], value.type.element_type)
