"""Dimensions of size 1: dropped, so that they stand between no two ops."""

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import linalg, tensor

from autotune.compiler.ir.module import every_op, run_passes
from autotune.compiler.ir.nests import indexing_maps
from autotune.compiler.ir.values import maker

PASSES = "builtin.module(func.func(linalg-fold-unit-extent-dims),canonicalize,cse)"
MOVES = ("linalg.transpose", "linalg.broadcast")
RESHAPES = ("tensor.expand_shape", "tensor.collapse_shape")
MATRIX = 2  # dimensions


def drop_unit_dimensions(module: ir.Module) -> None:
    """Let ops compute on what has no dimension of size 1, in place; the shapes of arguments stay.

        C[0, m, n] += A[0, m, k] * B[0, k, n]   ->   C[m, n] += A[m, k] * B[k, n]

    Importers keep a batch of one everywhere. Reshapes between an op with it and one without hide that the two are
    neighbours. A module stays as it is where a batch of one is what attention groups go by: in one with a single head.
    """
    ops = [op for op in every_op(module) if has_unit_dimension(op)]
    batches = [op for op in ops if op.name == "linalg.batch_matmul" and op.results[0].type.shape[0] == 1]
    if not ops or not all(is_stored(op.operands[1]) for op in batches):
        return
    for op in [op for op in ops if op.name in MOVES]:
        generalize(op)
    for op in batches:
        open_batch(op)
    run_passes(module, PASSES)


def has_unit_dimension(op: ir.Operation) -> bool:
    """Tell whether a structured op on tensors has an operand with a dimension of size 1."""
    if not op.name.startswith("linalg.") or not len(op.results):
        return False
    tensors = [value.type for value in op.operands if isinstance(value.type, ir.RankedTensorType)]
    return any(1 in kind.shape for kind in tensors)


def is_stored(value: ir.Value) -> bool:
    """Tell whether a value is an argument of two dimensions, moved about at most: a weight, and no activations."""
    made_by = maker(value)
    while made_by is not None and (made_by.name in (*MOVES, *RESHAPES) or is_move(made_by)):
        value = made_by.operands[0]
        made_by = maker(value)
    return made_by is not None and made_by.name == "bufferization.to_tensor" and len(value.type.shape) <= MATRIX


def is_move(op: ir.Operation) -> bool:
    """Tell whether an op is a generic one that computes nothing."""
    return op.name == "linalg.generic" and len(op.regions[0].blocks[0].operations) == 1 and len(op.operands) == 2


def open_batch(op: ir.Operation) -> None:
    """Make a product with a batch of one a plain one."""
    maps = [without_first(amap) for amap in indexing_maps(op)]
    with ir.InsertionPoint(op), op.location:
        a, b, c = (collapse(value) for value in op.operands)
        attributes = ir.ArrayAttr.get([ir.AffineMapAttr.get(amap) for amap in maps])
        plain = linalg.matmul(a, b, outs=[c], indexing_maps=attributes)
        kind = op.results[0].type
        whole = tensor.expand_shape(kind, plain, groups(len(kind.shape)), [], list(kind.shape))
    op.results[0].replace_all_uses_with(whole)
    op.erase()


def without_first(amap: ir.AffineMap) -> ir.AffineMap:
    """The map of an operand without the batch: its first loop, and its first dimension."""
    loops = [ir.AffineDimExpr.get(ir.AffineDimExpr(e).position - 1) for e in list(amap.results)[1:]]
    return ir.AffineMap.get(amap.n_dims - 1, 0, loops)


def collapse(value: ir.Value) -> ir.Value:
    """A tensor without its first dimension, which is 1."""
    kind = value.type
    flat = ir.RankedTensorType.get(kind.shape[1:], kind.element_type)
    return tensor.collapse_shape(flat, value, groups(len(kind.shape)))


def groups(rank: int) -> Sequence[Sequence[int]]:
    """Dimensions that belong together when the first two become one."""
    return [[0, 1], *([place] for place in range(2, rank))]


def generalize(op: ir.Operation) -> None:
    """Write a named op that moves elements about as a generic one, which upstream drops dimensions of."""
    maps = ir.ArrayAttr.get([ir.AffineMapAttr.get(amap) for amap in indexing_maps(op)])
    kind = op.results[0].type
    parallel = ir.ArrayAttr.get([ir.Attribute.parse("#linalg.iterator_type<parallel>")] * len(kind.shape))
    with ir.InsertionPoint(op), op.location:
        generic = linalg.GenericOp([kind], [op.operands[0]], [op.operands[1]], maps, parallel)
        block = generic.regions[0].blocks.append(*[kind.element_type] * 2, arg_locs=[op.location] * 2)
        with ir.InsertionPoint(block):
            linalg.yield_([block.arguments[0]])
    op.results[0].replace_all_uses_with(generic.results[0])
    op.erase()
