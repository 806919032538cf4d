"""Products of a batch with one matrix that is repeated for each: one product of all rows."""

from dataclasses import dataclass

from mlir import ir
from mlir.dialects import linalg

from autotune.compiler.ir.module import every_op, run_passes
from autotune.compiler.ir.nests import dimensions, indexing_maps, moves_elements
from autotune.compiler.ir.values import maker
from autotune.compiler.normalise.emit import flat, unflat

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
    cut = max(*k, *n, 1)
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
    groups = [[ir.IntegerAttr(d).value for d in group] for group in ir.ArrayAttr(reshape.attributes["reassociation"])]
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
    for dims in view.read:
        moved = [source.get(loop) if (loop := written[d]) is not None else None for d in dims]
        kept = tuple(d for d in moved if d is not None)
        if kept and None in moved:
            return None
        read.append(kept)
    return OperandView(before, tuple(read))
