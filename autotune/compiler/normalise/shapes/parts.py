"""Let producers write directly into the parts of a padded or concatenated tensor.

    x = f(..) into empty;  p = pad x       ->   b = border of a constant;  x = f(..) into the inside of b;  p = b with x
    x = f(..) into empty;  c = concat x, y ->   x = f(..) into the begin of w;  c = w with x and y

Tensors inserted into an empty one, such as phases in every other row, are handled like concatenated ones. Later users
of a padded x read the inside of p. Concatenations that have an earlier one as prefix copy its result instead of every
part.
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
MOST_PARTS = 64  # of a tensor, as all pairs are checked for overlap


@dataclass(frozen=True)
class Slice:
    """Static slice of a tensor: offset, size and stride along each dimension."""

    offsets: list[int]
    sizes: list[int]
    strides: list[int]

    @classmethod
    def dense(cls, offsets: list[int], sizes: list[int]) -> "Slice":
        """Return a slice with unit strides."""
        return cls(offsets, sizes, [1] * len(sizes))

    def within(self, outer: "Slice") -> "Slice":
        """Compose this slice of a slice `outer` to a slice of the source of `outer`."""
        of_both = zip(outer.offsets, self.offsets, outer.strides, strict=True)
        return Slice(
            [before + here * step for before, here, step in of_both],
            self.sizes,
            [before * here for before, here in zip(outer.strides, self.strides, strict=True)],
        )

    def of(self, whole: ir.Value) -> ir.Value:
        """Build the `tensor.extract_slice` of a tensor."""
        slice_type = ir.RankedTensorType.get(self.sizes, whole.type.element_type)
        return tensor.extract_slice(slice_type, whole, [], [], [], self.offsets, self.sizes, self.strides)

    def is_apart(self, other: "Slice") -> bool:
        """Return whether two slices are disjoint: their ranges do not overlap, or their elements are interleaved."""
        own_dims, other_dims = (zip(each.offsets, each.sizes, each.strides, strict=True) for each in (self, other))
        for (first, size, step), (second, count, pace) in zip(own_dims, other_dims, strict=True):
            if first + (size - 1) * step < second or second + (count - 1) * pace < first:
                return True
            if step == pace and (first - second) % step:
                return True
        return False

    def put(self, part: ir.Value, whole: ir.Value) -> ir.Value:
        """Build the `tensor.insert_slice` of a part into a tensor."""
        return tensor.insert_slice(part, whole, [], [], [], self.offsets, self.sizes, self.strides)


def begin_with_earlier(module: ir.Module) -> None:
    """Let concatenations reuse the longest earlier one that has a prefix of their operands, in place.

        u = concat a, b;  v = concat a, b, c   ->   u = concat a, b;  v = concat u, c

    Densely connected blocks concatenate all previous results again in every layer: n layers take n copies each.
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
    """Replace a prefix of the operands of a concatenation by the longest earlier concatenation equal to it, if any."""
    along = op.attributes["dim"]
    prefixes = [
        (len(others), other.results[0])
        for other, others in earlier
        if other.attributes["dim"] == along and 1 < len(others) < len(parts) and parts[: len(others)] == others
    ]
    if not prefixes:
        return
    count, whole = max(prefixes, key=lambda each: each[0])
    with ir.InsertionPoint(op), op.location:
        fresh = ir.Operation.create(
            NAME, [op.results[0].type], [whole, *parts[count:]], attributes={"dim": along}, loc=op.location
        )
    op.results[0].replace_all_uses_with(fresh.results[0])
    op.erase()


def write_side_by_side(module: ir.Module) -> None:
    """Let producers of concatenated or inserted tensors write to their part of the whole, in place.

    A tensor is left unchanged if it is no result of the function and no producer in its block can write to a part.
    """
    wholes = [(op, parts) for op in every_op(module) if (parts := parts_of(op))]
    changed = [write_parts(op, parts) for op, parts in wholes]
    if any(changed):
        run_passes(module, "builtin.module(canonicalize,cse)")


def parts_of(op: ir.Operation) -> list[tuple[ir.Value, Slice]]:
    """Return the parts that a static tensor is assembled from, in program order; empty for any other operation."""
    if op.name not in (NAME, PUT) or not op.results[0].type.has_static_shape:
        return []
    return concatenated(op) if op.name == NAME else put_into_empty(op)


def concatenated(op: ir.Operation) -> list[tuple[ir.Value, Slice]]:
    """Return the non-empty parts of a concatenation; empty if a size is dynamic."""
    along, begin, parts = op.attributes["dim"].value, 0, []
    for operand in op.operands:
        producer = maker(operand)
        value = producer.operands[0] if producer is not None and producer.name == "tensor.cast" else operand
        if not value.type.has_static_shape:
            return []
        shape = list(value.type.shape)
        if 0 not in shape:
            parts.append((value, Slice.dense([begin if d == along else 0 for d in range(len(shape))], shape)))
        begin += shape[along]
    return parts


def put_into_empty(op: ir.Operation) -> list[tuple[ir.Value, Slice]]:
    """Return the disjoint parts inserted into an empty tensor, given the last insertion; empty if there are none."""
    if any(use.owner.operation.name == PUT and use.operand_number == 1 for use in op.results[0].uses):
        return []
    parts: list[tuple[ir.Value, Slice]] = []
    last: ir.Operation | None = op
    while last is not None and last.name == PUT:
        part, whole, *dynamic_operands = last.operands
        if dynamic_operands or part.type.rank != whole.type.rank or (parts and not has_one_use(last.results[0])):
            return []
        parts.append((part, Slice(*static_slice(last))))
        last = maker(whole)
    is_whole = last is not None and last.name == "tensor.empty" and 1 < len(parts) <= MOST_PARTS
    if not is_whole or not all(a.is_apart(b) for (_, a), (_, b) in combinations(parts, 2)):
        return []  # of two overlapping parts, the later one would have to win
    return parts[::-1]


def write_parts(op: ir.Operation, parts: Sequence[tuple[ir.Value, Slice]]) -> bool:
    """Write a tensor part by part; return whether the whole, or some part, can be written in place."""
    written_in_place, copied = list[tuple[ir.Operation, Slice]](), list[tuple[ir.Value, Slice]]()
    for value, cut in parts:
        writer = maker(value)
        if writer is not None and writer.block == op.block and has_one_use(value) and writes_to_empty(writer):
            written_in_place.append((writer, cut))
        else:
            copied.append((value, cut))
    if not written_in_place and result_buffer(op) is None:
        return False
    written_in_place.sort(key=cmp_to_key(in_program_order))
    with ir.InsertionPoint(written_in_place[0][0] if written_in_place else op), op.location:
        whole = empty_whole(op)
    for writer, cut in written_in_place:
        with ir.InsertionPoint(writer), writer.location:
            write_to(writer, cut.of(whole))
        with ir.InsertionPoint.after(writer), op.location:
            whole = cut.put(writer.results[0], whole)
    with ir.InsertionPoint(op), op.location:
        for value, cut in copied:
            whole = cut.put(value, whole)
    op.results[0].replace_all_uses_with(whole)
    return True


def in_program_order(part: tuple[ir.Operation, Slice], other: tuple[ir.Operation, Slice]) -> int:
    """Compare two parts by the program order of their producers, for `cmp_to_key`."""
    return -1 if part[0].is_before_in_block(other[0]) else 1


def has_one_use(value: ir.Value) -> bool:
    """Return whether a value has exactly one use."""
    return len(list(value.uses)) == 1


def empty_whole(op: ir.Operation) -> ir.Value:
    """Return the tensor that the result of an operation is assembled in: that of its argument, or a new one."""
    tensor_type, target = op.results[0].type, result_buffer(op)
    if target is None:
        return bufferization.alloc_tensor(tensor_type, [])
    return bufferization.to_tensor(tensor_type, target, restrict=True, writable=True)


def write_inside_borders(module: ir.Module) -> None:
    """Replace static pads by a filled border and a producer that writes inside of it, in place."""
    pads = [op for op in every_op(module) if op.name == "tensor.pad" and is_plain_pad(op)]
    pads = [op for op in pads if not is_gathered(op.operands[0])]
    for op in pads:
        write_inside_border(op)
    if pads:
        run_passes(module, "builtin.module(canonicalize,cse)")


def is_gathered(value: ir.Value) -> bool:
    """Return whether a tensor, or a view of it, is read by `tensor.extract`, for which it must be contiguous."""
    users = [use.owner.operation for use in value.uses]
    return any(op.name == GATHER or (op.name in SEEN and is_gathered(op.results[0])) for op in users)


def write_inside_border(pad: ir.Operation) -> None:
    """Replace one pad by a border and an insertion of its source."""
    source, padded_type = pad.operands[0], pad.results[0].type
    value = pad.regions[0].blocks[0].operations[0].operation.operands[0]
    inside = Slice.dense(list(ir.DenseI64ArrayAttr(pad.attributes["static_low"])), list(source.type.shape))
    writer = maker(source)
    fresh = writer is not None and writes_to_empty(writer)
    with ir.InsertionPoint(writer if fresh else pad), pad.location:
        whole = empty_whole(pad)
        constant = value.owner.clone().operation.results[0]
        for cut in sides(inside, padded_type.shape):
            whole = cut.put(linalg.fill(constant, outs=[cut.of(whole)]), whole)
        if writer is not None and fresh:
            write_to(writer, inside.of(whole))
    later = [use for use in source.uses if use.owner.operation != pad and comes_later(use.owner.operation, pad)]
    with ir.InsertionPoint(pad), pad.location:
        whole = inside.put(source, whole)
        inner = inside.of(whole)
    for use in later:
        use.owner.operation.operands[use.operand_number] = inner
    pad.results[0].replace_all_uses_with(whole)
    pad.erase()


def result_buffer(op: ir.Operation) -> ir.Value | None:
    """Return the argument that the result of an operation is written to; `None` if either has another use."""
    users = [use.owner.operation for use in op.results[0].uses]
    if [user.name for user in users] != ["bufferization.materialize_in_destination"]:
        return None
    target = users[0].operands[1]
    is_argument = isinstance(target.owner, ir.Block) and isinstance(target.type, ir.MemRefType)
    return target if is_argument and len(list(target.uses)) == 1 else None


def writes_to_empty(op: ir.Operation) -> bool:
    """Return whether a structured operation has one result, with an empty or filled tensor as its destination."""
    if not op.name.startswith("linalg.") or len(op.results) != 1:
        return False
    fill = fill_of(op.operands[-1])
    into = maker((fill or op).operands[-1])
    return into is not None and into.name == "tensor.empty"


def write_to(op: ir.Operation, into: ir.Value) -> None:
    """Replace the destination of an operation, and of the fill of that destination, by another tensor."""
    fill = fill_of(op.operands[-1])
    if fill is not None:
        fill = fill.clone().operation
        fill.operands[-1] = into
    op.operands[len(op.operands) - 1] = fill.results[0] if fill is not None else into


def comes_later(op: ir.Operation, pad: ir.Operation) -> bool:
    """Return whether an operation follows a pad in the same block."""
    return bool(op.block == pad.block and pad.is_before_in_block(op))


def sides(inside: Slice, shape: Sequence[int]) -> Iterator[Slice]:
    """Yield disjoint slices that cover the border around a slice: low and high side along each dimension in turn."""
    offsets, sizes = [0] * len(shape), list(shape)
    for dim, (start, size) in enumerate(zip(inside.offsets, inside.sizes, strict=True)):
        for at, length in ((0, start), (start + size, shape[dim] - start - size)):
            if length:
                part = [*offsets[:dim], at, *offsets[dim + 1 :]], [*sizes[:dim], length, *sizes[dim + 1 :]]
                yield Slice.dense(*part)
        offsets[dim], sizes[dim] = start, size
