"""Elements read at indices that follow from loops alone, such as those of a resize: read by maps, not by arithmetic.

    y[h, w] = x[floor(h / 2.0), floor(w / 2.0)]   ->   y[h, w] = x[h floordiv 2, w floordiv 2]

What else follows from one loop, such as the share of a neighbour, becomes a table. Indices are computed here, for every
loop; where they are held back at a border, rows are ops of their own, and ends of a row are elements read apart.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product
from math import prod

import numpy as np
from mlir import ir
from mlir.dialects import arith, linalg, tensor

from autotune.compiler.ir.module import every_op, run_passes
from autotune.compiler.ir.nests import indexing_maps, loop_nest
from autotune.compiler.ir.values import is_constant, maker
from autotune.compiler.normalise.convolution.channels_first import cut, read_by
from autotune.compiler.normalise.convolution.lines import IndexLine, line_of
from autotune.compiler.normalise.emit import generic
from autotune.compiler.normalise.types.scalars import loops_of, table_of

MOST_PARTS = 9
MOST_COLUMNS = 512  # of a row that is held back at an end: it is written in one piece
HELD = ("f32", "f64", "i32", "i64")  # what a table may hold
READ = "tensor.extract"
Part = tuple[tuple[int, int], ...]  # start and length along every loop


def read_by_maps(module: ir.Module) -> None:
    """Rewrite ops that read tensors at such indices, in place."""
    changed = False
    for op in [op for op in every_op(module) if op.name == "linalg.generic"]:
        found = reads_of(op)
        if found is not None:
            with ir.InsertionPoint(op), op.location:
                result = found.write()
            op.results[0].replace_all_uses_with(result)
            op.erase()
            changed = True
    if changed:
        run_passes(module, "builtin.module(canonicalize,cse)")


@dataclass(frozen=True)
class KnownReads:
    """An element-wise op without inputs, whose body reads tensors at known indices.

    Attributes:
        op: The op.
        sizes: Trip counts of its loops.
        lines: Loop that each index which is read follows, and how.
    """

    op: ir.Operation
    sizes: tuple[int, ...]
    lines: Mapping[ir.Value, tuple[int, IndexLine]]

    @property
    def parts(self) -> list[Part]:
        """Parts of the loops in which indices are maps; rows stay whole."""
        cuts = [{0, size} for size in self.sizes]
        for loop, line in self.lines.values():
            cuts[loop] |= line.breaks if loop < len(self.sizes) - 1 else set()
        return list(product(*([(a, b - a) for a, b in pairwise(sorted(positions))] for positions in cuts)))

    @property
    def is_worth_it(self) -> bool:
        """Whether there are few parts, and no long row is held back."""
        last = len(self.sizes) - 1
        long = any(loop == last and line.is_held_back for loop, line in self.lines.values())
        ends = {read.operands[-1] for read in reads_in(self.op)}
        well = all(value in ends for value, (loop, line) in self.lines.items() if loop == last and line.is_held_back)
        return len(self.parts) <= MOST_PARTS and well and (not long or self.sizes[last] <= MOST_COLUMNS)

    def write(self) -> ir.Value:
        """Write it in parts; gives the result."""
        whole = tensor.empty(list(self.sizes), self.op.results[0].type.element_type)
        for part in self.parts:
            offsets, sizes = ([pair[side] for pair in part] for side in range(2))
            piece = PartWriter(self, part).write(cut(whole, offsets, sizes))
            single = len(self.parts) == 1
            whole = piece if single else tensor.insert_slice(piece, whole, [], [], [], offsets, sizes, [1] * len(sizes))
        return whole


@dataclass
class PartWriter:
    """One part of an op, on its way to a body that only computes.

    Attributes:
        reads: The op.
        part: The part.
        inputs: Tensors that it reads, and tables.
        maps: How it reads them.
        numbers: Numbers of the inputs that stand for a value of the old body.
    """

    reads: KnownReads
    part: Part
    inputs: list[ir.Value] = field(default_factory=list)
    maps: list[ir.AffineMap] = field(default_factory=list)
    numbers: dict[ir.Value, list[int]] = field(default_factory=dict)

    def write(self, into: ir.Value) -> ir.Value:
        """Write it; gives its result."""
        given, rank = yielded(self.reads.op), len(self.part)
        for value in dict.fromkeys(frontier(given)):
            self.take(value)
        maps = [*self.maps, ir.AffineMap.get_identity(rank)]
        return generic(self.inputs, into, maps, ["parallel"] * rank, lambda *each: self.copy(given, each, {}))

    def take(self, value: ir.Value) -> None:
        """Add what a value of the old body is read from: a tensor, or a table."""
        made_by = value.owner.operation
        if made_by.name != READ:
            loop = min(loops_of(value) or {0})
            start, length = self.part[loop]
            table = np.ascontiguousarray(table_of(value, self.reads.sizes[loop])[start : start + length])
            kind = ir.RankedTensorType.get([length], value.type)
            held = arith.constant(kind, ir.DenseElementsAttr.get(table, type=value.type))
            self.add(value, held, [ir.AffineDimExpr.get(loop)])
            return
        source, *indices = made_by.operands
        lines = [self.index_expr(index, size) for index, size in zip(indices, source.type.shape, strict=True)]
        self.add(value, source, lines)
        if (end := self.held_back(value)) is not None:
            for edge in (end.table[0], end.table[-1]):
                self.add(value, source, [*lines[:-1], ir.AffineConstantExpr.get(edge)])

    def index_expr(self, value: ir.Value, size: int) -> ir.AffineExpr:
        """The affine expression of an index of a dimension of so many, in this part."""
        loop, line = self.reads.lines[value]
        return line.index_expr(loop, *self.part[loop], size)

    def held_back(self, value: ir.Value) -> IndexLine | None:
        """How an element is read whose row is held back at an end; `None` of any other value."""
        made_by = value.owner.operation
        loop, line = self.reads.lines[made_by.operands[-1]] if made_by.name == READ else (0, None)
        return line if line is not None and not line.within(*self.part[loop]) else None

    def add(self, value: ir.Value, held: ir.Value, results: Sequence[ir.AffineExpr]) -> None:
        """Add an input that stands for a value."""
        amap = ir.AffineMap.get(len(self.part), 0, results)
        self.numbers.setdefault(value, []).append(len(self.inputs))
        self.inputs.append(read_by(held, amap, [length for _, length in self.part]))
        self.maps.append(amap)

    def copy(self, value: ir.Value, elements: Sequence[ir.Value], done: dict[ir.Value, ir.Value]) -> ir.Value:
        """A value of the old body, in the new one."""
        if is_constant(value):
            made_by = value.owner.operation
            return made_by.clone().operation.results[0] if made_by.parent == self.reads.op else value
        if value in self.numbers:
            return self.element(value, [elements[number] for number in self.numbers[value]])
        if value not in done:
            made_by = value.owner.operation
            operands = [self.copy(operand, elements, done) for operand in made_by.operands]
            clone = made_by.clone().operation
            for number, operand in enumerate(operands):
                clone.operands[number] = operand
            done[value] = clone.results[0]
        return done[value]

    def element(self, value: ir.Value, elements: Sequence[ir.Value]) -> ir.Value:
        """The element that stands for a value; at an end of a row that is held back, the one there."""
        line = self.held_back(value)
        if line is None:
            return elements[0]
        kind, how = ir.IndexType.get(), arith.CmpIPredicate
        w = linalg.IndexOp(len(self.part) - 1).result
        begun = arith.cmpi(how.sge, w, arith.constant(kind, line.first))
        going = arith.cmpi(how.sle, w, arith.constant(kind, line.last))
        inside, before, behind = elements
        return arith.select(arith.andi(begun, going), inside, arith.select(begun, behind, before))


def reads_of(op: ir.Operation) -> KnownReads | None:
    """An op that reads tensors at known indices; `None` of any other."""
    nest, reads, maps = loop_nest(op), reads_in(op), indexing_maps(op)
    if nest is None or not reads or len(op.operands) != 1 or list(op.regions[0].blocks[0].arguments[0].uses):
        return None
    if maps[0] != ir.AffineMap.get_identity(len(nest.sizes)) or not is_computed(op):
        return None
    lines = {}
    for index in {index for read in reads for index in list(read.operands)[1:]}:
        loops = loops_of(index)
        if loops is None or len(loops) > 1:
            return None
        loop = min(loops, default=0)
        line = line_of(table_of(index, nest.sizes[loop]))
        if line is None:
            return None
        lines[index] = (loop, line)
    found = KnownReads(op, nest.sizes, lines)
    return found if prod(nest.sizes) and found.is_worth_it and is_inside(found) else None


def is_inside(found: KnownReads) -> bool:
    """Tell whether all indices lie in what is read."""
    for read in reads_in(found.op):
        source, *indices = read.operands
        for index, size in zip(indices, source.type.shape, strict=True):
            table = found.lines[index][1].table
            if min(table) < 0 or max(table) >= size:
                return False
    return True


def is_computed(op: ir.Operation) -> bool:
    """Tell whether a body reads and computes numbers, of which tables may be made."""
    body = [inner.operation for inner in op.regions[0].blocks[0].operations]
    plain = all(inner.name.startswith(("arith.", "math.", "linalg.")) or inner.name == READ for inner in body)
    made = [value for value in frontier(yielded(op)) if value.owner.operation.name != READ]
    return plain and all(loops_of(value) is not None and str(value.type) in HELD for value in made)


def yielded(op: ir.Operation) -> ir.Value:
    """What the body of an op gives."""
    block = op.regions[0].blocks[0]
    return block.operations[len(block.operations) - 1].operation.operands[0]


def reads_in(op: ir.Operation) -> list[ir.Operation]:
    """Elements that a body reads."""
    return [each.operation for each in op.regions[0].blocks[0].operations if each.operation.name == READ]


def frontier(value: ir.Value) -> Iterator[ir.Value]:
    """Values of a body that a value is computed of in the end: what is read, and what follows from one loop."""
    made_by, loops = maker(value), loops_of(value)
    if made_by is None or made_by.name in (READ, "linalg.index"):
        yield value
    elif made_by.name != "arith.constant":
        if loops is not None and len(loops) <= 1 and str(value.type) in HELD:
            yield value
            return
        for operand in made_by.operands:
            yield from frontier(operand)
