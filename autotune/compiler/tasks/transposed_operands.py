"""Transpose operand B of a matrix product beforehand where reading it transposed is slower.

    C[b, m, n] += A[b, m, k] * B[b, n, k]   ->   T[b, k, n] = B[b, n, k];  C[b, m, n] += A[b, m, k] * T[b, k, n]

The schedule of a product transposes blocks of B while packing them into panels, in squares whose side divides k; for
odd k this is done element by element, and a narrow B is not packed.
"""

from collections.abc import Sequence

from mlir import ir

from autotune.compiler.ir.extents import open_dimensions
from autotune.compiler.ir.nests import indexing_maps, structured_ops
from autotune.compiler.normalise.emit import permuted
from autotune.compiler.tasks.read_op import read_op
from autotune.core.ops.op import Contraction

LEAST_ROWS = 16  # rows of A that share the transposed B
NARROW, SIDE = 64, 4  # columns below which B is not packed; side of a square that is transposed in registers


def transpose_operands(function: ir.OpView, roles: Sequence[str]) -> None:
    """Transpose every B that is no weight and that its product would transpose slowly, in place.

    Args:
        function: Entry function of a payload.
        roles: Role of each argument of the function.
    """
    for view, _ in list(structured_ops(function.regions[0].blocks[0])):
        op = view.operation
        read = read_op(op, roles)
        if read is None or read.contraction is None or not is_transposed_slowly(read.contraction):
            continue
        b = op.operands[1]
        if open_dimensions(b) or read.operands[1].role == "weight":
            continue
        rank = len(b.type.shape)
        with ir.InsertionPoint(op), op.location:
            op.operands[1] = permuted(b, [*range(rank - 2), rank - 1, rank - 2])
        maps = indexing_maps(op)
        *lead, n, k = maps[1].results
        maps[1] = ir.AffineMap.get(maps[1].n_dims, 0, [*lead, k, n])
        op.attributes["indexing_maps"] = ir.ArrayAttr.get([ir.AffineMapAttr.get(each) for each in maps])


def is_transposed_slowly(c: Contraction) -> bool:
    """Return whether transposing B of a product beforehand is faster."""
    is_f32 = c.dtype == "f32" and not c.stored_b
    return is_f32 and c.transposed_b and c.m >= LEAST_ROWS and c.n > 1 and (c.k % SIDE > 0 or c.n < NARROW)
