"""Simplify reductions to the fewest dimensions that they read and write.

Chained reductions become one over all of their dimensions, collapsed where these are adjacent:

    r[i] = max over j of x[i, j];  m = max over i of r[i]   ->   X = x, flat;  m = max over p of X[p]

Reduced dimensions that are kept with size 1 are dropped from the result:

    s[i, 0] = sum over j of x[i, j]   ->   t[i] = sum over j of x[i, j];  s = expand t
"""

from collections.abc import Sequence
from itertools import groupby

from mlir import ir

from autotune.compiler.ir.module import every_op, run_passes
from autotune.compiler.ir.nests import dimensions, indexing_maps, loop_nest
from autotune.compiler.ir.values import maker
from autotune.compiler.normalise.emit import copy_of_body, dims, flat, generic, unflat
from autotune.compiler.normalise.starts import reduced_by
from autotune.core.ops.op import LoopNest


def join_reductions(module: ir.Module) -> None:
    """Merge chains of reductions with the same combiner, in place."""
    for chain in chains_of(module):
        op = chain[-1]
        x, kept = chain[0].operands[0], kept_dims(chain)
        groups = [list(run) for _, run in groupby(range(len(x.type.shape)), kept.__contains__)]
        loops, left = dims(len(groups)), [at for at, group in enumerate(groups) if group[0] in kept]
        shape = op.results[0].type.shape
        reassociation = [[kept.index(d) for d in groups[at]] for at in left]
        maps = [ir.AffineMap.get_identity(len(groups)), ir.AffineMap.get(len(groups), 0, [loops[at] for at in left])]
        iterators = ["parallel" if at in left else "reduction" for at in range(len(groups))]
        with ir.InsertionPoint(op), op.location:
            into = flat(op.operands[1], reassociation)
            result = unflat(generic([flat(x, groups)], into, maps, iterators, copy_of_body(op)), reassociation, shape)
        op.results[0].replace_all_uses_with(result)
        for each in reversed(chain):
            each.erase()


def chains_of(module: ir.Module) -> list[list[ir.Operation]]:
    """Return the maximal chains of reductions with the same combiner, each reducing the result of the previous one."""
    chains, joined = list[list[ir.Operation]](), set[ir.Operation]()
    for op in reversed(list(every_op(module))):
        if op.name != "linalg.generic" or op in joined:
            continue
        chain = [op]
        while (first := reduced_before(chain[0])) is not None:
            chain.insert(0, first)
        if len(chain) > 1:
            chains.append(chain)
            joined.update(chain)
    return chains


def write_loops_only(module: ir.Module) -> None:
    """Let reductions write results whose dimensions are all loops, in place.

    Upstream `tile_reduction_using_for` aborts the process on any other.
    """
    changed = False
    for op in [op for op in every_op(module) if op.name == "linalg.generic"]:  # the body is erased with its operation
        nest = loop_nest(op)
        if nest is None or not keeps_reduced(op, nest):
            continue
        changed = True
        *maps, written = indexing_maps(op)
        *inputs, into = op.operands
        loop_dims = [at for at, loop in enumerate(dimensions(written)) if loop is not None]
        begins, ends = [0, *loop_dims[1:]], [*loop_dims[1:], len(written.results)]
        groups = [list(range(*bounds)) for bounds in zip(begins, ends, strict=True)]
        narrow = ir.AffineMap.get(written.n_dims, 0, [written.results[at] for at in loop_dims])
        with ir.InsertionPoint(op), op.location:
            result = generic(inputs, flat(into, groups), [*maps, narrow], nest.iterators, copy_of_body(op))
            op.results[0].replace_all_uses_with(unflat(result, groups, into.type.shape))
        op.erase()
    if changed:
        run_passes(module, "builtin.module(canonicalize,cse)")


def keeps_reduced(op: ir.Operation, nest: LoopNest) -> bool:
    """Return whether an operation is a reduction whose only result has unit dimensions that are no loops."""
    if len(op.results) != 1 or "reduction" not in nest.iterators or not op.results[0].type.has_static_shape:
        return False
    written, shape = indexing_maps(op)[-1].results, op.results[0].type.shape
    loops = [isinstance(e, ir.AffineDimExpr) for e in written]
    ones = [isinstance(e, ir.AffineConstantExpr) and size == 1 for e, size in zip(written, shape, strict=True)]
    return any(loops) and any(ones) and all(loop or one for loop, one in zip(loops, ones, strict=True))


def reduced_before(op: ir.Operation) -> ir.Operation | None:
    """Return the single-use reduction with the same combiner that another reduces further; `None` if there is none."""
    name = reduced_by(op)
    first = maker(op.operands[0]) if name else None
    if first is None or first.name != "linalg.generic" or reduced_by(first) != name:
        return None
    if len(list(first.results[0].uses)) != 1 or first.operands[0].type.element_type != op.results[0].type.element_type:
        return None
    return first if all(map(keeps_order, (first, op))) else None


def keeps_order(op: ir.Operation) -> bool:
    """Return whether a reduction reads its input by the identity map and keeps the order of parallel dimensions."""
    read, written = indexing_maps(op)
    kept = dimensions(written)
    return read == ir.AffineMap.get_identity(read.n_dims) and None not in kept and kept == sorted(filter_known(kept))


def filter_known(loops: list[int | None]) -> list[int]:
    """Return the loops that are not `None`."""
    return [loop for loop in loops if loop is not None]


def kept_dims(chain: Sequence[ir.Operation]) -> list[int]:
    """Return the dimensions of the input of the first reduction that remain after the last."""
    left, *more = (filter_known(dimensions(indexing_maps(op)[1])) for op in chain)
    for again in more:
        left = [left[d] for d in again]
    return left
