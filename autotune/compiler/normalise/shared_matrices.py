"""Products of a batch with one matrix that is repeated for each: one product of all rows."""

from mlir import ir
from mlir.dialects import linalg

from autotune.compiler.module import every_op, run_passes
from autotune.compiler.nests import dimensions, indexing_maps
from autotune.compiler.normalise.emit import flat, unflat
from autotune.compiler.values import maker

ROWS = ((0, 1), (2,))
PLAIN = [[0, 1, 3], [0, 3, 2], [0, 1, 2]]  # loops of the operands of a batch of products: b, m, n, k


def share_matrices(module: ir.Module) -> None:
    """Let a batch of products that share their B be one product, in place.

    R[b, k, n] = B[k, n];  C[b, m, n] += A[b, m, k] * R[b, k, n]   ->   C[(b m), n] += A[(b m), k] * B[k, n]
    """
    found = [(op, shared) for op in every_op(module) if (shared := shared_matrix(op)) is not None]
    for op, shared in found:
        a, _, c = op.operands
        with ir.InsertionPoint(op), op.location:
            product = linalg.matmul(flat(a, ROWS), shared, outs=[flat(c, ROWS)])
            whole = unflat(product, ROWS, op.results[0].type.shape)
        op.results[0].replace_all_uses_with(whole)
        op.erase()
    if found:
        run_passes(module, "builtin.module(canonicalize,cse)")


def shared_matrix(op: ir.Operation) -> ir.Value | None:
    """The B that all products of a batch have; `None` for any other op."""
    if op.name != "linalg.batch_matmul" or [dimensions(amap) for amap in indexing_maps(op)] != PLAIN:
        return None
    made_by = maker(op.operands[1])
    if made_by is None or made_by.name not in ("linalg.broadcast", "linalg.generic") or len(made_by.operands) != 2:
        return None
    block = made_by.regions[0].blocks[0]
    read, written = map(dimensions, indexing_maps(made_by))
    moves = len(block.operations) == 1 and block.operations[0].operation.operands[0] == block.arguments[0]
    return made_by.operands[0] if moves and (read, written) == ([1, 2], [0, 1, 2]) else None
