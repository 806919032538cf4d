"""Elements that are read of slices whose rows do not follow each other in memory: read of the whole, or of a copy.

    s = x[:, 3], of rank 1 less;  y = s[i, j]   ->   y = x[i, 3, j]
    s = x[::2];  y = s[i, j]                    ->   y = x[2 i, j]

Upstream reads vectors of elements by one number each, counted in the shape of what is read (`vector.gather`): where
that lies in pieces, it counts past them.
"""

from mlir import ir
from mlir.dialects import bufferization

from autotune.compiler.ir.module import every_op, run_passes
from autotune.compiler.ir.values import maker, static_slice
from autotune.compiler.normalise.shapes.dimensions import VIEWS
from autotune.compiler.normalise.shapes.slices import read_of_whole

CUT = "tensor.extract_slice"


def read_scattered_elements(module: ir.Module) -> None:
    """Let bodies read elements of tensors that lie in one piece alone, in place."""
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
    """A read of what is no slice in pieces, as far as slices are known."""
    cut = maker(read.operands[0])
    if cut is None or not is_known(cut) or not is_scattered(read.operands[0]):
        return read
    return read_of_wholes(read_of_whole(read, cut))


def is_scattered(value: ir.Value) -> bool:
    """Tell whether a tensor is a slice, or a view of one, whose elements lie in pieces."""
    made_by = maker(value)
    if made_by is None or made_by.name not in (CUT, *VIEWS):
        return False
    return (made_by.name == CUT and not is_one_piece(made_by)) or is_scattered(made_by.operands[0])


def is_one_piece(cut: ir.Operation) -> bool:
    """Tell whether elements of a slice follow each other in what it is cut from."""
    _, sizes, strides = static_slice(cut)
    whole = cut.operands[0].type.shape
    parts = [d for d, size in enumerate(sizes) if size != whole[d]]
    return all(sizes[d] == 1 for d in range(max(parts, default=0))) and all(
        stride == 1 for size, stride in zip(sizes, strides, strict=True) if size != 1
    )


def is_known(cut: ir.Operation) -> bool:
    """Tell whether an op is a slice whose offsets are constants."""
    return cut.name == CUT and len(cut.operands) == 1
