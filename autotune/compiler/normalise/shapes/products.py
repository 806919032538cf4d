"""Rewrite matrix products so that they vectorize and fuse.

A batch of products with a broadcast B becomes one product over all rows. A product of one column with A stored as
``(k, m)``, or of one row in a batch with B stored as ``(k, n)``, becomes column sums; one with k = 1 becomes
element-wise. Element-wise operations after a reshape of a product are moved before the reshape.
"""

from dataclasses import dataclass
from math import prod

from mlir import ir
from mlir.dialects import linalg, tensor

from autotune.compiler.ir.module import every_op, run_passes
from autotune.compiler.ir.nests import dimensions, indexing_maps, moves_elements
from autotune.compiler.ir.values import maker, reassociation
from autotune.compiler.normalise.convolution.channels_last import is_elementwise
from autotune.compiler.normalise.convolution.window_sums import multiply_add
from autotune.compiler.normalise.emit import copy_of_body, dims, flat, generic, unflat

ROWS = ((0, 1), (2,))
BATCH, M, N, K = range(4)  # loops of a batched product
MOVES = ("linalg.broadcast", "linalg.transpose", "linalg.generic")
MATRIX = 2  # rank of a matrix


@dataclass(frozen=True)
class OperandView:
    """Access of an operand to the tensor that it is copied, transposed, broadcast or reshaped from.

    Attributes:
        source: Tensor that is read.
        read: Dimensions of the source that each dimension of the operand iterates over, outermost first. Empty for a
            broadcast dimension. Unit dimensions of the source are omitted.
    """

    source: ir.Value
    read: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Matrix:
    """Matrix stored in a tensor with additional unit dimensions.

    Attributes:
        source: Tensor that holds the matrix.
        cut: First dimension of the columns.
        is_transposed: Whether the matrix is stored as ``(n, k)``.
    """

    source: ir.Value
    cut: int
    is_transposed: bool

    def in_two(self) -> ir.Value:
        """Return the matrix as a tensor of rank 2."""
        rank = len(self.source.type.shape)
        return flat(self.source, [list(range(self.cut)), list(range(self.cut, rank))])


def share_matrices(module: ir.Module) -> None:
    """Rewrite a batch of products with a shared B as one product, in place.

        R[b, k, n] = B[k, n];  C[b, m, n] += A[b, m, k] * R[b, k, n]   ->   C[(b m), n] += A[(b m), k] * B[k, n]

    There may be reshapes and transposes between the broadcast and the product: importers express a Linear over
    ``(n, h, w, c)`` by broadcasting its matrix along ``n`` and ``h`` and collapsing them.
    """
    batches = [op for op in every_op(module) if op.name == "linalg.batch_matmul"]
    m, n, k = (ir.AffineDimExpr.get(d) for d in range(3)) if batches else (None,) * 3
    is_changed = False
    for op in batches:
        matrix = shared_matrix(op)  # computed here, as it may be the result of a product that was just rewritten
        if matrix is None:
            continue
        is_changed = True
        a, _, c = op.operands
        with ir.InsertionPoint(op), op.location:
            reads = [[m, k], [n, k] if matrix.is_transposed else [k, n], [m, n]]
            maps = ir.ArrayAttr.get([ir.AffineMapAttr.get(ir.AffineMap.get(3, 0, read)) for read in reads])
            product = linalg.matmul(flat(a, ROWS), matrix.in_two(), outs=[flat(c, ROWS)], indexing_maps=maps)
            reshaped = unflat(product, ROWS, op.results[0].type.shape)
        op.results[0].replace_all_uses_with(reshaped)
        op.erase()
    if is_changed:
        run_passes(module, "builtin.module(canonicalize,cse)")


def shared_matrix(op: ir.Operation) -> Matrix | None:
    """Match a batched product with the same B for every batch; return B, or `None` if it does not match."""
    if op.name != "linalg.batch_matmul":
        return None
    a, b, c = (dimensions(amap) for amap in indexing_maps(op))
    if a != [BATCH, M, K] or c != [BATCH, M, N] or b not in ([BATCH, K, N], [BATCH, N, K]):
        return None
    view = repeated_source(op.operands[1])
    if view is None or len(view.source.type.shape) < MATRIX:
        return None
    k, n = view.read[b.index(K)], view.read[b.index(N)]
    if len(k) > 1 or len(n) > 1:
        return None
    cut = max([*k, *n, 1])
    return Matrix(view.source, cut, k[0] >= cut if k else bool(n) and n[0] < cut)


def repeated_source(value: ir.Value) -> OperandView | None:
    """Return the source that a tensor broadcasts along its first dimension; `None` if there is none."""
    shape = value.type.shape
    identity = OperandView(value, tuple((d,) if size != 1 else () for d, size in enumerate(shape)))
    if shape[0] == 1:  # with one repetition, only an explicit copy counts as a broadcast
        producer = maker(value)
        return view_before(identity) if producer is not None and producer.name in MOVES else None
    view: OperandView | None = identity
    while view is not None and view.read[0]:
        view = view_before(view)
    return view


def view_before(view: OperandView) -> OperandView | None:
    """Return the view through the producer of its source; `None` if the producer is not supported."""
    producer = maker(view.source)
    if producer is None:
        return None
    if producer.name in ("tensor.collapse_shape", "tensor.expand_shape"):
        return before_reshape(view, producer)
    return before_move(view, producer) if producer.name in MOVES and moves_elements(producer) else None


def before_reshape(view: OperandView, reshape: ir.Operation) -> OperandView | None:
    """Return the view of the source of a reshape; expanded dimensions must be read whole."""
    before = reshape.operands[0]
    groups = reassociation(reshape)
    if reshape.name == "tensor.collapse_shape":
        shape = before.type.shape
        parts = [tuple(d for d in group if shape[d] != 1) for group in groups]
        return OperandView(before, tuple(tuple(p for d in dims for p in parts[d]) for dims in view.read))
    shape = view.source.type.shape
    wholes = [tuple(d for d in group if shape[d] != 1) for group in groups]
    of_part = {d: number for number, parts in enumerate(wholes) for d in parts}
    read = [joined(dims, wholes, of_part) for dims in view.read]
    return None if None in read else OperandView(before, tuple(dims for dims in read if dims is not None))


def joined(dims: tuple[int, ...], wholes: list[tuple[int, ...]], of_part: dict[int, int]) -> tuple[int, ...] | None:
    """Return the dimensions that were expanded to some dimensions; `None` if an expansion is incomplete."""
    expanded: tuple[int, ...] = ()
    while dims:
        number = of_part[dims[0]]
        parts = wholes[number]
        if dims[: len(parts)] != parts:
            return None
        expanded, dims = (*expanded, number), dims[len(parts) :]
    return expanded


def before_move(view: OperandView, move: ir.Operation) -> OperandView | None:
    """Return the view of the source of a copy, transpose or broadcast."""
    before = move.operands[0]
    if not isinstance(before.type, ir.RankedTensorType):
        return None
    reads, written = map(dimensions, indexing_maps(move))
    along = [loop for loop in reads if loop is not None]
    if None in written or len(set(written)) < len(written) or len(set(along)) < len(along):
        return None
    if any(d is None and size != 1 for d, size in zip(reads, before.type.shape, strict=True)):
        return None
    source = {loop: d for d, loop in enumerate(reads) if loop is not None and before.type.shape[d] != 1}
    read = []
    for copied in view.read:
        moved = [source.get(loop) if (loop := written[d]) is not None else None for d in copied]
        source_dims = tuple(d for d in moved if d is not None)
        if source_dims and None in moved:
            return None
        read.append(source_dims)
    return OperandView(before, tuple(read))


PRODUCTS = ("linalg.matmul", "linalg.batch_matmul")
Groups = list[list[int]]


def drop_loops_of_one(module: ir.Module) -> None:
    """Drop unit loops of products: of one column, of one row in a batch, or of one addend, in place.

        C[b, m, 0] += A[b, k, m] * B[b, k, 0]   ->   c[b, m] += A[b, k, m] * v[b, k]
        C[b, 0, n] += A[b, 0, k] * B[b, k, n]   ->   c[b, n] += v[b, k] * B[b, k, n]
        C[b, m, n] += A[b, m, 0] * B[b, 0, n]   ->   C[b, m, n] = C[b, m, n] + u[b, m] * v[b, n]

    Without the unit loop, the matrix is contiguous along the last parallel loop. If it is stored the other way, it is
    contiguous along the reduction, and the product is left unchanged.
    """
    products = [(op, loop) for op in every_op(module) if op.name in PRODUCTS and (loop := loop_of_one(op)) is not None]
    for op, dropped in products:
        a, b, c = op.operands
        maps = [dimensions(amap) for amap in indexing_maps(op)]
        count = len(maps[2]) + 1
        left = [loop for loop in range(count) if loop != dropped]
        with ir.InsertionPoint(op), op.location:
            groups = [without(dropped, each) for each in maps]
            operands = [flat(value, parts) for value, parts in zip((a, b, c), groups, strict=True)]
            loops = dims(len(left))
            reads = [
                ir.AffineMap.get(len(left), 0, [loops[left.index(d)] for d in each if d is not None and d != dropped])
                for each in maps
            ]
            if dropped == count - 1:
                into = tensor.empty(c.type.shape, c.type.element_type)
                result = generic(operands, into, [*reads, reads[2]], ["parallel"] * len(left), outer_product)
            else:
                iterators = ["parallel"] * (len(left) - 1) + ["reduction"]
                result = generic(operands[:2], operands[2], reads, iterators, multiply_add)
            expanded = unflat(result, groups[2], op.results[0].type.shape)
        op.results[0].replace_all_uses_with(expanded)
        op.erase()
    if products:
        run_passes(module, "builtin.module(canonicalize,cse)")


def outer_product(x: ir.Value, y: ir.Value, start: ir.Value, _: ir.Value) -> ir.Value:
    """Build an element of an outer product, added to its initial value."""
    return multiply_add(x, y, start)


def loop_of_one(op: ir.Operation) -> int | None:
    """Return the unit loop to drop from a product of f32: its column, row or reduction; `None` if there is none."""
    element_types = {str(value.type.element_type) for value in op.operands}
    a, b, c = (dimensions(amap) for amap in indexing_maps(op))
    rows, columns = op.results[0].type.shape[-2:]
    depth = op.operands[0].type.shape[a.index(len(c))]
    if element_types == {"f32"} and depth == 1 and rows > 1 and columns > 1:
        return len(c)
    if element_types == {"f32"} and columns == 1 and rows > 1 and a[-1] == c[-2]:
        return c[-1]
    if element_types == {"f32"} and rows == 1 and columns > 1 and b[-1] == c[-1] and len(c) > MATRIX:
        return c[-2]
    return None


def without(loop: int | None, read: list[int | None]) -> Groups:
    """Return the reassociation of an operand that folds the unit dimension of a loop into a neighbour."""
    dim = next((at for at, each in enumerate(read) if each == loop), None)
    if dim is None:
        return [[at] for at in range(len(read))]
    beside = dim - 1 if dim else 1
    pair = sorted((dim, beside))
    return [pair if at == pair[0] else [at] for at in range(len(read)) if at != pair[1]]


def reshape_after_elementwise(module: ir.Module) -> None:
    """Move element-wise operations before the reshape of the product that they consume, in place.

        P[(b m), n] = product;  E[b, m, n] = P;  y[b, m, n] = f(E[b, m, n], bias[n], z[b, m, n])
          ->   Y[(b m), n] = f(P[(b m), n], bias[n], Z[(b m), n]);  y[b, m, n] = Y

    The reshape would prevent fusion of the two.
    """
    moved: set[ir.Value] = set()
    for op in every_op(module):
        if not is_elementwise(op):
            continue
        whole = indexing_maps(op)[-1]
        candidates = [value for value, amap in zip(op.operands, indexing_maps(op), strict=True) if amap == whole]
        groups = next((g for value in candidates if (g := groups_behind_product(value, moved)) is not None), None)
        reads = [collapsed(amap, groups) for amap in indexing_maps(op)] if groups is not None else []
        plain = [read for read in reads if read is not None]
        if groups is None or len(plain) < len(reads):
            continue
        *inputs, into = op.operands
        loops, shape = dims(len(groups)), into.type.shape
        maps = [ir.AffineMap.get(len(groups), 0, [loops[d] for d in read]) for read, _ in plain]
        with ir.InsertionPoint(op), op.location:
            flattened = [flat(value, parts) for value, (_, parts) in zip(inputs, plain, strict=False)]
            empty = tensor.empty([prod(shape[d] for d in group) for group in groups], into.type.element_type)
            result = generic(flattened, empty, maps, ["parallel"] * len(groups), copy_of_body(op))
            whole = unflat(result, groups, shape)
        moved.add(result)
        op.results[0].replace_all_uses_with(whole)
        op.erase()
    if moved:
        run_passes(module, "builtin.module(canonicalize,cse)")


def groups_behind_product(value: ir.Value, moved: set[ir.Value]) -> Groups | None:
    """Return the reassociation of an expanded product; `None` for any other value.

    The source may be a product, an element-wise operation that consumes one, such as a bias, or a value in `moved`.
    """
    expansion = maker(value)
    if expansion is None or expansion.name != "tensor.expand_shape":
        return None
    source = expansion.operands[0]
    if source not in moved and not follows_product(source):
        return None
    return reassociation(expansion)


def follows_product(value: ir.Value) -> bool:
    """Return whether a value is a product, or computed from one by element-wise operations of the same shape."""
    producer = maker(value)
    if producer is None:
        return False
    if linalg.isa_contraction_op(producer):
        return True
    *inputs, into = producer.operands if is_elementwise(producer) else [value]
    return any(each.type == into.type and follows_product(each) for each in inputs)


def collapsed(amap: ir.AffineMap, groups: Groups) -> tuple[list[int], Groups] | None:
    """Return the groups that an operand is read along once they are collapsed, and the reassociation of the operand.

    `None` if the operand is read along a part of a group, or in another order. Dimensions of loops in no group, which
    are unit loops, are folded into their neighbours.
    """
    number = {loop: at for at, group in enumerate(groups) for loop in group}
    loops: list[int] = []
    parts: Groups = []
    alone: list[int] = []
    left: list[int] = []
    for dimension, loop in enumerate(dimensions(amap)):
        if loop is None:
            return None
        if loop not in number:
            (parts[-1] if parts else alone).append(dimension)
            continue
        if not left:
            left = list(groups[number[loop]])
            loops.append(number[loop])
            parts.append(alone)
            alone = []
        if left.pop(0) != loop:
            return None
        parts[-1].append(dimension)
    return None if left else (loops, parts)
