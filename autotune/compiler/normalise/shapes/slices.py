"""Slices, concatenations and pads: what is only a part of something, or a border around it, is not copied.

Slices that others write as something else, or read elements of, become one slice, or an element of the whole.
Concatenations that begin as an earlier one copy what that one made instead of every part of it again. Pads by a
constant become a border around what is written inside at once:

    x = f(..) into empty;  p = pad x   ->   b = border of a constant;  x = f(..) into the inside of b;  p = b with x

What reads x behind that reads the inside of p.
"""

from collections.abc import Iterator, Sequence

from mlir import ir
from mlir.dialects import arith, bufferization, linalg, tensor

from autotune.compiler.ir.module import every_op, run_passes
from autotune.compiler.ir.nests import indexing_maps
from autotune.compiler.ir.values import fill_of, index, is_constant, maker, static_slice


def cut_negative_pads(module: ir.Module) -> bool:
    """Let pads by less than nothing be slices, and a pad of what is left, in place; tells whether there were any.

        p = pad x by -1 in front, 2 behind   ->   p = pad x[1:] by 0 in front, 2 behind

    Upstream writes outside of what is padded.
    """
    pads = [op for op in every_op(module) if op.name == "tensor.pad" and is_negative(op)]
    for pad in pads:
        source, kind = pad.operands[0], pad.results[0].type
        low, high = amounts(pad)
        offsets = [max(-amount, 0) for amount in low]
        sizes = [
            size - first - max(-last, 0) for size, first, last in zip(source.type.shape, offsets, high, strict=True)
        ]
        left = ir.RankedTensorType.get(sizes, kind.element_type)
        with ir.InsertionPoint(pad), pad.location:
            pad.operands[0] = tensor.extract_slice(left, source, [], [], [], offsets, sizes, [1] * len(sizes))
        for side, given in (("low", low), ("high", high)):
            pad.attributes[f"static_{side}"] = ir.DenseI64ArrayAttr.get([max(amount, 0) for amount in given])
    if pads:
        run_passes(module, "builtin.module(canonicalize)")
    return bool(pads)


def is_negative(pad: ir.Operation) -> bool:
    """Tell whether a pad of a static tensor, by amounts known beforehand, takes something away."""
    known = len(pad.operands) == 1 and pad.operands[0].type.has_static_shape
    return known and any(amount < 0 for side in amounts(pad) for amount in side)


def amounts(pad: ir.Operation) -> tuple[list[int], list[int]]:
    """By how much a pad makes each dimension longer, in front and behind."""
    low, high = (list(ir.DenseI64ArrayAttr(pad.attributes[f"static_{side}"])) for side in ("low", "high"))
    return low, high


def read_elements_of_wholes(module: ir.Module) -> None:
    """Let bodies that read elements of a slice read them of the tensor that it is cut from, in place.

        s = x[.., 3:5];  y = s[.., i]   ->   y = x[.., i + 3]

    Where a slice lies in memory, its elements need not follow each other, and upstream then reads no vectors of them.
    """
    changed = False
    for read in [op for op in every_op(module) if op.name == "tensor.extract"]:
        inner = read.operation
        while (cut := maker(inner.operands[0])) is not None and is_plain(cut):
            inner, changed = read_of_whole(inner, cut), True
    if changed:
        run_passes(module, "builtin.module(canonicalize,cse)")


def read_of_whole(read: ir.Operation, cut: ir.Operation) -> ir.Operation:
    """Read an element of a slice, whose offsets are constants, of the tensor that it is cut from; replaces `read`."""
    given, left, indices = list(read.operands)[1:], list(cut.results[0].type.shape), []
    with ir.InsertionPoint(read), read.location:
        for offset, size, stride in zip(*static_slice(cut), strict=True):
            if left and left[0] == size:  # which of several dimensions of size 1 is dropped is all the same
                left.pop(0)
                along = given.pop(0)
                along = arith.muli(along, index(stride)) if stride != 1 else along
                indices.append(arith.addi(along, index(offset)) if offset else along)
            else:
                indices.append(index(offset))
        whole = tensor.extract(cut.operands[0], indices)
    read.results[0].replace_all_uses_with(whole)
    read.erase()
    return maker(whole)


def is_plain(cut: ir.Operation) -> bool:
    """Tell whether an op cuts a slice of all dimensions, known beforehand, without steps."""
    if cut.name != "tensor.extract_slice" or len(cut.operands) != 1:
        return False
    same_rank = len(cut.results[0].type.shape) == len(cut.operands[0].type.shape)
    return same_rank and set(static_slice(cut)[2]) == {1}


def read_in_steps(module: ir.Module) -> None:
    """Let element-wise ops that read slices by steps read the whole by steps, in place.

        s = x[.., 1::2];  y = f(s[.., i])   ->   y = f(x[.., 2 i + 1])

    Neighbours of such a slice lie apart in memory: an op that reads by steps is known to choose lanes of vectors.
    """
    changed = False
    for op in every_op(module):
        if op.name != "linalg.generic" or "reduction" in str(op.attributes["iterator_types"]):
            continue
        maps = indexing_maps(op)
        for number in range(len(op.operands) - len(op.results)):
            value, amap = op.operands[number], maps[number]
            cuts = list(cuts_by_steps(value))
            if any(static_slice(cut)[2][-1] > 1 for cut in cuts):
                for cut in cuts:
                    value, amap = before_steps(cut, value, amap)
                op.operands[number], maps[number], changed = value, amap, True
        op.attributes["indexing_maps"] = ir.ArrayAttr.get([ir.AffineMapAttr.get(each) for each in maps])
    if changed:
        run_passes(module, "builtin.module(canonicalize,cse)")


def cuts_by_steps(value: ir.Value) -> Iterator[ir.Operation]:
    """Slices of all dimensions, known beforehand, by steps, that a value is cut by, the last one first."""
    cut = maker(value)
    while cut is not None and cut.name == "tensor.extract_slice" and len(cut.operands) == 1:
        if len(cut.results[0].type.shape) != len(cut.operands[0].type.shape) or set(static_slice(cut)[2]) <= {1}:
            return
        yield cut
        cut = maker(cut.operands[0])


def before_steps(cut: ir.Operation, value: ir.Value, amap: ir.AffineMap) -> tuple[ir.Value, ir.AffineMap]:
    """What a slice is cut from, as long as before where it has no steps, and where that is read.

    Args:
        cut: The slice.
        value: A part of its result, from the first element on, that is read.
        amap: Map from loops to where it is read.
    """
    offsets, _, steps = static_slice(cut)
    source, places = cut.operands[0], list(amap.results)
    shape = list(source.type.shape)
    for d, step in enumerate(steps):
        if step > 1 or offsets[d]:
            places[d] = places[d] * step + offsets[d]
        else:
            shape[d] = value.type.shape[d]
    if shape != list(source.type.shape):
        with ir.InsertionPoint(cut), cut.location:
            kind = ir.RankedTensorType.get(shape, source.type.element_type)
            source = tensor.extract_slice(kind, source, [], [], [], [0] * len(shape), shape, [1] * len(shape))
    return source, ir.AffineMap.get(amap.n_dims, 0, places)


NAME = "tensor.concat"


def begin_with_earlier(module: ir.Module) -> None:
    """Let concatenations start from the longest earlier one that they begin as, in place.

        u = concat a, b;  v = concat a, b, c   ->   u = concat a, b;  v = concat u, c

    Blocks that are densely connected concatenate all results so far, again and again: n of them have n copies each.
    """
    blocks: dict[ir.Block, list[ir.Operation]] = {}
    for op in every_op(module):
        if op.name == NAME:
            blocks.setdefault(op.block, []).append(op)
    for ops in blocks.values():
        parts = [list(op.operands) for op in ops]
        for number in reversed(range(1, len(ops))):
            shorten(ops[number], parts[number], list(zip(ops[:number], parts, strict=False)))
    if blocks:
        run_passes(module, "builtin.module(canonicalize,cse)")


def shorten(op: ir.Operation, parts: list[ir.Value], earlier: list[tuple[ir.Operation, list[ir.Value]]]) -> None:
    """Write a concatenation again, from the longest of earlier ones that it begins as; one that there is not stays."""
    along = op.attributes["dim"]
    known = [
        (len(others), other.results[0])
        for other, others in earlier
        if other.attributes["dim"] == along and 1 < len(others) < len(parts) and parts[: len(others)] == others
    ]
    if not known:
        return
    count, whole = max(known, key=lambda each: each[0])
    with ir.InsertionPoint(op), op.location:
        fresh = ir.Operation.create(
            NAME, [op.results[0].type], [whole, *parts[count:]], attributes={"dim": along}, loc=op.location
        )
    op.results[0].replace_all_uses_with(fresh.results[0])
    op.erase()


Place = tuple[list[int], list[int]]  # offsets and sizes of a part of a tensor


def write_inside_borders(module: ir.Module) -> None:
    """Replace pads by amounts known beforehand, in place."""
    pads = [op for op in every_op(module) if op.name == "tensor.pad" and is_plain_pad(op)]
    for op in pads:
        write_inside_border(op)
    if pads:
        run_passes(module, "builtin.module(canonicalize,cse)")


def is_plain_pad(pad: ir.Operation) -> bool:
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
        target = result_buffer(pad)
        if target is None:
            whole = bufferization.alloc_tensor(kind, [])
        else:
            whole = bufferization.to_tensor(kind, target, restrict=True, writable=True)
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


def result_buffer(op: ir.Operation) -> ir.Value | None:
    """The argument that is to hold what an op gives; `None` if there is another use, of either."""
    users = [use.owner.operation for use in op.results[0].uses]
    if [user.name for user in users] != ["bufferization.materialize_in_destination"]:
        return None
    target = users[0].operands[1]
    known = isinstance(target.owner, ir.Block) and isinstance(target.type, ir.MemRefType)
    return target if known and len(list(target.uses)) == 1 else None


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
