"""Transposed operands of products: read where they lie instead of being transposed in every call."""

from mlir import ir
from mlir.dialects import linalg

from autotune.compiler.ir.module import every_op, run_passes
from autotune.compiler.ir.nests import dimensions, indexing_maps, moves_elements
from autotune.compiler.ir.values import maker


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
