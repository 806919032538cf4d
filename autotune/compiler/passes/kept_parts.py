"""Copy tensors before a partial update, if bufferization would lose the elements that are not updated.

    y = insert v into x[0, 0][1, n]   ->   c = a copy of x;  y = insert v into c[0, 0][1, n]
    y = x + a b                       ->   c = a copy of x;  y = c + a b

An op that accumulates into an argument is tiled, and its first tile is such an insertion.

Schedules write a tile without its unit dimensions, as a vector of lower rank than the tensor. Upstream compares the
vector's sizes with the leading ones of the tensor (`TransferWriteOpInterface::bufferizesToMemoryRead`). If none is
smaller, it assumes that the whole tensor is overwritten, and does not copy the other elements to a new buffer.
"""

from mlir import ir
from mlir.dialects import bufferization

from autotune.compiler.ir.arguments import ROLE, attributes_of
from autotune.compiler.ir.module import every_op
from autotune.compiler.ir.values import is_constant, maker, static_slice

RESHAPES = ("memref.collapse_shape", "memref.expand_shape")
VIEWS = ("tensor.expand_shape", "tensor.collapse_shape", "tensor.extract_slice", "tensor.cast")
PUT = "tensor.insert_slice"
LONGEST = 128  # upper limit of vector lengths, if larger than a row
EMPTY = ("bufferization.alloc_tensor", "tensor.empty")


def replaces_parts(module: ir.Module) -> bool:
    """Return whether a module has partial updates that bufferization would lower incorrectly."""
    return any(map(loses_rest, every_op(module)))


def copy_kept(module: ir.Module) -> None:
    """Let such ops update a copy, in place.

    The copy is placed after the definition of the tensor, so that the producer of the update can write into it.
    """
    for put in [op.operation for op in every_op(module) if loses_rest(op)]:
        number = 1 if put.name == PUT else len(put.operands) - 1
        tensor = put.operands[number]
        made_by = maker(tensor)
        point = ir.InsertionPoint.at_block_begin(tensor.owner) if made_by is None else ir.InsertionPoint.after(made_by)
        with point, put.location:
            put.operands[number] = bufferization.alloc_tensor(tensor.type, [], copy=tensor)


def loses_rest(op: ir.Operation) -> bool:
    """Return whether an op updates a leading part of a tensor that must be preserved, and upstream takes it for all."""
    if op.name.startswith("linalg."):
        return adds_to_what_stays(op)
    if op.name != PUT or len(op.operands) != 2 or not stays(op.operands[1]):
        return False
    offsets, sizes, strides = static_slice(op)
    non_unit, shape = [size for size in sizes if size != 1], list(op.results[0].type.shape)
    seems_all = all(part >= size for part, size in zip(non_unit, shape, strict=False))
    return not any(offsets) and set(strides) == {1} and sizes != shape and seems_all


def adds_to_what_stays(op: ir.Operation) -> bool:
    """Return whether an op accumulates into a read-only argument, and vectors may exceed its first dimension."""
    if len(op.results) != 1 or not op.regions or not len(op.regions[0].blocks):
        return False
    start, elements = op.operands[len(op.operands) - 1], op.regions[0].blocks[0].arguments
    is_read = len(elements) > 0 and any(True for _ in elements[len(elements) - 1].uses)
    shape = list(op.results[0].type.shape)
    return is_read and is_kept(start) and len(shape) > 1 and shape[0] <= max(LONGEST, *shape[1:])


def stays(value: ir.Value) -> bool:
    """Return whether a tensor must be preserved: it has other uses, or is an argument or a constant.

    An uninitialized tensor, as of a pad, need not be, although its slice is also read.
    """
    made_by = maker(value)
    if made_by is not None and (is_result(made_by) or (made_by.name in EMPTY and not len(made_by.operands))):
        return False
    return made_by is None or len(list(value.uses)) > 1 or is_kept(value)


def is_kept(value: ir.Value) -> bool:
    """Return whether a tensor is a read-only argument or a constant, or a view of one."""
    made_by = maker(value)
    while made_by is not None and made_by.name in VIEWS:
        value = made_by.operands[0]
        made_by = maker(value)
    if made_by is None or made_by.name != "bufferization.to_tensor":
        return is_constant(value)
    return "writable" not in made_by.attributes


def is_result(op: ir.Operation) -> bool:
    """Return whether an op converts an output argument to a tensor; its initial contents are never read."""
    memory = op.operands[0] if op.name == "bufferization.to_tensor" else None
    while memory is not None and (made_by := maker(memory)) is not None:
        memory = made_by.operands[0] if made_by.name in RESHAPES else None
    if not isinstance(memory, ir.BlockArgument) or memory.owner.owner.operation.name != "func.func":
        return False
    role = attributes_of(memory.owner.owner, memory.arg_number).get(ROLE)
    return role is not None and str(ir.StringAttr(role).value) == "output"
