"""Windows written out: what named ops with windows compute, as generic ops whose loops are plain to see.

    linalg.depthwise_conv_2d_nhwc_hwc   ->   linalg.generic: y[n, h, w, c] += x[n, h + i, w + j, c] * k[i, j, c]

Dimensions of size 1 are then dropped from it, and a product and its sum may become one multiply-add, as in a matmul.
A kernel that is widened first is read as it is stored: half the bytes are read, and it is seen as a weight.
"""

from collections.abc import Callable

from mlir import ir
from mlir.dialects import arith

from autotune.compiler.ir.module import every_op
from autotune.compiler.ir.nests import dimensions, indexing_maps, loop_nest
from autotune.compiler.ir.values import maker, reassociation
from autotune.compiler.normalise.emit import generic, part_read, unflat
from autotune.compiler.normalise.types.narrow import widens

CONTRACT = "#arith.fastmath<contract>"
OPERANDS = 3
EXPAND = "tensor.expand_shape"


def multiply_add(x: ir.Value, kernel: ir.Value, there: ir.Value) -> ir.Value:
    """What was there, plus a product, which need not be rounded before."""
    contract = ir.Attribute.parse(CONTRACT)
    factor = kernel if kernel.type == there.type else arith.extf(there.type, kernel)
    return arith.addf(there, arith.mulf(x, factor, fastmath=contract), fastmath=contract)


BODIES = {  # of a window, by what the name of an op holds
    "conv_": multiply_add,
    "pooling_nhwc_max": lambda x, _, there: arith.maximumf(there, x),
    "pooling_nhwc_sum": lambda x, _, there: arith.addf(there, x),
}


def body_of(op: ir.Operation) -> Callable[..., ir.Value] | None:
    """What a named convolution, or pool with channels last, computes at a point of a window; `None` of other ops."""
    return next((body for name, body in BODIES.items() if op.name.startswith("linalg.") and name in op.name), None)


def has_windows(module: ir.Module) -> bool:
    """Tell whether a module has a named convolution or pool that would be written out."""
    return any(body_of(op) is not None for op in every_op(module))


def write_windows_out(module: ir.Module) -> None:
    """Make named convolutions and pools of f32 generic ops, in place; products and their sums may be contracted."""
    for op in every_op(module):
        body = body_of(op)
        if body is None or not all(map(holds_f32, op.operands)) or len(op.operands) != OPERANDS or not len(op.results):
            continue
        maps = indexing_maps(op)
        written = dimensions(maps[-1])
        kinds = ["parallel" if d in written else "reduction" for d in range(maps[-1].n_dims)]
        x, kernel, into = op.operands
        nest = loop_nest(op)
        with ir.InsertionPoint(op), op.location:
            read = part_read(x, maps[0], nest.sizes) if nest is not None else x
            result = generic([read, as_stored(kernel)], into, maps, kinds, body)
        op.results[0].replace_all_uses_with(result)
        op.erase()


def as_stored(kernel: ir.Value) -> ir.Value:
    """What a kernel is widened from, before or behind a change of its shape; itself where it is not."""
    made_by = maker(kernel)
    if made_by is None:
        return kernel
    if widens(made_by):
        return made_by.operands[0]
    if made_by.name != EXPAND or (stored := as_stored(made_by.operands[0])) == made_by.operands[0]:
        return kernel
    return unflat(stored, reassociation(made_by), list(kernel.type.shape))


def holds_f32(value: ir.Value) -> bool:
    """Tell whether a value is a tensor of f32."""
    return isinstance(value.type, ir.RankedTensorType) and isinstance(value.type.element_type, ir.F32Type)
