"""Pads by a constant: a border around what is written inside at once, instead of a copy of it all.

    x = f(..) into empty;  p = pad x   ->   b = border of a constant;  x = f(..) into the inside of b;  p = b with x

What reads x behind that reads the inside of p.
"""

from collections.abc import Iterator, Sequence

from mlir import ir
from mlir.dialects import bufferization, linalg, tensor

from autotune.compiler.ir.module import every_op, run_passes
from autotune.compiler.ir.values import fill_of, is_constant, maker

Place = tuple[list[int], list[int]]  # offsets and sizes of a part of a tensor


def write_inside_borders(module: ir.Module) -> None:
    """Replace pads by amounts known beforehand, in place."""
    pads = [op for op in every_op(module) if op.name == "tensor.pad" and is_plain(op)]
    for op in pads:
        write_inside_border(op)
    if pads:
        run_passes(module, "builtin.module(canonicalize,cse)")


def is_plain(pad: ir.Operation) -> bool:
    """Tell whether a pad is by a constant, and shapes and amounts are known."""
    body = [inner.operation for inner in pad.regions[0].blocks[0].operations]
    known = pad.operands[0].type.has_static_shape and pad.results[0].type.has_static_shape
    return known and len(pad.operands) == 1 and len(body) == 1 and is_constant(body[0].operands[0])


def write_inside_border(pad: ir.Operation) -> None:
    """Replace one pad."""
    source, kind = pad.operands[0], pad.results[0].type
    value = pad.regions[0].blocks[0].operations[0].operation.operands[0]
    inside: Place = (list(ir.DenseI64ArrayAttr(pad.attributes["static_low"])), list(source.type.shape))
    writer = maker(source)
    fresh = writer is not None and writes_to_empty(writer)
    with ir.InsertionPoint(writer if fresh else pad), pad.location:
        whole = bufferization.alloc_tensor(kind, [])
        constant = value.owner.clone().operation.results[0]
        for place in sides(inside, kind.shape):
            whole = put(linalg.fill(constant, outs=[part_of(whole, place)]), whole, place)
        if writer is not None and fresh:
            write_to(writer, part_of(whole, inside))
    later = [use for use in source.uses if use.owner.operation != pad and comes_later(use.owner.operation, pad)]
    with ir.InsertionPoint(pad), pad.location:
        whole = put(source, whole, inside)
        again = part_of(whole, inside)
    for use in later:
        use.owner.operation.operands[use.operand_number] = again
    pad.results[0].replace_all_uses_with(whole)
    pad.erase()


def writes_to_empty(op: ir.Operation) -> bool:
    """Tell whether a structured op has one result, which goes to a tensor that holds nothing, or one constant."""
    if not op.name.startswith("linalg.") or len(op.results) != 1:
        return False
    fill = fill_of(op.operands[-1])
    into = maker((fill or op).operands[-1])
    return into is not None and into.name == "tensor.empty"


def write_to(op: ir.Operation, place: ir.Value) -> None:
    """Let an op, and what fills its destination with a constant first, write to a place instead."""
    fill = fill_of(op.operands[-1])
    if fill is not None:
        fill = fill.clone().operation
        fill.operands[-1] = place
    op.operands[len(op.operands) - 1] = fill.results[0] if fill is not None else place


def comes_later(op: ir.Operation, pad: ir.Operation) -> bool:
    """Tell whether an op of the same block follows a pad."""
    return bool(op.block == pad.block and pad.is_before_in_block(op))


def part_of(whole: ir.Value, place: Place) -> ir.Value:
    """A part of a tensor."""
    offsets, sizes = place
    kind = ir.RankedTensorType.get(sizes, whole.type.element_type)
    return tensor.extract_slice(kind, whole, [], [], [], offsets, sizes, [1] * len(sizes))


def put(part: ir.Value, whole: ir.Value, place: Place) -> ir.Value:
    """A tensor with a part of it replaced."""
    offsets, sizes = place
    return tensor.insert_slice(part, whole, [], [], [], offsets, sizes, [1] * len(sizes))


def sides(inside: Place, shape: Sequence[int]) -> Iterator[Place]:
    """Parts of a tensor that are not inside, none in another: below and above along each dimension in turn."""
    offsets, sizes = [0] * len(shape), list(shape)
    for dim, (start, size) in enumerate(zip(*inside, strict=True)):
        for at, length in ((0, start), (start + size, shape[dim] - start - size)):
            if length:
                yield [*offsets[:dim], at, *offsets[dim + 1 :]], [*sizes[:dim], length, *sizes[dim + 1 :]]
        offsets[dim], sizes[dim] = start, size
