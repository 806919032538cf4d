"""Generalize named convolutions and pools to `linalg.generic`.

    linalg.depthwise_conv_2d_nhwc_hwc   ->   linalg.generic: y[n, h, w, c] += x[n, h + i, w + j, c] * k[i, j, c]

Unit dimensions can then be dropped, and a product and its sum may be contracted to a fused multiply-add, as in a
matmul. A kernel that is widened first is read in its stored type, which halves the bytes read and identifies it as a
weight.
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
    """Build the sum of an accumulator and a product, which may be contracted to a fused multiply-add."""
    contract = ir.Attribute.parse(CONTRACT)
    factor = kernel if kernel.type == there.type else arith.extf(there.type, kernel)
    return arith.addf(there, arith.mulf(x, factor, fastmath=contract), fastmath=contract)


BODIES = {  # body of a window operation, by substring of its name
    "conv_": multiply_add,
    "pooling_nhwc_max": lambda x, _, there: arith.maximumf(there, x),
    "pooling_nhwc_sum": lambda x, _, there: arith.addf(there, x),
}


def body_of(op: ir.Operation) -> Callable[..., ir.Value] | None:
    """Return the body of a named convolution or NHWC pool; `None` for any other operation."""
    return next((body for name, body in BODIES.items() if op.name.startswith("linalg.") and name in op.name), None)


def has_windows(module: ir.Module) -> bool:
    """Return whether a module has a named convolution or pool that would be generalized."""
    return any(body_of(op) is not None for op in every_op(module))


def write_windows_out(module: ir.Module) -> None:
    """Generalize named convolutions and pools of f32, in place; their products and sums may be contracted."""
    for op in every_op(module):
        body = body_of(op)
        if body is None or not all(map(holds_f32, op.operands)) or len(op.operands) != OPERANDS or not len(op.results):
            continue
        maps = indexing_maps(op)
        written = dimensions(maps[-1])
        iterators = ["parallel" if d in written else "reduction" for d in range(maps[-1].n_dims)]
        x, kernel, into = op.operands
        nest = loop_nest(op)
        with ir.InsertionPoint(op), op.location:
            read = part_read(x, maps[0], nest.sizes) if nest is not None else x
            result = generic([read, as_stored(kernel)], into, maps, iterators, body)
        op.results[0].replace_all_uses_with(result)
        op.erase()


def as_stored(kernel: ir.Value) -> ir.Value:
    """Return the tensor that a kernel is widened from, possibly through a reshape; the kernel itself if it is not."""
    producer = maker(kernel)
    if producer is None:
        return kernel
    if widens(producer):
        return producer.operands[0]
    if producer.name != EXPAND or (stored := as_stored(producer.operands[0])) == producer.operands[0]:
        return kernel
    return unflat(stored, reassociation(producer), list(kernel.type.shape))


def holds_f32(value: ir.Value) -> bool:
    """Return whether a value is a tensor of f32."""
    return isinstance(value.type, ir.RankedTensorType) and isinstance(value.type.element_type, ir.F32Type)
