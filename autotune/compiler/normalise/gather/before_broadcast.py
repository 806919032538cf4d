"""Places that are repeated before elements are read at them: read where they lie, once a row.

    P[i, j] = ids[i];  y[i, j] = x[P[i, j], j]   ->   y[i, j] = x[ids[i], j]

A gather then sees that a place is the same for a whole row, and reads the row in vectors.
"""

from mlir import ir

from autotune.compiler.ir.module import every_op, run_passes
from autotune.compiler.ir.nests import dimensions, indexing_maps, moves_elements
from autotune.compiler.ir.values import maker

COPIES = ("linalg.generic", "linalg.broadcast", "linalg.transpose")


def read_places_before_repeating(module: ir.Module) -> None:
    """Let ops that read elements be given their operands as they were before copies repeated them, in place."""
    changed = False
    for op in every_op(module):
        if op.name == "linalg.generic" and reads_elements(op):
            for number in range(len(op.operands) - len(op.results)):
                while (source := copied_from(op.operands[number])) is not None:
                    read_from(op, number, source)
                    changed = True
    if changed:
        run_passes(module, "builtin.module(canonicalize,cse)")


def reads_elements(op: ir.Operation) -> bool:
    """Tell whether a body reads elements of tensors."""
    return any(inner.operation.name == "tensor.extract" for inner in op.regions[0].blocks[0].operations)


def copied_from(value: ir.Value) -> ir.Operation | None:
    """The op that copies elements of a tensor to a value, some of them to several places; `None` if that is all."""
    op = maker(value)
    if op is None or op.name not in COPIES or not moves_elements(op):
        return None
    read, written = map(dimensions, indexing_maps(op))
    return op if None not in read and written == list(range(len(written))) else None


def read_from(op: ir.Operation, number: int, copy: ir.Operation) -> None:
    """Give an op what was copied, read by both maps, one after the other."""
    maps, (read, _) = indexing_maps(op), indexing_maps(copy)
    amap = maps[number]
    maps[number] = ir.AffineMap.get(amap.n_dims, 0, [expr.compose(amap) for expr in read.results])
    op.operands[number] = copy.operands[0]
    op.attributes["indexing_maps"] = ir.ArrayAttr.get([ir.AffineMapAttr.get(each) for each in maps])
