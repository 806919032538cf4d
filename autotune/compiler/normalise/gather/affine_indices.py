"""Replace `tensor.extract` at indices that depend on loops only, such as those of a resize, by indexing maps.

    y[h, w] = x[floor(h / 2.0), floor(w / 2.0)]   ->   y[h, w] = x[h floordiv 2, w floordiv 2]

Other values that depend on one loop, such as interpolation weights, become constant tables. Indices are evaluated at
compile time, for every loop. Where they are clamped at a border, rows become separate operations, and elements at the
ends of a row are separate operands.
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
MOST_COLUMNS = 512  # of a row whose indices are clamped at an end; it is not divided
TABLE_TYPES = ("f32", "f64", "i32", "i64")  # element types of tables
READ = "tensor.extract"
Part = tuple[tuple[int, int], ...]  # start and length along every loop


def read_by_maps(module: ir.Module) -> None:
    """Rewrite operations that read tensors at indices that depend on loops only, in place."""
    changed = False
    for op in [op for op in every_op(module) if op.name == "linalg.generic"]:
        reads = reads_of(op)
        if reads is not None:
            with ir.InsertionPoint(op), op.location:
                result = reads.write()
            op.results[0].replace_all_uses_with(result)
            op.erase()
            changed = True
    if changed:
        run_passes(module, "builtin.module(canonicalize,cse)")


@dataclass(frozen=True)
class KnownReads:
    """Element-wise operation without inputs, whose body reads tensors at indices known at compile time.

    Attributes:
        op: Operation.
        sizes: Trip counts of its loops.
        lines: Loop that each index depends on, and the function of that loop.
    """

    op: ir.Operation
    sizes: tuple[int, ...]
    lines: Mapping[ir.Value, tuple[int, IndexLine]]

    @property
    def parts(self) -> list[Part]:
        """Parts of the iteration space in which indices are affine; the innermost loop is not divided."""
        cuts = [{0, size} for size in self.sizes]
        for loop, line in self.lines.values():
            cuts[loop] |= line.breaks if loop < len(self.sizes) - 1 else set()
        return list(product(*([(a, b - a) for a, b in pairwise(sorted(positions))] for positions in cuts)))

    @property
    def is_worth_it(self) -> bool:
        """Whether there are few parts, and no long row has clamped indices."""
        last = len(self.sizes) - 1
        is_clamped = any(loop == last and line.is_clamped for loop, line in self.lines.values())
        innermost = {read.operands[-1] for read in reads_in(self.op)}
        only_last_indices = all(
            value in innermost for value, (loop, line) in self.lines.items() if loop == last and line.is_clamped
        )
        return (
            len(self.parts) <= MOST_PARTS and only_last_indices and (not is_clamped or self.sizes[last] <= MOST_COLUMNS)
        )

    def write(self) -> ir.Value:
        """Build the operation in parts; return the result."""
        whole = tensor.empty(list(self.sizes), self.op.results[0].type.element_type)
        for part in self.parts:
            offsets, sizes = ([pair[side] for pair in part] for side in range(2))
            piece = PartWriter(self, part).write(cut(whole, offsets, sizes))
            single = len(self.parts) == 1
            whole = piece if single else tensor.insert_slice(piece, whole, [], [], [], offsets, sizes, [1] * len(sizes))
        return whole


@dataclass
class PartWriter:
    """Builder of one part of an operation, with a body that reads no tensors.

    Attributes:
        reads: Operation.
        part: Part of the iteration space.
        inputs: Input operands: tensors that are read, and tables.
        maps: Indexing maps of the inputs.
        numbers: Positions of the inputs that replace each value of the old body.
    """

    reads: KnownReads
    part: Part
    inputs: list[ir.Value] = field(default_factory=list)
    maps: list[ir.AffineMap] = field(default_factory=list)
    numbers: dict[ir.Value, list[int]] = field(default_factory=dict)

    def write(self, into: ir.Value) -> ir.Value:
        """Build the part; return its result."""
        result, rank = yielded(self.reads.op), len(self.part)
        for value in dict.fromkeys(frontier(result)):
            self.take(value)
        maps = [*self.maps, ir.AffineMap.get_identity(rank)]
        return generic(self.inputs, into, maps, ["parallel"] * rank, lambda *each: self.copy(result, each, {}))

    def take(self, value: ir.Value) -> None:
        """Add the inputs that replace a value of the old body: the tensor it is read from, or a table."""
        producer = value.owner.operation
        if producer.name != READ:
            loop = min(loops_of(value) or {0})
            start, length = self.part[loop]
            table = np.ascontiguousarray(table_of(value, self.reads.sizes[loop])[start : start + length])
            table_type = ir.RankedTensorType.get([length], value.type)
            constant = arith.constant(table_type, ir.DenseElementsAttr.get(table, type=value.type))
            self.add(value, constant, [ir.AffineDimExpr.get(loop)])
            return
        source, *indices = producer.operands
        lines = [self.index_expr(index, size) for index, size in zip(indices, source.type.shape, strict=True)]
        self.add(value, source, lines)
        if (end := self.clamped(value)) is not None:
            for edge in (end.table[0], end.table[-1]):
                self.add(value, source, [*lines[:-1], ir.AffineConstantExpr.get(edge)])

    def index_expr(self, value: ir.Value, size: int) -> ir.AffineExpr:
        """Return the affine expression of an index in this part, for a dimension of the given size."""
        loop, line = self.reads.lines[value]
        return line.index_expr(loop, *self.part[loop], size)

    def clamped(self, value: ir.Value) -> IndexLine | None:
        """Return the function of the last index of an extracted element if it is clamped; `None` otherwise."""
        producer = value.owner.operation
        loop, line = self.reads.lines[producer.operands[-1]] if producer.name == READ else (0, None)
        return line if line is not None and not line.within(*self.part[loop]) else None

    def add(self, value: ir.Value, source: ir.Value, results: Sequence[ir.AffineExpr]) -> None:
        """Add an input that replaces a value."""
        amap = ir.AffineMap.get(len(self.part), 0, results)
        self.numbers.setdefault(value, []).append(len(self.inputs))
        self.inputs.append(read_by(source, amap, [length for _, length in self.part]))
        self.maps.append(amap)

    def copy(self, value: ir.Value, elements: Sequence[ir.Value], done: dict[ir.Value, ir.Value]) -> ir.Value:
        """Clone a value of the old body, with its operands, into the new one."""
        if is_constant(value):
            producer = value.owner.operation
            return producer.clone().operation.results[0] if producer.parent == self.reads.op else value
        if value in self.numbers:
            return self.element(value, [elements[number] for number in self.numbers[value]])
        if value not in done:
            producer = value.owner.operation
            operands = [self.copy(operand, elements, done) for operand in producer.operands]
            clone = producer.clone().operation
            for number, operand in enumerate(operands):
                clone.operands[number] = operand
            done[value] = clone.results[0]
        return done[value]

    def element(self, value: ir.Value, elements: Sequence[ir.Value]) -> ir.Value:
        """Return the element that replaces a value; if its index is clamped, select the element of the end outside."""
        line = self.clamped(value)
        if line is None:
            return elements[0]
        index_type, predicates = ir.IndexType.get(), arith.CmpIPredicate
        w = linalg.IndexOp(len(self.part) - 1).result
        begun = arith.cmpi(predicates.sge, w, arith.constant(index_type, line.first))
        going = arith.cmpi(predicates.sle, w, arith.constant(index_type, line.last))
        inside, before, behind = elements
        return arith.select(arith.andi(begun, going), inside, arith.select(begun, behind, before))


def reads_of(op: ir.Operation) -> KnownReads | None:
    """Match an operation that reads tensors at known indices; return `None` if it does not match."""
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
    known_reads = KnownReads(op, nest.sizes, lines)
    return known_reads if prod(nest.sizes) and known_reads.is_worth_it and is_inside(known_reads) else None


def is_inside(gather: KnownReads) -> bool:
    """Return whether all indices are in bounds."""
    for read in reads_in(gather.op):
        source, *indices = read.operands
        for index, size in zip(indices, source.type.shape, strict=True):
            table = gather.lines[index][1].table
            if min(table) < 0 or max(table) >= size:
                return False
    return True


def is_computed(op: ir.Operation) -> bool:
    """Return whether a body only computes, and every value it starts from is an extracted element or fits a table."""
    body = [inner.operation for inner in op.regions[0].blocks[0].operations]
    is_scalar_body = all(inner.name.startswith(("arith.", "math.", "linalg.")) or inner.name == READ for inner in body)
    computed = [value for value in frontier(yielded(op)) if value.owner.operation.name != READ]
    return is_scalar_body and all(loops_of(value) is not None and str(value.type) in TABLE_TYPES for value in computed)


def yielded(op: ir.Operation) -> ir.Value:
    """Return the value that the body of an operation yields."""
    block = op.regions[0].blocks[0]
    return block.operations[len(block.operations) - 1].operation.operands[0]


def reads_in(op: ir.Operation) -> list[ir.Operation]:
    """Return the `tensor.extract` operations of a body."""
    return [each.operation for each in op.regions[0].blocks[0].operations if each.operation.name == READ]


def frontier(value: ir.Value) -> Iterator[ir.Value]:
    """Yield the values that a value is computed from: extracted elements, and values that depend on one loop."""
    producer, loops = maker(value), loops_of(value)
    if producer is None or producer.name in (READ, "linalg.index"):
        yield value
    elif producer.name != "arith.constant":
        if loops is not None and len(loops) <= 1 and str(value.type) in TABLE_TYPES:
            yield value
            return
        for operand in producer.operands:
            yield from frontier(operand)
