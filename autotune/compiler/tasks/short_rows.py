"""Collapse loops of element-wise operations with short rows: rows of 3 would fill 3 vector lanes.

    y[a, b, c, 3] = f(x[a, b, c, 3], s[a])   ->   Y[a, p] = f(X[a, p], s[a]);  y = expand Y

A reshape would hide that an operation consumes a product, so only operations between arguments and results are changed.
"""

from collections.abc import Sequence
from math import prod

from mlir import ir
from mlir.dialects import tensor

from autotune.compiler.ir.nests import indexing_maps, structured_ops
from autotune.compiler.ir.values import maker
from autotune.compiler.normalise.convolution.channels_last import is_elementwise
from autotune.compiler.normalise.emit import copy_of_body, dims, flat, generic, unflat
from autotune.compiler.normalise.shapes.dimensions import RESHAPES
from autotune.compiler.normalise.shapes.products import Groups, collapsed
from autotune.compiler.tasks.elementwise import bits_of

SHORT = 256  # elements of a row; in longer rows, the remainder after whole vectors is negligible
VECTOR = 64  # bytes that rows of every operand should be a multiple of


def join_short_rows(function: ir.OpView) -> None:
    """Collapse loops of isolated element-wise operations, innermost first, until rows are whole vectors, in place.

    Loops with a trip count of 1 are dropped.
    """
    for op in [op.operation for op, _ in structured_ops(function.regions[0].blocks[0])]:
        if not is_alone(op) or not is_elementwise(op):
            continue
        shape, maps = list(op.results[0].type.shape), indexing_maps(op)
        groups = joined_loops(shape, maps, VECTOR // narrowest(op))
        if len(groups) < len(shape):
            join(op, [read for amap in maps if (read := collapsed(amap, groups)) is not None], groups)


def is_alone(op: ir.Operation) -> bool:
    """Return whether an operation reads only arguments and constants, and only writes results of the function."""
    if op.name != "linalg.generic" or len(op.results) != 1 or not op.results[0].type.has_static_shape:
        return False
    written = (*RESHAPES, "bufferization.materialize_in_destination")
    return all(use.owner.name in written for use in op.results[0].uses) and all(map(is_input, op.operands[:-1]))


def is_input(value: ir.Value) -> bool:
    """Return whether a value is an argument or constant, possibly reshaped."""
    producer = maker(value)
    while producer is not None and producer.name in RESHAPES:
        producer = maker(producer.operands[0])
    return producer is None or producer.name in {"bufferization.to_tensor", "arith.constant"}


def narrowest(op: ir.Operation) -> int:
    """Return the smallest element size of the operands in bytes, at least 1."""
    element_types = [
        ir.ShapedType(value.type).element_type for value in op.operands if isinstance(value.type, ir.ShapedType)
    ]
    return max(1, min(bits_of(kind) for kind in element_types) // 8)


def joined_loops(shape: Sequence[int], maps: Sequence[ir.AffineMap], whole: int) -> Groups:
    """Return groups of loops to collapse, without unit loops; every loop alone if an operand does not allow it.

    Args:
        shape: Trip counts.
        maps: Indexing maps of the operands.
        whole: Number of elements that rows should be a multiple of.
    """
    groups: Groups = [[loop] for loop, size in enumerate(shape) if size > 1]
    if not groups or not allow(maps, groups):
        return [[loop] for loop in range(len(shape))]
    short = shape[groups[-1][0]] < SHORT
    while short and len(groups) > 1 and prod(shape[d] for d in groups[-1]) % whole:
        joined = [*groups[:-2], groups[-2] + groups[-1]]
        if not allow(maps, joined):
            break
        groups = joined
    return groups


def allow(maps: Sequence[ir.AffineMap], groups: Groups) -> bool:
    """Return whether all operands can be collapsed along groups of loops."""
    return all(collapsed(amap, groups) is not None for amap in maps)


def join(op: ir.Operation, reads: Sequence[tuple[list[int], Groups]], groups: Groups) -> None:
    """Replace an operation by one with collapsed loops.

    Args:
        op: Operation; it is erased.
        reads: Collapsed access of each operand, as returned by `collapsed`.
        groups: Groups of loops.
    """
    loops, into = dims(len(groups)), op.results[0].type
    maps = [ir.AffineMap.get(len(groups), 0, [loops[d] for d in read]) for read, _ in reads]
    sizes = [prod(into.shape[d] for d in group) for group in groups]
    with ir.InsertionPoint(op), op.location:
        inputs = [flat(value, parts) for value, (_, parts) in zip(op.operands[:-1], reads, strict=False)]
        empty = tensor.empty(sizes, into.element_type)
        result = generic(inputs, empty, maps, ["parallel"] * len(groups), copy_of_body(op))
        op.results[0].replace_all_uses_with(unflat(result, reads[-1][1], into.shape))
    op.erase()
