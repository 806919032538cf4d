"""Rewrite pointwise (1x1) convolutions in NCHW as matrix products over all positions of a plane.

    y[n, f, h, w] += x[n, c, h, w] * k[f, c, 0, 0]   ->   Y[n, f, p] += K[f, c] * X[n, c, p], of p = (h, w)

Positions of a plane or volume are contiguous: nothing is transposed, and rows do not end in partial vectors.
"""

from collections.abc import Sequence
from math import prod

from mlir import ir
from mlir.dialects import arith, linalg

from autotune.compiler.normalise.convolution.window_sums import holds_f32, multiply_add
from autotune.compiler.normalise.convolution.windows import KERNEL_BACK, before_transpose, bias_of, steps_of, with_bias
from autotune.compiler.normalise.emit import dims, filled, flat, generic, unflat

PLANES, VOLUMES = "linalg.conv_2d_nchw_fchw", "linalg.conv_3d_ncdhw_fcdhw"
LEAST_POSITIONS = 16  # with fewer positions, vectors of channels are longer


def product_of(op: ir.Operation) -> ir.Value | None:
    """Build a pointwise convolution with channels first as a product; `None` for any other operation."""
    if op.name not in (PLANES, VOLUMES) or not all(map(holds_f32, op.operands)) or not is_pointwise(op):
        return None
    x, kernel, start = op.operands
    shape = list(op.results[0].type.shape)
    if prod(shape[2:]) < LEAST_POSITIONS:
        return None
    groups = [[0], [1], list(range(2, len(shape)))]
    bias, element_type = bias_of(start), op.results[0].type.element_type
    if bias is None:
        into = flat(start, groups)
    else:
        into = filled([*shape[:2], prod(shape[2:])], element_type, arith.constant(element_type, 0.0))
    result = multiplied(matrix_of(kernel), flat(x, groups), into)
    return unflat(result if bias is None else with_bias(result, bias, 1), groups, shape)


def is_pointwise(op: ir.Operation) -> bool:
    """Return whether a convolution is pointwise: unit kernel size and strides."""
    return {*op.operands[1].type.shape[2:], *steps_of(op, "strides")} == {1}


def matrix_of(kernel: ir.Value) -> tuple[ir.Value, bool]:
    """Return a kernel ``(f, c, 1..)`` as a matrix, and whether the matrix is stored as ``(c, f)``."""
    rank = len(kernel.type.shape)
    last = before_transpose(kernel, KERNEL_BACK[rank])
    if last is not None:
        return flat(last, [[*range(rank - 1)], [rank - 1]]), True
    return flat(kernel, [[0], [*range(1, rank)]]), False


def multiplied(matrix: tuple[ir.Value, bool], x: ir.Value, into: ir.Value) -> ir.Value:
    """Build the product of a matrix ``(f, c)`` and a batch ``(n, c, p)``, accumulated into ``(n, f, p)``."""
    a, transposed = matrix
    if x.type.shape[0] == 1:
        groups = [[0, 1], [2]]
        m, n, k = dims(3)
        maps = reads(3, [k, m] if transposed else [m, k], [k, n], [m, n])
        indexing_maps = ir.ArrayAttr.get([ir.AffineMapAttr.get(amap) for amap in maps])
        product = linalg.matmul(a, flat(x, groups), outs=[flat(into, groups)], indexing_maps=indexing_maps)
        return unflat(product, groups, into.type.shape)
    b, m, n, k = dims(4)
    maps = reads(4, [k, m] if transposed else [m, k], [b, k, n], [b, m, n])
    return generic([a, x], into, maps, ["parallel"] * 3 + ["reduction"], multiply_add)


def reads(loops: int, *results: Sequence[ir.AffineExpr]) -> list[ir.AffineMap]:
    """Return indexing maps from loops to the given index expressions of each operand."""
    return [ir.AffineMap.get(loops, 0, list(each)) for each in results]
