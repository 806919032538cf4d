"""Where loads read a buffer: through views of it, at sums of the counters of loops.

    %part = subview %buffer[1, 1, 0] ..;  load %part[%h + %i, .., ..]

reads, along dimension 0 of the buffer and as a function of the loop over `%i`, 1 x `%i` + 1 x `%h` + 1.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from mlir import ir

from autotune.compiler.ir.nests import read_index
from autotune.compiler.ir.values import constant, is_constant, maker, reassociation, static_slice, trip_count
from autotune.compiler.passes.marked_loops import counter, parents
from autotune.compiler.passes.zeros import BOUNDS

LOADS = ("memref.load", "vector.load")
VIEW, RESHAPES = "memref.subview", ("memref.collapse_shape", "memref.expand_shape")


@dataclass(frozen=True)
class ViewOfBuffer:
    """What a view shows of a buffer.

    Attributes:
        dims: Dimension of the buffer that each of its own is; `None` where it is several, or none.
        begins: First element that it shows, along each dimension of the buffer.
    """

    dims: tuple[int | None, ...]
    begins: tuple[int, ...]

    @classmethod
    def whole(cls, rank: int) -> "ViewOfBuffer":
        """All of a buffer."""
        return cls(tuple(range(rank)), (0,) * rank)

    def taken_by(self, op: ir.Operation) -> "ViewOfBuffer | None":
        """What an op makes of it; `None` where that is not known."""
        if op.name == VIEW:
            return self.part(op)
        if op.name not in RESHAPES:
            return None
        shorter = op.results[0] if op.name == RESHAPES[0] else op.operands[0]
        longer = op.operands[0] if op.name == RESHAPES[0] else op.results[0]
        groups, sizes = reassociation(op), longer.type.shape
        long = [[d for d in group if sizes[d] > 1] for group in groups]
        one = [wide[0] if len(wide) == 1 else None for wide in long]
        if op.name == RESHAPES[0]:
            return replace(self, dims=tuple(None if d is None else self.dims[d] for d in one))
        dims: list[int | None] = [None] * len(sizes)
        for number in range(len(shorter.type.shape)):
            if (dim := one[number]) is not None:
                dims[dim] = self.dims[number]
        return replace(self, dims=tuple(dims))

    def part(self, cut: ir.Operation) -> "ViewOfBuffer | None":
        """A part at known offsets; dimensions of one element may be dropped."""
        offsets, sizes, strides = static_slice(cut)
        if len(cut.operands) > 1 or set(strides) != {1}:
            return None
        begins, dims, kept = list(self.begins), list[int | None](), list(cut.results[0].type.shape)
        for dim, offset, size in zip(self.dims, offsets, sizes, strict=True):
            if dim is not None:
                begins[dim] += offset
            if len(dims) < len(kept) and kept[len(dims)] == size:
                dims.append(dim)
        return ViewOfBuffer(tuple(dims), tuple(begins))

    def read(self, load: ir.Operation, dim: int, count: ir.Value) -> "LoopIndex | None":
        """Where a load of one element, or of a vector across it, is along a dimension of the buffer, in a loop."""
        if dim not in self.dims or (load.name != "memref.load" and dim == self.dims[-1]):
            return None
        return LoopIndex.of(load.operands[1 + self.dims.index(dim)], count, self.begins[dim])


def is_read(view: ir.Operation) -> bool:
    """Tell whether an op is a view, and only read."""
    if view.name not in (VIEW, *RESHAPES):
        return False
    users = [use.owner.operation for use in view.results[0].uses]
    return all(op.name in LOADS or is_read(op) for op in users)


def views_of(op: ir.Operation, source: ViewOfBuffer) -> dict[ir.Value, ViewOfBuffer]:
    """What an op that is only read makes of a view, and what others make of that, as far as it is known."""
    view = source.taken_by(op)
    if view is None:
        return {}
    found = {op.results[0]: view}
    for use in op.results[0].uses:
        if use.owner.operation.name not in LOADS:
            found |= views_of(use.owner.operation, view)
    return found


def loads_of(value: ir.Value) -> Iterator[ir.Operation]:
    """All loads of a buffer, through views of any kind."""
    for use in value.uses:
        op = use.owner.operation
        if op.name in LOADS:
            yield op
        elif op.name in (VIEW, *RESHAPES):
            yield from loads_of(op.results[0])


@dataclass(frozen=True)
class LoopIndex:
    """An index as a function of a loop: `step` x its counter + the sum of `others` + `offset`.

    Attributes:
        step: What a step of the loop adds.
        offset: What is added besides.
        others: Values from outside the loop, and how often each is added.
    """

    step: int
    offset: int
    others: tuple[tuple[ir.Value, int], ...]

    @classmethod
    def of(cls, value: ir.Value, count: ir.Value, begin: int) -> "LoopIndex | None":
        """Read an index, counted from `begin`, in a loop that counts with `count`; `None` where it is no such sum."""
        terms, offset = linear(value)
        step = terms.pop(count, 0)
        loop = count.owner.owner.operation
        is_outside = all(loop not in around(each) for each in terms)
        return cls(step, begin + offset, tuple(terms.items())) if is_outside else None


def around(value: ir.Value) -> Iterator[ir.Operation]:
    """The ops around what gives a value, innermost first."""
    owner = value.owner
    if isinstance(owner, ir.Block):
        yield owner.owner.operation
        yield from parents(owner.owner.operation)
    else:
        yield from parents(owner.operation)


def counted_by(value: ir.Value) -> ir.Operation | None:
    """The loop with constant bounds whose counter a value is; `None` of any other value."""
    loop = value.owner.owner.operation if isinstance(value.owner, ir.Block) else None
    if loop is None or loop.name != "scf.for" or value != counter(loop):
        return None
    return loop if all(map(is_constant, list(loop.operands)[:BOUNDS])) else None


def linear(value: ir.Value) -> tuple[dict[ir.Value, int], int]:
    """An index as a sum: of values, each so many times, and of a number."""
    made_by = maker(value)
    if is_constant(value):
        return {}, constant(value)
    loop = counted_by(value)
    if loop is not None and trip_count(loop) == 1:
        return {}, constant(loop.operands[0])
    if made_by is None or made_by.name != "affine.apply":
        return {value: 1}, 0
    return sum_of(ir.AffineMapAttr(made_by.attributes["map"]).value, list(made_by.operands)) or ({value: 1}, 0)


def sum_of(amap: ir.AffineMap, values: Sequence[ir.Value]) -> tuple[dict[ir.Value, int], int] | None:
    """The one result of a map at some values, as a sum; `None` where it divides."""
    symbols = [ir.AffineExpr.get_symbol(number) for number in range(amap.n_symbols)]
    for position, symbol in enumerate(symbols, amap.n_dims):
        amap = amap.replace(symbol, ir.AffineExpr.get_dim(position), len(values), len(symbols))
    found = read_index(amap.results[0])
    if found.parts:
        return None
    terms, offset = dict[ir.Value, int](), found.constant
    for position, factor in found.terms:
        inner, more = linear(values[position])
        offset += factor * more
        for value, times in inner.items():
            terms[value] = terms.get(value, 0) + factor * times
    return terms, offset
