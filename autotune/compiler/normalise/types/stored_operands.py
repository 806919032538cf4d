"""Operands of products that are widened first: read as they are stored, and widened where they are multiplied."""

from mlir import ir
from mlir.dialects import linalg

from autotune.compiler.ir.module import every_op, run_passes
from autotune.compiler.ir.nests import WIDENED, element_type, indexing_maps
from autotune.compiler.ir.values import maker

PRODUCTS = {"linalg.matmul": linalg.matmul, "linalg.batch_matmul": linalg.batch_matmul}


def read_as_stored(module: ir.Module) -> None:
    """Let products read B in the type that it is stored in, in place.

        W = extf(w);  C[m, n] += A[m, k] * W[k, n]   ->   C[m, n] += A[m, k] * extf(w[k, n])

    Half the bytes are read, and w is seen as a weight.
    """
    changed = False
    for op in every_op(module):
        if op.name in PRODUCTS:
            changed |= read_before_widening(op)
    if changed:
        run_passes(module, "builtin.module(canonicalize,cse)")


def read_before_widening(op: ir.Operation) -> bool:
    """Let B of a product be read before it is widened; tells whether it is."""
    made_by = maker(op.operands[1])
    if made_by is None or not widens(made_by) or element_type(op.operands[0]) != "f32":
        return False
    maps = ir.ArrayAttr.get([ir.AffineMapAttr.get(amap) for amap in indexing_maps(op)])
    with ir.InsertionPoint(op), op.location:
        a, _, c = op.operands
        plain = PRODUCTS[op.name](a, made_by.operands[0], outs=[c], indexing_maps=maps)
    op.results[0].replace_all_uses_with(plain)
    op.erase()
    return True


def widens(op: ir.Operation) -> bool:
    """Tell whether an op gives a tensor widened to f32, and does nothing else."""
    if op.name != "linalg.generic" or len(op.operands) != 2 or element_type(op.operands[0]) not in WIDENED:
        return False
    block = op.regions[0].blocks[0]
    names = [inner.operation.name for inner in block.operations]
    same = len({str(amap) for amap in indexing_maps(op)}) == 1
    return same and names == ["arith.extf", "linalg.yield"] and element_type(op.results[0]) == "f32"
