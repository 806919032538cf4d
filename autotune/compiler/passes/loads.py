"""Analyze which elements of a buffer loads read: through views, at affine functions of induction variables.

    %part = subview %buffer[1, 1, 0] ..;  load %part[%h + %i, .., ..]

reads, along dimension 0 of the buffer and as a function of the loop over `%i`, index 1 x `%i` + 1 x `%h` + 1.
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
    """Mapping of a view's dimensions to those of its buffer.

    Attributes:
        dims: Buffer dimension of each view dimension; `None` if it is several, or none.
        begins: Offset of the view along each dimension of the buffer.
    """

    dims: tuple[int | None, ...]
    begins: tuple[int, ...]

    @classmethod
    def whole(cls, rank: int) -> "ViewOfBuffer":
        """Return the identity view of a buffer."""
        return cls(tuple(range(rank)), (0,) * rank)

    def follow(self, op: ir.Operation) -> "ViewOfBuffer | None":
        """Apply a view op to this view; `None` if the op is not supported."""
        if op.name == VIEW:
            return self.part(op)
        if op.name not in RESHAPES:
            return None
        shorter = op.results[0] if op.name == RESHAPES[0] else op.operands[0]
        longer = op.operands[0] if op.name == RESHAPES[0] else op.results[0]
        groups, sizes = reassociation(op), longer.type.shape
        wide_groups = [[d for d in group if sizes[d] > 1] for group in groups]
        single_dims = [wide[0] if len(wide) == 1 else None for wide in wide_groups]
        if op.name == RESHAPES[0]:
            return replace(self, dims=tuple(None if d is None else self.dims[d] for d in single_dims))
        dims: list[int | None] = [None] * len(sizes)
        for number in range(len(shorter.type.shape)):
            if (dim := single_dims[number]) is not None:
                dims[dim] = self.dims[number]
        return replace(self, dims=tuple(dims))

    def part(self, cut: ir.Operation) -> "ViewOfBuffer | None":
        """Apply a subview with static offsets and unit strides, possibly rank-reducing; `None` for any other."""
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
        """Return the index of a load along a buffer dimension; `None` for a vector's own dimension, or if unknown."""
        if dim not in self.dims or (load.name != "memref.load" and dim == self.dims[-1]):
            return None
        return LoopIndex.of(load.operands[1 + self.dims.index(dim)], count, self.begins[dim])


def is_read(view: ir.Operation) -> bool:
    """Return whether an op is a view that is only read."""
    if view.name not in (VIEW, *RESHAPES):
        return False
    users = [use.owner.operation for use in view.results[0].uses]
    return all(op.name in LOADS or is_read(op) for op in users)


def views_of(op: ir.Operation, source: ViewOfBuffer) -> dict[ir.Value, ViewOfBuffer]:
    """Return the views that a read-only view op and its users create from a view, as far as supported."""
    view = source.follow(op)
    if view is None:
        return {}
    views = {op.results[0]: view}
    for use in op.results[0].uses:
        if use.owner.operation.name not in LOADS:
            views |= views_of(use.owner.operation, view)
    return views


def loads_of(value: ir.Value) -> Iterator[ir.Operation]:
    """Yield all loads of a buffer, also through views."""
    for use in value.uses:
        op = use.owner.operation
        if op.name in LOADS:
            yield op
        elif op.name in (VIEW, *RESHAPES):
            yield from loads_of(op.results[0])


@dataclass(frozen=True)
class LoopIndex:
    """An index as an affine function of a loop: `step` x its induction variable + the sum of `others` + `offset`.

    Attributes:
        step: Coefficient of the induction variable.
        offset: Constant term.
        others: Values from outside the loop, and their coefficients.
    """

    step: int
    offset: int
    others: tuple[tuple[ir.Value, int], ...]

    @classmethod
    def of(cls, value: ir.Value, count: ir.Value, begin: int) -> "LoopIndex | None":
        """Analyze an index plus `begin` in the loop with induction variable `count`; `None` if it is not affine."""
        terms, offset = linear(value)
        step = terms.pop(count, 0)
        loop = count.owner.owner.operation
        is_outside = all(loop not in ancestors_of(each) for each in terms)
        return cls(step, begin + offset, tuple(terms.items())) if is_outside else None


def ancestors_of(value: ir.Value) -> Iterator[ir.Operation]:
    """Yield the ancestors of the definition of a value, innermost first."""
    owner = value.owner
    if isinstance(owner, ir.Block):
        yield owner.owner.operation
        yield from parents(owner.owner.operation)
    else:
        yield from parents(owner.operation)


def counted_by(value: ir.Value) -> ir.Operation | None:
    """Return the loop with constant bounds whose induction variable a value is; `None` for any other value."""
    loop = value.owner.owner.operation if isinstance(value.owner, ir.Block) else None
    if loop is None or loop.name != "scf.for" or value != counter(loop):
        return None
    return loop if all(map(is_constant, list(loop.operands)[:BOUNDS])) else None


def linear(value: ir.Value) -> tuple[dict[ir.Value, int], int]:
    """Return an index as a linear combination: coefficients by value, and a constant."""
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
    """Return the only result of an affine map as a linear combination of values; `None` if it divides."""
    symbols = [ir.AffineExpr.get_symbol(number) for number in range(amap.n_symbols)]
    for position, symbol in enumerate(symbols, amap.n_dims):
        amap = amap.replace(symbol, ir.AffineExpr.get_dim(position), len(values), len(symbols))
    index = read_index(amap.results[0])
    if index.parts:
        return None
    terms, offset = dict[ir.Value, int](), index.constant
    for position, factor in index.terms:
        inner, constant_term = linear(values[position])
        offset += factor * constant_term
        for value, times in inner.items():
            terms[value] = terms.get(value, 0) + factor * times
    return terms, offset
