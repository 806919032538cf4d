"""Products in the form that vectors and fusion want.

A batch with one matrix that is repeated for each becomes one product of all rows. A product with one column of an A
that is stored ``(k, m)``, or in a batch of one row by a B that is stored ``(k, n)``, becomes sums down columns; one
that sums nothing becomes element-wise. What is done to each element of a product that is reshaped first is done before,
where it is part of the product.
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
BATCH, M, N, K = range(4)  # loops of a batch of products
MOVES = ("linalg.broadcast", "linalg.transpose", "linalg.generic")
MATRIX = 2  # dimensions


@dataclass(frozen=True)
class OperandView:
    """How an operand reads a tensor that moves and reshapes made it of.

    Attributes:
        source: The tensor.
        read: Dimensions of the source, for each dimension of the operand those that it counts through, outermost first.
            There are none where every step reads the same element. Source dimensions of size 1 are left out.
    """

    source: ir.Value
    read: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Matrix:
    """A matrix, of which all dimensions but two have size 1.

    Attributes:
        source: A tensor that holds it.
        cut: The first of the dimensions that are its columns.
        is_transposed: Whether the matrix is stored ``(n, k)``.
    """

    source: ir.Value
    cut: int
    is_transposed: bool

    def in_two(self) -> ir.Value:
        """The matrix with two dimensions."""
        rank = len(self.source.type.shape)
        return flat(self.source, [list(range(self.cut)), list(range(self.cut, rank))])


def share_matrices(module: ir.Module) -> None:
    """Let a batch of products that share their B be one product, in place.

        R[b, k, n] = B[k, n];  C[b, m, n] += A[b, m, k] * R[b, k, n]   ->   C[(b m), n] += A[(b m), k] * B[k, n]

    Reshapes and transposes may stand between the copy and the product: importers write a Linear over ``(n, h, w, c)``
    as copies of its matrix for ``n`` and ``h``, which they then make one dimension.
    """
    batches = [op for op in every_op(module) if op.name == "linalg.batch_matmul"]
    m, n, k = (ir.AffineDimExpr.get(d) for d in range(3)) if batches else (None,) * 3
    is_changed = False
    for op in batches:
        matrix = shared_matrix(op)  # of the module as it is now: it may be the result of a product before this one
        if matrix is None:
            continue
        is_changed = True
        a, _, c = op.operands
        with ir.InsertionPoint(op), op.location:
            reads = [[m, k], [n, k] if matrix.is_transposed else [k, n], [m, n]]
            maps = ir.ArrayAttr.get([ir.AffineMapAttr.get(ir.AffineMap.get(3, 0, read)) for read in reads])
            product = linalg.matmul(flat(a, ROWS), matrix.in_two(), outs=[flat(c, ROWS)], indexing_maps=maps)
            whole = unflat(product, ROWS, op.results[0].type.shape)
        op.results[0].replace_all_uses_with(whole)
        op.erase()
    if is_changed:
        run_passes(module, "builtin.module(canonicalize,cse)")


def shared_matrix(op: ir.Operation) -> Matrix | None:
    """The B that all products of a batch read; `None` for any other op."""
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
    """What a tensor repeats at every step of its first dimension; `None` if it is not seen to repeat anything."""
    shape = value.type.shape
    whole = OperandView(value, tuple((d,) if size != 1 else () for d, size in enumerate(shape)))
    if shape[0] == 1:  # repeated once: only what was written as a copy is one
        made_by = maker(value)
        return view_before(whole) if made_by is not None and made_by.name in MOVES else None
    view: OperandView | None = whole
    while view is not None and view.read[0]:
        view = view_before(view)
    return view


def view_before(view: OperandView) -> OperandView | None:
    """The same elements, read from what the source was made of; `None` where that is not to be seen."""
    made_by = maker(view.source)
    if made_by is None:
        return None
    if made_by.name in ("tensor.collapse_shape", "tensor.expand_shape"):
        return before_reshape(view, made_by)
    return before_move(view, made_by) if made_by.name in MOVES and moves_elements(made_by) else None


def before_reshape(view: OperandView, reshape: ir.Operation) -> OperandView | None:
    """A view of what a reshape reads: dimensions that are split must be read whole."""
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
    """The dimensions that some dimensions were split from; `None` if they are not all that those were split into."""
    found: tuple[int, ...] = ()
    while dims:
        number = of_part[dims[0]]
        parts = wholes[number]
        if dims[: len(parts)] != parts:
            return None
        found, dims = (*found, number), dims[len(parts) :]
    return found


def before_move(view: OperandView, move: ir.Operation) -> OperandView | None:
    """A view of what an op reads that copies elements, some of them to several indices."""
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
        kept = tuple(d for d in moved if d is not None)
        if kept and None in moved:
            return None
        read.append(kept)
    return OperandView(before, tuple(read))


PRODUCTS = ("linalg.matmul", "linalg.batch_matmul")
Groups = list[list[int]]


def drop_loops_of_one(module: ir.Module) -> None:
    """Let products of one column, or of one row in a batch, be ones with a vector, in place.

        C[b, m, 0] += A[b, k, m] * B[b, k, 0]   ->   c[b, m] += A[b, k, m] * v[b, k]
        C[b, 0, n] += A[b, 0, k] * B[b, k, n]   ->   c[b, n] += v[b, k] * B[b, k, n]
        C[b, m, n] += A[b, m, 0] * B[b, 0, n]   ->   C[b, m, n] = C[b, m, n] + u[b, m] * v[b, n]

    Without the loop of one step, what is read lies side by side along the last loop that is written. Where the matrix
    is stored the other way, it lies so along the sum, and the product stays as it is.
    """
    found = [(op, loop) for op in every_op(module) if op.name in PRODUCTS and (loop := loop_of_one(op)) is not None]
    for op, dropped in found:
        a, b, c = op.operands
        maps = [dimensions(amap) for amap in indexing_maps(op)]
        count = len(maps[2]) + 1
        left = [loop for loop in range(count) if loop != dropped]
        with ir.InsertionPoint(op), op.location:
            groups = [without(dropped, each) for each in maps]
            taken = [flat(value, parts) for value, parts in zip((a, b, c), groups, strict=True)]
            loops = dims(len(left))
            reads = [
                ir.AffineMap.get(len(left), 0, [loops[left.index(d)] for d in each if d is not None and d != dropped])
                for each in maps
            ]
            if dropped == count - 1:
                into = tensor.empty(c.type.shape, c.type.element_type)
                result = generic(taken, into, [*reads, reads[2]], ["parallel"] * len(left), outer_product)
            else:
                iterators = ["parallel"] * (len(left) - 1) + ["reduction"]
                result = generic(taken[:2], taken[2], reads, iterators, multiply_add)
            whole = unflat(result, groups[2], op.results[0].type.shape)
        op.results[0].replace_all_uses_with(whole)
        op.erase()
    if found:
        run_passes(module, "builtin.module(canonicalize,cse)")


def outer_product(x: ir.Value, y: ir.Value, start: ir.Value, _: ir.Value) -> ir.Value:
    """An element of a product that sums nothing, from where it starts."""
    return multiply_add(x, y, start)


def loop_of_one(op: ir.Operation) -> int | None:
    """The loop of one step that a product of f32 is better without: its column, row or sum; `None` of others."""
    kinds = {str(value.type.element_type) for value in op.operands}
    a, b, c = (dimensions(amap) for amap in indexing_maps(op))
    rows, columns = op.results[0].type.shape[-2:]
    summed = op.operands[0].type.shape[a.index(len(c))]
    if kinds == {"f32"} and summed == 1 and rows > 1 and columns > 1:
        return len(c)
    if kinds == {"f32"} and columns == 1 and rows > 1 and a[-1] == c[-2]:
        return c[-1]
    if kinds == {"f32"} and rows == 1 and columns > 1 and b[-1] == c[-1] and len(c) > MATRIX:
        return c[-2]
    return None


def without(loop: int | None, read: list[int | None]) -> Groups:
    """Dimensions of an operand that belong together when that of a loop, which is 1, is none of its own any more."""
    dim = next((at for at, each in enumerate(read) if each == loop), None)
    if dim is None:
        return [[at] for at in range(len(read))]
    beside = dim - 1 if dim else 1
    pair = sorted((dim, beside))
    return [pair if at == pair[0] else [at] for at in range(len(read)) if at != pair[1]]


def reshape_after_elementwise(module: ir.Module) -> None:
    """Let element-wise ops follow their product without a reshape in between, in place.

        P[(b m), n] = product;  E[b, m, n] = P;  y[b, m, n] = f(E[b, m, n], bias[n], z[b, m, n])
          ->   Y[(b m), n] = f(P[(b m), n], bias[n], Z[(b m), n]);  y[b, m, n] = Y

    A reshape between the two would hide that they are neighbours.
    """
    moved: set[ir.Value] = set()
    for op in every_op(module):
        if op.name != "linalg.generic" or len(op.results) != 1 or not is_elementwise(op, len(op.results[0].type.shape)):
            continue
        whole = indexing_maps(op)[-1]
        wholes = [value for value, amap in zip(op.operands, indexing_maps(op), strict=True) if amap == whole]
        groups = next((g for value in wholes if (g := groups_behind_product(value, moved)) is not None), None)
        reads = [collapsed(amap, groups) for amap in indexing_maps(op)] if groups is not None else []
        plain = [read for read in reads if read is not None]
        if groups is None or len(plain) < len(reads):
            continue
        *inputs, into = op.operands
        loops, shape = dims(len(groups)), into.type.shape
        maps = [ir.AffineMap.get(len(groups), 0, [loops[d] for d in read]) for read, _ in plain]
        with ir.InsertionPoint(op), op.location:
            taken = [flat(value, parts) for value, (_, parts) in zip(inputs, plain, strict=False)]
            empty = tensor.empty([prod(shape[d] for d in group) for group in groups], into.type.element_type)
            result = generic(taken, empty, maps, ["parallel"] * len(groups), copy_of_body(op))
            whole = unflat(result, groups, shape)
        moved.add(result)
        op.results[0].replace_all_uses_with(whole)
        op.erase()
    if moved:
        run_passes(module, "builtin.module(canonicalize,cse)")


def groups_behind_product(value: ir.Value, moved: set[ir.Value]) -> Groups | None:
    """The dimensions that what follows a product is split into; `None` of any other value.

    That is its result, an element-wise op behind it such as one that adds a bias, or what `moved` holds.
    """
    made_by = maker(value)
    if made_by is None or made_by.name != "tensor.expand_shape":
        return None
    source = made_by.operands[0]
    if source not in moved and not follows_product(source):
        return None
    return reassociation(made_by)


def follows_product(value: ir.Value) -> bool:
    """Tell whether a value is a product, or what element-wise ops of its shape make of one."""
    made_by = maker(value)
    if made_by is None:
        return False
    if linalg.isa_contraction_op(made_by):
        return True
    *inputs, into = made_by.operands if is_elementwise(made_by, len(value.type.shape)) else [value]
    return any(each.type == into.type and follows_product(each) for each in inputs)


def collapsed(amap: ir.AffineMap, groups: Groups) -> tuple[list[int], Groups] | None:
    """How an operand is read once groups of loops are one each, and which of its dimensions become one for that.

    `None` if it is read along a part of a group, or in another order. What follows a loop of no group, which is of one
    step, goes with its neighbours.
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
