"""Tensors of which a part is replaced: they are copied beforehand where bufferization would lose the rest.

    y = insert v into x[0, 0][1, n]   ->   c = a copy of x;  y = insert v into c[0, 0][1, n]
    y = x + a b                       ->   c = a copy of x;  y = c + a b

An op that adds to what an argument holds is written part by part, and the first of them is such an insertion.

Schedules write a part without its dimensions of size 1, as a vector of lower rank than the whole. Upstream compares the
vector's sizes with the first ones of the whole (`TransferWriteOpInterface::bufferizesToMemoryRead`), and where none is
smaller it takes the whole for overwritten: what is copied to a new buffer is then the part alone.
"""

from mlir import ir
from mlir.dialects import bufferization

from autotune.compiler.ir.arguments import ROLE, attributes_of
from autotune.compiler.ir.module import every_op
from autotune.compiler.ir.values import is_constant, maker, static_slice

RESHAPES = ("memref.collapse_shape", "memref.expand_shape")
VIEWS = ("tensor.expand_shape", "tensor.collapse_shape", "tensor.extract_slice", "tensor.cast")
PUT = "tensor.insert_slice"
LONGEST = 128  # elements of a vector that is longer than a row
EMPTY = ("bufferization.alloc_tensor", "tensor.empty")


def replaces_parts(module: ir.Module) -> bool:
    """Tell whether a module has ops that bufferization would lose the rest of a tensor at."""
    return any(map(loses_rest, every_op(module)))


def copy_kept(module: ir.Module) -> None:
    """Let such ops write to a copy, in place.

    The copy is made where the tensor is, so that what makes the part can write there.
    """
    for put in [op.operation for op in every_op(module) if loses_rest(op)]:
        number = 1 if put.name == PUT else len(put.operands) - 1
        whole = put.operands[number]
        made_by = maker(whole)
        point = ir.InsertionPoint.at_block_begin(whole.owner) if made_by is None else ir.InsertionPoint.after(made_by)
        with point, put.location:
            put.operands[number] = bufferization.alloc_tensor(whole.type, [], copy=whole)


def loses_rest(op: ir.Operation) -> bool:
    """Tell whether an op replaces a part of a tensor that stays, at its beginning, and which seems to be all of it."""
    if op.name.startswith("linalg."):
        return adds_to_what_stays(op)
    if op.name != PUT or len(op.operands) != 2 or not stays(op.operands[1]):
        return False
    offsets, sizes, strides = static_slice(op)
    left, whole = [size for size in sizes if size != 1], list(op.results[0].type.shape)
    seems_all = all(part >= size for part, size in zip(left, whole, strict=False))
    return not any(offsets) and set(strides) == {1} and sizes != whole and seems_all


def adds_to_what_stays(op: ir.Operation) -> bool:
    """Tell whether an op adds to an argument that stays, and vectors may be longer than the first dimension of that."""
    if len(op.results) != 1 or not op.regions or not len(op.regions[0].blocks):
        return False
    start, elements = op.operands[len(op.operands) - 1], op.regions[0].blocks[0].arguments
    is_read = len(elements) > 0 and any(True for _ in elements[len(elements) - 1].uses)
    shape = list(op.results[0].type.shape)
    return is_read and is_kept(start) and len(shape) > 1 and shape[0] <= max(LONGEST, *shape[1:])


def stays(value: ir.Value) -> bool:
    """Tell whether a tensor must be as it was: something else reads it, or it is an argument or a constant.

    One that holds nothing yet, as that of a pad does, is none, whose part is also read to be written.
    """
    made_by = maker(value)
    if made_by is not None and (is_result(made_by) or (made_by.name in EMPTY and not len(made_by.operands))):
        return False
    return made_by is None or len(list(value.uses)) > 1 or is_kept(value)


def is_kept(value: ir.Value) -> bool:
    """Tell whether a tensor is an argument that is not written, or a constant, or a view of one."""
    made_by = maker(value)
    while made_by is not None and made_by.name in VIEWS:
        value = made_by.operands[0]
        made_by = maker(value)
    if made_by is None or made_by.name != "bufferization.to_tensor":
        return is_constant(value)
    return "writable" not in made_by.attributes


def is_result(op: ir.Operation) -> bool:
    """Tell whether an op gives the memory of a result, of which a call reads nothing before it is written."""
    memory = op.operands[0] if op.name == "bufferization.to_tensor" else None
    while memory is not None and (made_by := maker(memory)) is not None:
        memory = made_by.operands[0] if made_by.name in RESHAPES else None
    if not isinstance(memory, ir.BlockArgument) or memory.owner.owner.operation.name != "func.func":
        return False
    role = attributes_of(memory.owner.owner, memory.arg_number).get(ROLE)
    return role is not None and str(ir.StringAttr(role).value) == "output"
