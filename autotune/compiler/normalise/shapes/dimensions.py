"""Drop unit dimensions, and read and write transposed or reshaped values without a copy.

Reshapes that add or drop unit dimensions then no longer separate operations. Transposed operands of products are not
transposed in every call. Results whose last operation is a reshape are written to a view of their argument:

    x = f(..);  materialize (expand_shape x) in out     ->   x = f(..);  materialize x in (collapse_shape out)
    x = f(..);  materialize (collapse_shape x) in out   ->   x = f(..);  materialize x in (expand_shape out)

Upstream replaces empty tensors by the buffer of a result, but does not look through reshapes: a reshaped empty tensor
becomes an empty tensor of that shape.
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
VIEWS = (*RESHAPES, "tensor.cast")  # operations that reinterpret a whole tensor as another type
MATRIX = 2  # rank of a matrix


def drop_unit_dimensions(module: ir.Module) -> None:
    """Drop unit dimensions of operands, in place; arguments keep their shapes.

        C[0, m, n] += A[0, m, k] * B[0, k, n]   ->   C[m, n] += A[m, k] * B[k, n]

    Importers keep a batch of one everywhere. Reshapes between an operation with it and one without would prevent
    fusion. A module with single-head attention is left unchanged, since attention groups need the batch dimension.
    Strided windows may not read their input to the end, which upstream does not expect of windows of one tap.
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
    """Return whether a structured operation on tensors has an operand with a unit dimension."""
    if not op.name.startswith("linalg.") or not len(op.results):
        return False
    tensors = [value.type for value in op.operands if isinstance(value.type, ir.RankedTensorType)]
    return any(1 in kind.shape for kind in tensors)


def read_parts(op: ir.Operation) -> None:
    """Slice the operands of an operation with unit loops to the part that its windows reach, in place."""
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
    """Return whether a value is an argument of rank 2 at most, possibly moved: a weight, not an activation."""
    producer = maker(value)
    while producer is not None and (producer.name in (*MOVES, *RESHAPES) or is_move(producer)):
        value = producer.operands[0]
        producer = maker(value)
    return producer is not None and producer.name == "bufferization.to_tensor" and len(value.type.shape) <= MATRIX


def is_move(op: ir.Operation) -> bool:
    """Return whether an operation is a `linalg.generic` that only copies elements."""
    return op.name == "linalg.generic" and len(op.regions[0].blocks[0].operations) == 1 and len(op.operands) == 2


def open_batch(op: ir.Operation) -> None:
    """Rewrite a batched product with a batch of one as a plain product."""
    maps = [without_first(amap) for amap in indexing_maps(op)]
    with ir.InsertionPoint(op), op.location:
        a, b, c = (flat(value, groups(value.type.rank)) for value in op.operands)
        attributes = ir.ArrayAttr.get([ir.AffineMapAttr.get(amap) for amap in maps])
        product = linalg.matmul(a, b, outs=[c], indexing_maps=attributes)
        expanded = unflat(product, groups(op.results[0].type.rank), op.results[0].type.shape)
    op.results[0].replace_all_uses_with(expanded)
    op.erase()


def without_first(amap: ir.AffineMap) -> ir.AffineMap:
    """Return an indexing map without the first loop and the first dimension, the batch."""
    loops = [ir.AffineDimExpr.get(ir.AffineDimExpr(e).position - 1) for e in list(amap.results)[1:]]
    return ir.AffineMap.get(amap.n_dims - 1, 0, loops)


def groups(rank: int) -> Sequence[Sequence[int]]:
    """Return the reassociation that collapses the first two dimensions."""
    return [[0, 1], *([index] for index in range(2, rank))]


def generalize(op: ir.Operation) -> None:
    """Generalize a named operation or `linalg.map`, so that upstream can drop its unit dimensions."""
    *inputs, into = op.operands
    with ir.InsertionPoint(op), op.location:
        result = generic(inputs, into, indexing_maps(op), ["parallel"] * len(into.type.shape), copy_of_body(op))
    op.results[0].replace_all_uses_with(result)
    op.erase()


def is_named_elementwise(op: ir.Operation) -> bool:
    """Return whether an operation is a named element-wise operation or `linalg.map`."""
    if op.name in ("linalg.generic", "linalg.fill", *MOVES) or not indexing_maps(op) or len(op.results) != 1:
        return False
    *read, written = indexing_maps(op)
    loops = list(range(written.n_dims))
    return dimensions(written) == loops and all(None not in dimensions(amap) for amap in read)


def follows_window(op: ir.Operation) -> bool:
    """Return whether a named element-wise operation uses the result of a window, directly or through others."""
    if not is_named_elementwise(op):
        return False
    producers = [made_by for value in list(op.operands)[:-1] if (made_by := maker(value)) is not None]
    slides = any(None in dimensions(amap) for made_by in producers for amap in indexing_maps(made_by))
    return slides or any(map(follows_window, producers))


def read_in_place(module: ir.Module) -> None:
    """Let products read the source of operands whose last two dimensions are transposed, in place.

        T[k, n] = W[n, k];  C[m, n] += A[m, k] * T[k, n]   ->   C[m, n] += A[m, k] * W[n, k]

    A weight is then recognized as one, and may be repacked as its product reads it.
    """
    changed = False
    for op in every_op(module):
        if op.name.startswith("linalg.") and len(op.results) == 1 and linalg.isa_contraction_op(op):
            for number in (0, 1):
                changed |= read_before_swap(op, number)
    if changed:
        run_passes(module, "builtin.module(canonicalize,cse)")


def read_before_swap(op: ir.Operation, number: int) -> bool:
    """Replace a transposed operand of a product by its source; return whether it was transposed."""
    producer, maps = maker(op.operands[number]), indexing_maps(op)
    if producer is None or not swaps_last(producer):
        return False
    amap = maps[number]
    *lead, first, second = amap.results
    maps[number] = ir.AffineMap.get(amap.n_dims, 0, [*lead, second, first])
    op.operands[number] = producer.operands[0]
    op.attributes["indexing_maps"] = ir.ArrayAttr.get([ir.AffineMapAttr.get(each) for each in maps])
    return True


def swaps_last(op: ir.Operation) -> bool:
    """Return whether an operation only transposes the last two dimensions of a tensor."""
    if op.name not in ("linalg.transpose", "linalg.generic") or not moves_elements(op):
        return False
    read, written = map(dimensions, indexing_maps(op))
    if len(written) < 2:
        return False
    *lead, first, second = written
    return None not in written and len(set(written)) == len(written) and read == [*lead, second, first]


def write_results_in_shape(module: ir.Module) -> None:
    """Write results whose last operation is a reshape to a view of their argument, in place."""
    worklist = [op for op in every_op(module) if op.name == "bufferization.materialize_in_destination"]
    while worklist:
        op = worklist.pop()
        value, out = op.operands
        reshape = maker(value)
        if reshape is None or reshape.name not in RESHAPES or not isinstance(out.type, ir.MemRefType):
            continue
        source = reshape.operands[0]
        static = source.type.has_static_shape and value.type.has_static_shape
        if not static or out.type.affine_map != ir.AffineMap.get_identity(out.type.rank):
            continue
        with ir.InsertionPoint(op), op.location:
            view = view_of(out, reshape, source.type)
            inside = bufferization.materialize_in_destination(None, source, view, restrict=True, writable=True)
        worklist.append(inside.operation)
        op.erase()
        if not list(reshape.results[0].uses):
            reshape.erase()
    for op in [op for op in every_op(module) if op.name in RESHAPES]:
        empty = maker(op.operands[0])
        if empty is not None and empty.name == "tensor.empty" and op.results[0].type.has_static_shape:
            with ir.InsertionPoint(op), op.location:
                tensor_type = op.results[0].type
                op.results[0].replace_all_uses_with(tensor.empty(tensor_type.shape, tensor_type.element_type))
            op.erase()


def view_of(out: ir.Value, reshape: ir.Operation, like: ir.RankedTensorType) -> ir.Value:
    """Build the view of a memref in the shape that a tensor has before a reshape."""
    view_type = ir.MemRefType.get(like.shape, like.element_type)
    groups = reassociation(reshape)
    if reshape.name == "tensor.expand_shape":
        return memref.collapse_shape(view_type, out, groups)
    return memref.expand_shape(view_type, out, groups, [], list(like.shape))
