"""Products with one column of an A that is stored ``(k, m)``: sums down columns."""

from mlir import ir
from mlir.dialects import arith

from autotune.compiler.ir.module import every_op, run_passes
from autotune.compiler.ir.nests import dimensions, indexing_maps
from autotune.compiler.normalise.emit import dims, flat, generic, unflat

PRODUCTS = ("linalg.matmul", "linalg.batch_matmul")
Groups = list[list[int]]


def drop_one_column(module: ir.Module) -> None:
    """Let a product of such an A and a B of one column be one with a vector, in place.

        C[b, m, 0] += A[b, k, m] * B[b, k, 0]   ->   c[b, m] += A[b, k, m] * v[b, k]

    Without the loop of one step, what is read lies side by side along the last loop that is written. Where A is stored
    ``(m, k)``, it lies so along the sum, and the product stays as it is.
    """
    found = [op for op in every_op(module) if op.name in PRODUCTS and has_one_column(op)]
    for op in found:
        a, b, c = op.operands
        maps = [dimensions(amap) for amap in indexing_maps(op)]
        column = maps[2][-1]
        count = len(maps[2]) + 1
        left = [loop for loop in range(count) if loop != column]
        with ir.InsertionPoint(op), op.location:
            groups = [without(column, each) for each in maps]
            taken = [flat(value, parts) for value, parts in zip((a, b, c), groups, strict=True)]
            loops = dims(len(left))
            reads = [
                ir.AffineMap.get(len(left), 0, [loops[left.index(d)] for d in each if d is not None and d != column])
                for each in maps
            ]
            iterators = ["parallel"] * (len(left) - 1) + ["reduction"]
            result = generic(taken[:2], taken[2], reads, iterators, multiply_and_add)
            whole = unflat(result, groups[2], op.results[0].type.shape)
        op.results[0].replace_all_uses_with(whole)
        op.erase()
    if found:
        run_passes(module, "builtin.module(canonicalize,cse)")


def has_one_column(op: ir.Operation) -> bool:
    """Tell whether a product of f32 has one column, several rows, and an A that is stored ``(k, m)``."""
    kinds = {str(value.type.element_type) for value in op.operands}
    a, _, c = (dimensions(amap) for amap in indexing_maps(op))
    shape = list(op.results[0].type.shape)
    return kinds == {"f32"} and shape[-1] == 1 and shape[-2] > 1 and a[-1] == c[-2]


def without(loop: int | None, read: list[int | None]) -> Groups:
    """Dimensions of an operand that belong together when that of a loop, which is 1, is none of its own any more."""
    place = next((at for at, each in enumerate(read) if each == loop), None)
    if place is None:
        return [[at] for at in range(len(read))]
    beside = place - 1 if place else 1
    pair = sorted((place, beside))
    return [pair if at == pair[0] else [at] for at in range(len(read)) if at != pair[1]]


def multiply_and_add(x: ir.Value, y: ir.Value, total: ir.Value) -> ir.Value:
    """What one step of a product adds."""
    return arith.addf(total, arith.mulf(x, y))
