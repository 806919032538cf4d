"""Skip products with the zeros of a pad: restrict reductions over a window to the tensor that was padded.

    for i in 0 to 3: y += p[h + i] * k[i]   ->   for i in max(0, 1 - h) to min(3, 15 - h): y += p[h + i] * k[i]

where `p` has 16 rows and zeros in the first and the last. In a register tile, each position starts at a different
element, so the loop over the window is split into consecutive loops (peeled) instead, each without the products with
zeros:

    for j in 0 to 3: a += p[j] * k[j]; b += p[1 + j] * k[j]   ->   b += p[1] * k[0]; a += p[1] * k[1]; ...

If a row consists of a few such tiles, each tile gets separate loops. The analysis is on buffers: that a pad holds zeros
is derived from the ops that write it, never assumed. Fills of zeros that are no longer read are erased.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby
from math import prod

from mlir import ir
from mlir.dialects import affine

from autotune.compiler.ir.module import every_op
from autotune.compiler.ir.values import constant, index, is_constant, maker, static_slice, trip_count
from autotune.compiler.passes.loads import LOADS, VIEW, LoopIndex, ViewOfBuffer, counted_by, is_read, loads_of, views_of
from autotune.compiler.passes.marked_loops import counter, parents
from autotune.compiler.passes.zeros import BOUNDS, fills_zeros
from autotune.core.scripts.marks import SUMS

INSIDE = "autotune.inside_"  # prefix of a dimension: marks loads that stay inside the padded tensor
LEAST = 0.02  # minimum share of skipped products for which loop bounds change
LEAST_OF_TILES, MOST_TILES = 0.05, 4  # minimum share for separate code for each tile of a row; limit of tiles
Box = tuple[range, ...]


def pads_sums(function: ir.OpView) -> bool:
    """Return whether a function on tensors fills slices of tensors, as do all pads that can be skipped."""
    return any(op.name == "linalg.fill" and is_part(op.operands[-1]) for op in every_op(function.operation))


def is_part(value: ir.Value) -> bool:
    """Return whether a tensor is a slice."""
    made_by = maker(value)
    return made_by is not None and made_by.name == "tensor.extract_slice"


def skip_pads(module: ir.Module) -> None:
    """Skip products with pads in the marked loops of a bufferized module, in place."""
    allocations = [op for op in every_op(module) if op.name == "memref.alloc" and not op.operands]
    innermost = sorted(allocations, key=depth, reverse=True)  # pads in a loop are handled before that loop is cloned
    for pad in filter(None, map(Pad.of, innermost)):
        while (tiles := next(filter(None, map(pad.positions, pad.sums())), None)) is not None:
            part_positions(tiles)
        for loop in pad.sums():
            pad.skip(loop)
        pad.erase_unread()


def depth(op: ir.Operation) -> int:
    """Return the nesting depth of an operation."""
    return sum(1 for _ in parents(op))


@dataclass(frozen=True)
class Pad:
    """A buffer that holds zeros around the padded tensor.

    Attributes:
        buffer: Result of the allocation.
        views: The buffer and its read-only views.
        inside: Index range along each dimension outside of which all elements are zeros.
        fills: Ops that write the zeros, in the block of the allocation.
    """

    buffer: ir.Value
    views: Mapping[ir.Value, ViewOfBuffer]
    inside: Box
    fills: tuple[ir.Operation, ...]

    @classmethod
    def of(cls, allocation: ir.Operation) -> "Pad | None":
        """Analyze the writes to a buffer; `None` if they are not zeros around one box."""
        buffer = allocation.results[0]
        views = {buffer: ViewOfBuffer.whole(len(buffer.type.shape))}
        fills: dict[Box, ir.Operation] = {}
        written: list[Box] = []
        for use in buffer.uses:
            user = use.owner.operation
            if user.name in LOADS:
                continue
            if is_read(user):
                views |= views_of(user, views[buffer])
                continue
            if (box := box_of(user)) is None:
                return None
            if (fill := zeros_of(user, allocation.block)) is not None:
                fills[box] = fill
            else:
                written.append(box)
        if not fills or not written:
            return None
        inside = tuple(
            range(min(d.start for d in dims), max(d.stop for d in dims)) for dims in zip(*written, strict=True)
        )
        boxes = [inside, *fills]
        disjoint = not any(overlap(*pair) for pair in combinations(boxes, 2))
        if not disjoint or sum(prod(map(len, box)) for box in boxes) != prod(buffer.type.shape):
            return None
        return cls(buffer, views, inside, tuple(fills.values()))

    def sums(self) -> list[ir.Operation]:
        """Return the marked loops after the fills that read the pad, innermost first."""
        depths: dict[ir.Operation, int] = {}
        for use in (use for view in self.views for use in view.uses):
            enclosing = list(parents(use.owner.operation)) if use.owner.operation.name in LOADS else []
            outermost = next((op for op in enclosing if op.block == self.fills[0].block), None)
            if outermost is not None and all(fill.is_before_in_block(outermost) for fill in self.fills):
                depths |= {op: len(enclosing) - depth for depth, op in enumerate(enclosing) if SUMS in op.attributes}
        return sorted(depths, key=depths.__getitem__, reverse=True)

    def skip(self, loop: ir.Operation) -> None:
        """Shorten a loop, or peel it if the positions of a register tile overlap the pad differently."""
        if not counts_up(loop) or not all(self.sums_up(loop, number) for number in range(len(loop.results))):
            return
        for dim, reads in self.reads(loop):
            if all(read == reads[0] for read in reads):
                if self.share(dim) >= LEAST:
                    shorten(loop, reads[0], self.inside[dim])
                    mark(self.loads_in(loop), dim)
                return
            if not any(read.others for read in reads):
                self.peel(loop, dim, reads, self.inside[dim])
                return

    def positions(self, loop: ir.Operation) -> ir.Operation | None:
        """Return the loop over a few register tiles that overlap the pad differently; `None` if there is none."""
        for dim, reads in self.reads(loop):
            (others, *more) = {read.others for read in reads}
            if self.share(dim) < LEAST_OF_TILES or more or len(others) != 1 or len(set(reads)) == 1:
                continue
            tiles = counted_by(others[0][0])
            if tiles is not None and SUMS not in tiles.attributes and not tiles.results:
                return tiles if 1 < trip_count(tiles) <= MOST_TILES else None
        return None

    def share(self, dim: int) -> float:
        """Estimate the share of products with the zeros on one side of a dimension."""
        size = int(self.buffer.type.shape[dim])
        return (size - len(self.inside[dim])) / (2 * size)

    def reads(self, loop: ir.Operation) -> Iterator[tuple[int, list[LoopIndex]]]:
        """Yield the padded dimensions along which all loads of the buffer advance with a loop, and their indices."""
        loads = self.loads_in(loop)
        for dim, (inside, size) in enumerate(zip(self.inside, self.buffer.type.shape, strict=True)):
            indices = [self.views[load.operands[0]].read(load, dim, counter(loop)) for load in loads]
            reads = [read for read in indices if read is not None and read.step > 0]
            if len(inside) < size and len(reads) == len(loads):
                yield dim, reads

    def erase_unread(self) -> None:
        """Erase the fills if no load reads the zeros any more."""
        padded = [dim for dim, size in enumerate(self.buffer.type.shape) if len(self.inside[dim]) < size]
        if all(f"{INSIDE}{dim}" in load.attributes for load in loads_of(self.buffer) for dim in padded):
            for fill in self.fills:
                fill.erase()

    def loads_in(self, loop: ir.Operation) -> list[ir.Operation]:
        """Return the loads of the buffer in a loop."""
        return [op for op in every_op(loop) if op.name in LOADS and op.operands[0] in self.views]

    def sums_up(self, loop: ir.Operation, number: int) -> bool:
        """Return whether a loop only adds products with the buffer to a loop-carried value."""
        block = loop.regions[0].blocks[0]
        end = list(block.operations)[-1].operation
        return self.adds_to(end.operands[number], block.arguments[1 + number])

    def adds_to(self, value: ir.Value, start: ir.Value) -> bool:
        """Return whether a value is `start` plus products with the buffer."""
        while value != start:
            made_by = maker(value)
            if made_by is None:
                return False
            if made_by.name == "scf.for":
                number = list(made_by.results).index(value)
                if not self.sums_up(made_by, number):
                    return False
                value = made_by.operands[BOUNDS + number]
            elif made_by.name == "arith.addf" and self.load_of(made_by.operands[1]) is not None:
                value = made_by.operands[0]
            else:
                return False
        return True

    def load_of(self, value: ir.Value) -> ir.Operation | None:
        """Return the load of the buffer that is one factor of a product; `None` for any other value, or if both are."""
        product = maker(value)
        if product is None or product.name != "arith.mulf":
            return None
        loads = [load for load in map(self.loaded, product.operands) if load is not None]
        return loads[0] if len(loads) == 1 else None

    def loaded(self, value: ir.Value) -> ir.Operation | None:
        """Return the load of the buffer that defines a value, directly or broadcast; else `None`."""
        made_by = maker(value)
        if made_by is not None and made_by.name == "vector.broadcast":
            made_by = maker(made_by.operands[0])
        is_load = made_by is not None and made_by.name in LOADS and made_by.operands[0] in self.views
        return made_by if is_load else None

    def peel(self, loop: ir.Operation, dim: int, reads: Sequence[LoopIndex], inside: range) -> None:
        """Split a loop into consecutive loops over parts of the window, each without its products with zeros."""
        taps = range(constant(loop.operands[0]), constant(loop.operands[1]))
        skipped = {tap: tuple(read.step * tap + read.offset not in inside for read in reads) for tap in taps}
        count = sum(map(sum, skipped.values()))
        if count < LEAST * len(taps) * len(reads):
            mark(self.loads_in(loop) if not count else (), dim)
            return
        carried = list(loop.operands)[BOUNDS:]
        for skips_of_loads, group in groupby(taps, key=skipped.__getitem__):
            segment = list(group)
            peeled = clone_between(loop, segment[0], segment[-1] + 1)
            for number, value in enumerate(carried, BOUNDS):
                peeled.operands[number] = value
            loads = self.loads_in(peeled)
            mark(loads, dim)
            outside = {load for load, skips in zip(loads, skips_of_loads, strict=True) if skips}
            for op in every_op(peeled):
                load = self.load_of(op.operands[1]) if op.name == "arith.addf" else None
                if load is not None and load in outside:
                    op.results[0].replace_all_uses_with(op.operands[0])
            carried = list(peeled.results)
        for result, value in zip(loop.results, carried, strict=True):
            result.replace_all_uses_with(value)
        loop.erase()


def mark(loads: Sequence[ir.Operation], dim: int) -> None:
    """Mark loads that do not read the pad along a dimension, or whose result is unused there."""
    for load in loads:
        load.attributes[f"{INSIDE}{dim}"] = ir.UnitAttr.get()


def box_of(view: ir.Operation) -> Box | None:
    """Return the box of a buffer that a subview covers; `None` if it is dynamic or strided."""
    if view.name != VIEW or len(view.operands) > 1:
        return None
    offsets, sizes, strides = static_slice(view)
    if set(strides) != {1}:
        return None
    return tuple(range(offset, offset + size) for offset, size in zip(offsets, sizes, strict=True))


def zeros_of(view: ir.Operation, block: ir.Block) -> ir.Operation | None:
    """Return the fill of a view with zeros in a block, if it is the only user; else `None`."""
    users = [use.owner.operation for use in view.results[0].uses]
    is_filled = len(users) == 1 and users[0].name == "linalg.fill" and fills_zeros(users[0])
    return users[0] if is_filled and users[0].block == block else None


def overlap(one: Box, other: Box) -> bool:
    """Return whether two boxes intersect."""
    return all(a.start < b.stop and b.start < a.stop for a, b in zip(one, other, strict=True))


def counts_up(loop: ir.Operation) -> bool:
    """Return whether a loop has constant bounds and step 1, and no ops without results, such as stores."""
    names = {op.name for op in every_op(loop) if not op.results}
    bounds = list(loop.operands)[:BOUNDS]
    return names <= {"scf.yield"} and all(map(is_constant, bounds)) and constant(bounds[2]) == 1


def part_positions(loop: ir.Operation) -> None:
    """Fully unroll a loop into loops of one iteration."""
    lower, upper, step = (constant(value) for value in list(loop.operands)[:BOUNDS])
    for start in range(lower, upper, step):
        clone_between(loop, start, start + step)
    loop.erase()


def clone_between(loop: ir.Operation, lower: int, upper: int) -> ir.Operation:
    """Clone a loop before it, with other constant bounds."""
    with ir.InsertionPoint(loop), loop.location:
        bounds = index(lower), index(upper)
        clone = loop.clone().operation
    clone.operands[0], clone.operands[1] = bounds
    return clone


def shorten(loop: ir.Operation, read: LoopIndex, inside: range) -> None:
    """Restrict the bounds of a loop so that its reads are inside the padded tensor."""
    values = [value for value, _ in read.others]
    index_expr = ir.AffineExpr.get_constant(read.offset)
    for number, (_, times) in enumerate(read.others):
        index_expr = index_expr + ir.AffineExpr.get_dim(number) * times
    op_classes = (affine.AffineMaxOp, affine.AffineMinOp)
    with ir.InsertionPoint(loop), loop.location:
        for number, (op_class, edge) in enumerate(zip(op_classes, (inside.start, inside.stop), strict=True)):
            reached = ir.AffineExpr.get_ceil_div(edge - index_expr, read.step)
            bound = ir.AffineExpr.get_constant(constant(loop.operands[number]))
            loop.operands[number] = op_class(ir.AffineMap.get(len(values), 0, [reached, bound]), values).result
