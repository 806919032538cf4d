"""Replace `tensor.extract` of non-contiguous slices by reads of the source, or of a copy.

    s = x[:, 3], rank-reduced;  y = s[i, j]   ->   y = x[i, 3, j]
    s = x[::2];  y = s[i, j]                  ->   y = x[2 i, j]

Upstream vectorizes such reads by `vector.gather` with linearized indices, which are wrong if the tensor is not
contiguous.
"""

from mlir import ir
from mlir.dialects import bufferization

from autotune.compiler.ir.module import every_op, run_passes
from autotune.compiler.ir.values import maker, static_slice
from autotune.compiler.normalise.shapes.dimensions import VIEWS
from autotune.compiler.normalise.shapes.slices import read_of_whole

CUT = "tensor.extract_slice"


def read_scattered_elements(module: ir.Module) -> None:
    """Let bodies extract elements of contiguous tensors only, in place."""
    reads = [op.operation for op in every_op(module) if op.name == "tensor.extract" and is_scattered(op.operands[0])]
    for read in reads:
        last = read_of_wholes(read)
        value = last.operands[0]
        if is_scattered(value):
            with ir.InsertionPoint.after(value.owner), last.location:
                last.operands[0] = bufferization.alloc_tensor(value.type, [], copy=value)
    if reads:
        run_passes(module, "builtin.module(canonicalize,cse)")


def read_of_wholes(read: ir.Operation) -> ir.Operation:
    """Replace a read of nested slices by a read of their source, as long as offsets are constants."""
    cut = maker(read.operands[0])
    if cut is None or not is_known(cut) or not is_scattered(read.operands[0]):
        return read
    return read_of_wholes(read_of_whole(read, cut))


def is_scattered(value: ir.Value) -> bool:
    """Return whether a tensor is a non-contiguous slice, or a view of one."""
    producer = maker(value)
    if producer is None or producer.name not in (CUT, *VIEWS):
        return False
    return (producer.name == CUT and not is_one_piece(producer)) or is_scattered(producer.operands[0])


def is_one_piece(cut: ir.Operation) -> bool:
    """Return whether a slice is contiguous in its source."""
    _, sizes, strides = static_slice(cut)
    source_shape = cut.operands[0].type.shape
    parts = [d for d, size in enumerate(sizes) if size != source_shape[d]]
    return all(sizes[d] == 1 for d in range(max(parts, default=0))) and all(
        stride == 1 for size, stride in zip(sizes, strides, strict=True) if size != 1
    )


def is_known(cut: ir.Operation) -> bool:
    """Return whether an operation is a slice with constant offsets."""
    return cut.name == CUT and len(cut.operands) == 1
