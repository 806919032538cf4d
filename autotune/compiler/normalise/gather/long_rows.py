"""Find the index of the extremum of one long row by blocks.

    m[b] = max of block b;   m = max of those and the rest;   b = the first with m[b] = m;   index of m in block b

The row is read once, and one block of it again. If the extremum, or NaN, is in the remainder, the block is the last
`BLOCK` elements of the row.
"""

from collections.abc import Callable
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, linalg, tensor

from autotune.compiler.normalise.emit import filled, generic

BLOCK = 1024  # elements
LEAST = 4 * BLOCK  # elements of a row; for shorter rows, the overhead of separate operations dominates


@dataclass(frozen=True)
class LongRow:
    """Argmax or argmin of one row.

    Attributes:
        x: Row, a tensor of rank 1.
        start: Initial value of the reduction.
        combine: Builder of the more extreme of two elements.
        is_it: Builder of the test whether an element is the extremum; takes the element and the extremum.
        kind: Type of indices.
    """

    x: ir.Value
    start: ir.Value
    combine: Callable[[ir.Value, ir.Value], ir.Value]
    is_it: Callable[[ir.Value, ir.Value], ir.Value]
    kind: ir.Type

    def find(self) -> tuple[ir.Value, ir.Value]:
        """Build the extremum and its first index, both tensors of rank 0."""
        count = self.x.type.shape[0]
        blocks, rest = divmod(count, BLOCK)
        rows = self.part(0, blocks * BLOCK)
        shape = ir.RankedTensorType.get([blocks, BLOCK], self.x.type.element_type)
        block_rows = tensor.expand_shape(shape, rows, [[0, 1]], [], [blocks, BLOCK])
        of_blocks = self.reduced(block_rows, filled([blocks], self.x.type.element_type, self.start))
        so_far = filled([], self.x.type.element_type, self.start)
        if rest:
            so_far = self.reduced(self.part(blocks * BLOCK, rest), so_far)
        extremum = self.reduced(of_blocks, so_far)
        block_start = self.start_of(self.first_index(of_blocks, extremum, blocks), count - BLOCK)
        index = arith.index_cast(ir.IndexType.get(), tensor.extract(block_start, []))
        block_type = ir.RankedTensorType.get([BLOCK], self.x.type.element_type)
        dynamic = ir.ShapedType.get_dynamic_size()
        block = tensor.extract_slice(block_type, self.x, [index], [], [], [dynamic], [BLOCK], [1])
        inside = self.first_index(block, extremum, BLOCK - 1)
        maps, into = [ir.AffineMap.get(0, 0, [])] * 3, tensor.empty([], self.kind)
        return extremum, generic([inside, block_start], into, maps, [], lambda a, b, _: arith.addi(a, b))

    def part(self, start: int, count: int) -> ir.Value:
        """Build a slice of `count` elements from `start`."""
        slice_type = ir.RankedTensorType.get([count], self.x.type.element_type)
        return tensor.extract_slice(slice_type, self.x, [], [], [], [start], [count], [1])

    def reduced(self, rows: ir.Value, into: ir.Value) -> ir.Value:
        """Build the reduction of the last dimension of `rows` to the extremum, accumulated into `into`."""
        rank, parallel = len(rows.type.shape), len(into.type.shape)
        loops = [ir.AffineDimExpr.get(loop) for loop in range(rank)]
        maps = [ir.AffineMap.get(rank, 0, loops), ir.AffineMap.get(rank, 0, loops[:parallel])]
        return generic([rows], into, maps, ["parallel"] * parallel + ["reduction"], self.combine)

    def first_index(self, row: ir.Value, most: ir.Value, none: int) -> ir.Value:
        """Build the first index of the extremum in a row; `none` if it is not in the row."""
        far = arith.constant(self.kind, none)
        identity, scalar = ir.AffineMap.get_identity(1), ir.AffineMap.get(1, 0, [])

        def nearer(value: ir.Value, extremum: ir.Value, there: ir.Value) -> ir.Value:
            index = arith.index_cast(self.kind, linalg.IndexOp(0).result)
            return arith.minsi(there, arith.select(self.is_it(value, extremum), index, arith.constant(self.kind, none)))

        return generic([row, most], filled([], self.kind, far), [identity, scalar, scalar], ["reduction"], nearer)

    def start_of(self, block: ir.Value, most: int) -> ir.Value:
        """Build the position of the first element of a block, at most `most`."""

        def write(number: ir.Value, _: ir.Value) -> ir.Value:
            start = arith.muli(number, arith.constant(self.kind, BLOCK))
            return arith.minsi(start, arith.constant(self.kind, most))

        return generic([block], tensor.empty([], self.kind), [ir.AffineMap.get(0, 0, [])] * 2, [], write)
