"""Dimensions: those of size 1 are dropped, and transposed or reshaped values are read and written where they lie.

Dimensions of size 1 so stand between no two ops. Transposed operands of products are not transposed in every call.
Results that are reshaped last are written where they are wanted, not copied there as another shape:

    x = f(..);  materialize (expand_shape x) in out     ->   x = f(..);  materialize x in (collapse_shape out)
    x = f(..);  materialize (collapse_shape x) in out   ->   x = f(..);  materialize x in (expand_shape out)

Upstream writes to where a result is wanted instead of to an empty tensor, and sees none behind a reshape: one that is
reshaped is empty in that shape.
"""

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import bufferization, linalg, memref, tensor

from autotune.compiler.ir.module import every_op, run_passes
from autotune.compiler.ir.nests import dimensions, indexing_maps, loop_nest, moves_elements, read_index
from autotune.compiler.ir.values import maker, reassociation
from autotune.compiler.normalise.emit import copy_of_body, flat, generic, part_read, unflat

PASSES = "builtin.module(func.func(linalg-fold-unit-extent-dims),canonicalize,cse)"
MOVES = ("linalg.transpose", "linalg.broadcast")
RESHAPES = ("tensor.expand_shape", "tensor.collapse_shape")
VIEWS = (*RESHAPES, "tensor.cast")  # what shows all elements of a tensor as another type
MATRIX = 2  # dimensions


def drop_unit_dimensions(module: ir.Module) -> None:
    """Let ops compute on what has no dimension of size 1, in place; the shapes of arguments stay.

        C[0, m, n] += A[0, m, k] * B[0, k, n]   ->   C[m, n] += A[m, k] * B[k, n]

    Importers keep a batch of one everywhere. Reshapes between an op with it and one without hide that the two are
    neighbours. A module stays as it is where a batch of one is what attention groups go by: in one with a single head.
    Windows with steps may leave a rest of what they read, which upstream does not expect of those of one tap.
    """
    ops = [op for op in every_op(module) if has_unit_dimension(op)]
    batches = [op for op in ops if op.name == "linalg.batch_matmul" and op.results[0].type.shape[0] == 1]
    if not ops or not all(is_stored(op.operands[1]) for op in batches):
        return
    for op in [op for op in ops if op.name in MOVES or follows_window(op)]:
        generalize(op)
    for op in batches:
        open_batch(op)
    for op in [op for op in every_op(module) if op.name == "linalg.generic" and len(op.results)]:
        read_parts(op)
    run_passes(module, PASSES)


def has_unit_dimension(op: ir.Operation) -> bool:
    """Tell whether a structured op on tensors has an operand with a dimension of size 1."""
    if not op.name.startswith("linalg.") or not len(op.results):
        return False
    tensors = [value.type for value in op.operands if isinstance(value.type, ir.RankedTensorType)]
    return any(1 in kind.shape for kind in tensors)


def read_parts(op: ir.Operation) -> None:
    """Let an op that has loops of one step read no more of its operands than its windows reach, in place."""
    nest = loop_nest(op)
    if nest is None or not nest.is_known or 1 not in nest.sizes:
        return
    for number, amap in enumerate(indexing_maps(op)[: -len(op.results)]):
        indices = [read_index(each) for each in amap.results if not isinstance(each, ir.AffineDimExpr)]
        if not any(nest.sizes[loop] == 1 for index in indices for loop, _ in index.terms):
            continue
        if all(not index.parts and all(by > 0 for _, by in index.terms) for index in indices):
            with ir.InsertionPoint(op), op.location:
                op.operands[number] = part_read(op.operands[number], amap, nest.sizes)


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
        a, b, c = (flat(value, groups(value.type.rank)) for value in op.operands)
        attributes = ir.ArrayAttr.get([ir.AffineMapAttr.get(amap) for amap in maps])
        plain = linalg.matmul(a, b, outs=[c], indexing_maps=attributes)
        whole = unflat(plain, groups(op.results[0].type.rank), op.results[0].type.shape)
    op.results[0].replace_all_uses_with(whole)
    op.erase()


def without_first(amap: ir.AffineMap) -> ir.AffineMap:
    """The map of an operand without the batch: its first loop, and its first dimension."""
    loops = [ir.AffineDimExpr.get(ir.AffineDimExpr(e).position - 1) for e in list(amap.results)[1:]]
    return ir.AffineMap.get(amap.n_dims - 1, 0, loops)


def groups(rank: int) -> Sequence[Sequence[int]]:
    """Dimensions that belong together when the first two become one."""
    return [[0, 1], *([index] for index in range(2, rank))]


def generalize(op: ir.Operation) -> None:
    """Write a named op, or a map, as a generic one of the same body, which upstream drops dimensions of."""
    *inputs, into = op.operands
    with ir.InsertionPoint(op), op.location:
        plain = generic(inputs, into, indexing_maps(op), ["parallel"] * len(into.type.shape), copy_of_body(op))
    op.results[0].replace_all_uses_with(plain)
    op.erase()


def is_named_elementwise(op: ir.Operation) -> bool:
    """Tell whether a named op, or a map, computes each element of its result of single elements of its inputs."""
    if op.name in ("linalg.generic", "linalg.fill", *MOVES) or not indexing_maps(op) or len(op.results) != 1:
        return False
    *read, written = indexing_maps(op)
    loops = list(range(written.n_dims))
    return dimensions(written) == loops and all(None not in dimensions(amap) for amap in read)


def follows_window(op: ir.Operation) -> bool:
    """Tell whether a named element-wise op reads what windows give, maybe through others of its kind."""
    if not is_named_elementwise(op):
        return False
    makers = [made_by for value in list(op.operands)[:-1] if (made_by := maker(value)) is not None]
    slides = any(None in dimensions(amap) for made_by in makers for amap in indexing_maps(made_by))
    return slides or any(map(follows_window, makers))


def read_in_place(module: ir.Module) -> None:
    """Let products read operands of which the last two dimensions are swapped from before the swap, in place.

        T[k, n] = W[n, k];  C[m, n] += A[m, k] * T[k, n]   ->   C[m, n] += A[m, k] * W[n, k]

    A weight is then seen as one, and may be stored as its product reads it.
    """
    changed = False
    for op in every_op(module):
        if op.name.startswith("linalg.") and len(op.results) == 1 and linalg.isa_contraction_op(op):
            for number in (0, 1):
                changed |= read_before_swap(op, number)
    if changed:
        run_passes(module, "builtin.module(canonicalize,cse)")


def read_before_swap(op: ir.Operation, number: int) -> bool:
    """Let an operand of a product be read before the swap that makes it; tells whether there is one."""
    made_by, maps = maker(op.operands[number]), indexing_maps(op)
    if made_by is None or not swaps_last(made_by):
        return False
    amap = maps[number]
    *lead, first, second = amap.results
    maps[number] = ir.AffineMap.get(amap.n_dims, 0, [*lead, second, first])
    op.operands[number] = made_by.operands[0]
    op.attributes["indexing_maps"] = ir.ArrayAttr.get([ir.AffineMapAttr.get(each) for each in maps])
    return True


def swaps_last(op: ir.Operation) -> bool:
    """Tell whether an op gives a tensor with its last two dimensions swapped, and does nothing else."""
    if op.name not in ("linalg.transpose", "linalg.generic") or not moves_elements(op):
        return False
    read, written = map(dimensions, indexing_maps(op))
    if len(written) < 2:
        return False
    *lead, first, second = written
    return None not in written and len(set(written)) == len(written) and read == [*lead, second, first]


def write_results_in_shape(module: ir.Module) -> None:
    """Let results that are reshaped last be written to a view of their argument, in place."""
    waiting = [op for op in every_op(module) if op.name == "bufferization.materialize_in_destination"]
    while waiting:
        op = waiting.pop()
        value, out = op.operands
        made_by = maker(value)
        if made_by is None or made_by.name not in RESHAPES or not isinstance(out.type, ir.MemRefType):
            continue
        source = made_by.operands[0]
        static = source.type.has_static_shape and value.type.has_static_shape
        if not static or out.type.affine_map != ir.AffineMap.get_identity(out.type.rank):
            continue
        with ir.InsertionPoint(op), op.location:
            view = view_of(out, made_by, source.type)
            inside = bufferization.materialize_in_destination(None, source, view, restrict=True, writable=True)
        waiting.append(inside.operation)
        op.erase()
        if not list(made_by.results[0].uses):
            made_by.erase()
    for op in [op for op in every_op(module) if op.name in RESHAPES]:
        empty = maker(op.operands[0])
        if empty is not None and empty.name == "tensor.empty" and op.results[0].type.has_static_shape:
            with ir.InsertionPoint(op), op.location:
                kind = op.results[0].type
                op.results[0].replace_all_uses_with(tensor.empty(kind.shape, kind.element_type))
            op.erase()


def view_of(out: ir.Value, reshape: ir.Operation, like: ir.RankedTensorType) -> ir.Value:
    """A memref in the shape that a tensor has before it is reshaped."""
    kind = ir.MemRefType.get(like.shape, like.element_type)
    groups = reassociation(reshape)
    if reshape.name == "tensor.expand_shape":
        return memref.collapse_shape(kind, out, groups)
    return memref.expand_shape(kind, out, groups, [], list(like.shape))
