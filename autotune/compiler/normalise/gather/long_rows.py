"""The index of an extremum of one long row, which is found by blocks of it.

    m[b] = max of block b;   m = max of those and the rest;   b = the first with m[b] = m;   index of m in block b

The row is read once, and one block of it again. Of a row whose extremum is in the rest, or is NaN there, the block is
the last one that fits.
"""

from collections.abc import Callable
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, linalg, tensor

from autotune.compiler.normalise.emit import filled, generic

BLOCK = 1024  # elements
LEAST = 4 * BLOCK  # of rows that are cut: of shorter ones, ops cost more than the row


@dataclass(frozen=True)
class LongRow:
    """One row, and how its extremum is found.

    Attributes:
        x: The row, a tensor of one dimension.
        start: Number that extrema begin with.
        combine: The more extreme of two elements.
        is_it: Whether an element is the extremum, of the element and of that.
        kind: Type of indices.
    """

    x: ir.Value
    start: ir.Value
    combine: Callable[[ir.Value, ir.Value], ir.Value]
    is_it: Callable[[ir.Value, ir.Value], ir.Value]
    kind: ir.Type

    def find(self) -> tuple[ir.Value, ir.Value]:
        """The extremum and its first index, both without dimensions."""
        count = self.x.type.shape[0]
        blocks, rest = divmod(count, BLOCK)
        rows = self.part(0, blocks * BLOCK)
        shape = ir.RankedTensorType.get([blocks, BLOCK], self.x.type.element_type)
        cut = tensor.expand_shape(shape, rows, [[0, 1]], [], [blocks, BLOCK])
        of_blocks = self.reduced(cut, filled([blocks], self.x.type.element_type, self.start))
        so_far = filled([], self.x.type.element_type, self.start)
        if rest:
            so_far = self.reduced(self.part(blocks * BLOCK, rest), so_far)
        most = self.reduced(of_blocks, so_far)
        first = self.start_of(self.first_index(of_blocks, most, blocks), count - BLOCK)
        index = arith.index_cast(ir.IndexType.get(), tensor.extract(first, []))
        whole = ir.RankedTensorType.get([BLOCK], self.x.type.element_type)
        dynamic = ir.ShapedType.get_dynamic_size()
        block = tensor.extract_slice(whole, self.x, [index], [], [], [dynamic], [BLOCK], [1])
        inside = self.first_index(block, most, BLOCK - 1)
        maps, into = [ir.AffineMap.get(0, 0, [])] * 3, tensor.empty([], self.kind)
        return most, generic([inside, first], into, maps, [], lambda a, b, _: arith.addi(a, b))

    def part(self, start: int, count: int) -> ir.Value:
        """So many elements from one on."""
        kind = ir.RankedTensorType.get([count], self.x.type.element_type)
        return tensor.extract_slice(kind, self.x, [], [], [], [start], [count], [1])

    def reduced(self, rows: ir.Value, into: ir.Value) -> ir.Value:
        """The extremum of each row, or of what an extremum begins with."""
        rank, kept = len(rows.type.shape), len(into.type.shape)
        loops = [ir.AffineDimExpr.get(loop) for loop in range(rank)]
        maps = [ir.AffineMap.get(rank, 0, loops), ir.AffineMap.get(rank, 0, loops[:kept])]
        return generic([rows], into, maps, ["parallel"] * kept + ["reduction"], self.combine)

    def first_index(self, row: ir.Value, most: ir.Value, none: int) -> ir.Value:
        """The first index in a row of what is the extremum; `none` where there is none."""
        far = arith.constant(self.kind, none)
        one, all_of_it = ir.AffineMap.get_identity(1), ir.AffineMap.get(1, 0, [])

        def nearer(value: ir.Value, extremum: ir.Value, there: ir.Value) -> ir.Value:
            index = arith.index_cast(self.kind, linalg.IndexOp(0).result)
            return arith.minsi(there, arith.select(self.is_it(value, extremum), index, arith.constant(self.kind, none)))

        return generic([row, most], filled([], self.kind, far), [one, all_of_it, all_of_it], ["reduction"], nearer)

    def start_of(self, block: ir.Value, most: int) -> ir.Value:
        """The first element of a block, at most that of the last block that fits."""

        def write(number: ir.Value, _: ir.Value) -> ir.Value:
            start = arith.muli(number, arith.constant(self.kind, BLOCK))
            return arith.minsi(start, arith.constant(self.kind, most))

        return generic([block], tensor.empty([], self.kind), [ir.AffineMap.get(0, 0, [])] * 2, [], write)
