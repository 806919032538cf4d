"""Parts of a tensor: what is put together of several, or has a border around it, is written there at once.

    x = f(..) into empty;  p = pad x       ->   b = border of a constant;  x = f(..) into the inside of b;  p = b with x
    x = f(..) into empty;  c = concat x, y ->   x = f(..) into the begin of w;  c = w with x and y

Tensors that are put into an empty one, as phases every other row, are like those that are concatenated. What reads a
padded x behind that reads the inside of p. Concatenations that begin as an earlier one copy what that one made instead
of every part of it again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cmp_to_key
from itertools import combinations

from mlir import ir
from mlir.dialects import bufferization, linalg, tensor

from autotune.compiler.ir.module import every_op, run_passes
from autotune.compiler.ir.values import fill_of, maker, static_slice
from autotune.compiler.normalise.shapes.dimensions import VIEWS
from autotune.compiler.normalise.shapes.slices import is_plain_pad

GATHER = "tensor.extract"
SEEN = ("tensor.extract_slice", *VIEWS)
NAME, PUT = "tensor.concat", "tensor.insert_slice"
MOST_PARTS = 64  # of a tensor, each of which is compared with each other


@dataclass(frozen=True)
class Slice:
    """A part of a tensor: its first element, its elements, and how far they are apart, along each dimension."""

    offsets: list[int]
    sizes: list[int]
    strides: list[int]

    @classmethod
    def dense(cls, offsets: list[int], sizes: list[int]) -> "Slice":
        """A part of neighbours."""
        return cls(offsets, sizes, [1] * len(sizes))

    def within(self, outer: "Slice") -> "Slice":
        """This part of another part, as one of what that is a part of."""
        of_both = zip(outer.offsets, self.offsets, outer.strides, strict=True)
        return Slice(
            [before + here * step for before, here, step in of_both],
            self.sizes,
            [before * here for before, here in zip(outer.strides, self.strides, strict=True)],
        )

    def of(self, whole: ir.Value) -> ir.Value:
        """The part of a tensor."""
        kind = ir.RankedTensorType.get(self.sizes, whole.type.element_type)
        return tensor.extract_slice(kind, whole, [], [], [], self.offsets, self.sizes, self.strides)

    def is_apart(self, other: "Slice") -> bool:
        """Tell whether another part has no element of this one: they begin behind each other, or take turns."""
        mine, theirs = (zip(each.offsets, each.sizes, each.strides, strict=True) for each in (self, other))
        for (first, size, step), (second, count, pace) in zip(mine, theirs, strict=True):
            if first + (size - 1) * step < second or second + (count - 1) * pace < first:
                return True
            if step == pace and (first - second) % step:
                return True
        return False

    def put(self, part: ir.Value, whole: ir.Value) -> ir.Value:
        """A tensor with that part of it replaced."""
        return tensor.insert_slice(part, whole, [], [], [], self.offsets, self.sizes, self.strides)


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


def write_side_by_side(module: ir.Module) -> None:
    """Let ops write what is put together of their results to where it is to be, in place.

    A tensor that is no result, and of which no op of its block makes a part, for nothing else, stays as it is.
    """
    wholes = [(op, parts) for op in every_op(module) if (parts := parts_of(op))]
    changed = [write_parts(op, parts) for op, parts in wholes]
    if any(changed):
        run_passes(module, "builtin.module(canonicalize,cse)")


def parts_of(op: ir.Operation) -> list[tuple[ir.Value, Slice]]:
    """What a static tensor is put together of, in the order in which it is put there; nothing of another op."""
    if op.name not in (NAME, PUT) or not op.results[0].type.has_static_shape:
        return []
    return concatenated(op) if op.name == NAME else put_into_empty(op)


def concatenated(op: ir.Operation) -> list[tuple[ir.Value, Slice]]:
    """The parts of a concatenation that have elements; nothing where a size is not known."""
    along, begin, found = op.attributes["dim"].value, 0, []
    for operand in op.operands:
        made_by = maker(operand)
        value = made_by.operands[0] if made_by is not None and made_by.name == "tensor.cast" else operand
        if not value.type.has_static_shape:
            return []
        shape = list(value.type.shape)
        if 0 not in shape:
            found.append((value, Slice.dense([begin if d == along else 0 for d in range(len(shape))], shape)))
        begin += shape[along]
    return found


def put_into_empty(op: ir.Operation) -> list[tuple[ir.Value, Slice]]:
    """The parts of an empty tensor, each apart from the others, at the op that puts the last there; else nothing."""
    if any(use.owner.operation.name == PUT and use.operand_number == 1 for use in op.results[0].uses):
        return []
    found: list[tuple[ir.Value, Slice]] = []
    last: ir.Operation | None = op
    while last is not None and last.name == PUT:
        part, whole, *others = last.operands
        if others or part.type.rank != whole.type.rank or (found and not has_one_use(last.results[0])):
            return []
        found.append((part, Slice(*static_slice(last))))
        last = maker(whole)
    is_whole = last is not None and last.name == "tensor.empty" and 1 < len(found) <= MOST_PARTS
    if not is_whole or not all(a.is_apart(b) for (_, a), (_, b) in combinations(found, 2)):
        return []  # of two that overlap, the later one stays
    return found[::-1]


def write_parts(op: ir.Operation, parts: Sequence[tuple[ir.Value, Slice]]) -> bool:
    """Let a tensor be written part by part; tells whether it, or some part, can be written where it is to be."""
    fresh, others = list[tuple[ir.Operation, Slice]](), list[tuple[ir.Value, Slice]]()
    for value, cut in parts:
        writer = maker(value)
        if writer is not None and writer.block == op.block and has_one_use(value) and writes_to_empty(writer):
            fresh.append((writer, cut))
        else:
            others.append((value, cut))
    if not fresh and result_buffer(op) is None:
        return False
    fresh.sort(key=cmp_to_key(in_program_order))
    with ir.InsertionPoint(fresh[0][0] if fresh else op), op.location:
        whole = empty_whole(op)
    for writer, cut in fresh:
        with ir.InsertionPoint(writer), writer.location:
            write_to(writer, cut.of(whole))
        with ir.InsertionPoint.after(writer), op.location:
            whole = cut.put(writer.results[0], whole)
    with ir.InsertionPoint(op), op.location:
        for value, cut in others:
            whole = cut.put(value, whole)
    op.results[0].replace_all_uses_with(whole)
    return True


def in_program_order(part: tuple[ir.Operation, Slice], other: tuple[ir.Operation, Slice]) -> int:
    """Below zero where the op of a part comes before that of another in their block, as `cmp_to_key` takes it."""
    return -1 if part[0].is_before_in_block(other[0]) else 1


def has_one_use(value: ir.Value) -> bool:
    """Tell whether nothing but one operand of one op reads a value."""
    return len(list(value.uses)) == 1


def empty_whole(op: ir.Operation) -> ir.Value:
    """What the result of an op is written to, part by part: the argument that is to hold it, or a new tensor."""
    kind, target = op.results[0].type, result_buffer(op)
    if target is None:
        return bufferization.alloc_tensor(kind, [])
    return bufferization.to_tensor(kind, target, restrict=True, writable=True)


def write_inside_borders(module: ir.Module) -> None:
    """Replace pads by amounts known beforehand, in place."""
    pads = [op for op in every_op(module) if op.name == "tensor.pad" and is_plain_pad(op)]
    pads = [op for op in pads if not is_gathered(op.operands[0])]
    for op in pads:
        write_inside_border(op)
    if pads:
        run_passes(module, "builtin.module(canonicalize,cse)")


def is_gathered(value: ir.Value) -> bool:
    """Tell whether an op reads elements of a tensor, or of a view of it, at indices: it must lie in one piece then."""
    users = [use.owner.operation for use in value.uses]
    return any(op.name == GATHER or (op.name in SEEN and is_gathered(op.results[0])) for op in users)


def write_inside_border(pad: ir.Operation) -> None:
    """Replace one pad."""
    source, kind = pad.operands[0], pad.results[0].type
    value = pad.regions[0].blocks[0].operations[0].operation.operands[0]
    inside = Slice.dense(list(ir.DenseI64ArrayAttr(pad.attributes["static_low"])), list(source.type.shape))
    writer = maker(source)
    fresh = writer is not None and writes_to_empty(writer)
    with ir.InsertionPoint(writer if fresh else pad), pad.location:
        whole = empty_whole(pad)
        constant = value.owner.clone().operation.results[0]
        for cut in sides(inside, kind.shape):
            whole = cut.put(linalg.fill(constant, outs=[cut.of(whole)]), whole)
        if writer is not None and fresh:
            write_to(writer, inside.of(whole))
    later = [use for use in source.uses if use.owner.operation != pad and comes_later(use.owner.operation, pad)]
    with ir.InsertionPoint(pad), pad.location:
        whole = inside.put(source, whole)
        again = inside.of(whole)
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


def write_to(op: ir.Operation, into: ir.Value) -> None:
    """Let an op, and what fills its destination with a constant first, write there instead."""
    fill = fill_of(op.operands[-1])
    if fill is not None:
        fill = fill.clone().operation
        fill.operands[-1] = into
    op.operands[len(op.operands) - 1] = fill.results[0] if fill is not None else into


def comes_later(op: ir.Operation, pad: ir.Operation) -> bool:
    """Tell whether an op of the same block follows a pad."""
    return bool(op.block == pad.block and pad.is_before_in_block(op))


def sides(inside: Slice, shape: Sequence[int]) -> Iterator[Slice]:
    """Parts of a tensor that are not inside, none in another: below and above along each dimension in turn."""
    offsets, sizes = [0] * len(shape), list(shape)
    for dim, (start, size) in enumerate(zip(inside.offsets, inside.sizes, strict=True)):
        for at, length in ((0, start), (start + size, shape[dim] - start - size)):
            if length:
                part = [*offsets[:dim], at, *offsets[dim + 1 :]], [*sizes[:dim], length, *sizes[dim + 1 :]]
                yield Slice.dense(*part)
        offsets[dim], sizes[dim] = start, size
