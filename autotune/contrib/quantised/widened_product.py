"""Lower products of many rows with a block-quantized weight to f32 vectors, on buffers; columns are widened once.

    for k in pieces:  panel[k, n] = scale[n, k / block] q[n, k];   for rows:  y[m, n] += x[m, k] panel[k, n]

A panel of columns stays in a cache while all rows use it: the whole weight is never materialized in f32.
"""

from dataclasses import dataclass
from itertools import product

from mlir import ir
from mlir.dialects import arith, math, memref, scf, vector

from autotune.compiler.ir.loops import counted
from autotune.compiler.ir.values import index
from autotune.compiler.passes.rounding import vector_of
from autotune.compiler.passes.words_of_b import transposed
from autotune.contrib.quantised.block_operands import BlockOperands
from autotune.contrib.quantised.block_steps import LANES, QUARTER
from autotune.contrib.quantised.widen import widened_block

AT_ONCE = 2  # elements of each half per iteration of the inner loop: with more, registers are spilled


@dataclass(frozen=True)
class WidenedTile:
    """Size of a register tile.

    Attributes:
        rows: Rows of x.
        vectors: Number of vectors of columns.
        lanes: Elements of a vector.
    """

    rows: int
    vectors: int
    lanes: int

    @property
    def columns(self) -> int:
        """Columns of the tile."""
        return self.vectors * self.lanes


@dataclass(frozen=True)
class WidenedProduct:
    """Product of all rows with a tile of columns, a multiple of 16.

    Attributes:
        operands: Operands of the product.
        tile: Register tile; its width divides the columns.
        blocks: Blocks per piece of k.
    """

    operands: BlockOperands
    tile: WidenedTile
    blocks: int

    def write(self) -> None:
        """Emit the whole product at the insertion point."""
        steps, columns = self.operands.steps, self.operands.columns
        longest = min(self.blocks, steps.blocks) * self.block
        panel = memref.alloc(ir.MemRefType.get([longest, columns], ir.F32Type.get()), [], [])

        def piece(first: ir.Value, blocks: int) -> None:
            counted(blocks, lambda block: self.widen(panel, arith.addi(first, block), block))
            whole, left = divmod(self.operands.rows, self.tile.rows)
            rows = self.tile.rows
            counted(whole, lambda row: self.multiply(panel, first, blocks, arith.muli(row, index(rows)), rows))
            if left:
                self.multiply(panel, first, blocks, index(whole * rows), left)

        whole, left = divmod(steps.blocks, self.blocks)
        counted(whole, lambda number: piece(arith.muli(number, index(self.blocks)), self.blocks))
        if left:
            piece(index(whole * self.blocks), left)

    @property
    def block(self) -> int:
        """Elements per block."""
        return self.operands.steps.halves * QUARTER

    def widen(self, panel: ir.Value, block: ir.Value, at: ir.Value) -> None:
        """Widen a block of every column, 16 transposed columns at a time; `at` is its index in the panel."""

        def part(number: ir.Value) -> None:
            first = arith.muli(number, index(LANES))
            columns = [arith.addi(first, index(each)) for each in range(LANES)]
            rows = [widened_block(self.operands, column, block) for column in columns]
            for half in range(self.operands.steps.halves):
                for line, values in enumerate(transposed([row[half] for row in rows])):
                    k = arith.addi(arith.muli(at, index(self.block)), index(half * QUARTER + line))
                    vector.store(values, panel, [k, first])

        counted(self.operands.columns // LANES, part)

    def multiply(self, panel: ir.Value, first: ir.Value, blocks: int, row: ir.Value, rows: int) -> None:
        """Multiply rows of x with a piece of the panel, one register tile of columns at a time."""
        tile, kind = self.tile, vector_of(self.tile.lanes, "f32")

        def part(number: ir.Value) -> None:
            start = arith.muli(number, index(tile.columns))
            columns = [arith.addi(start, index(v * tile.lanes)) for v in range(tile.vectors)]
            lines = [arith.addi(row, index(line)) for line in range(rows)]
            indices = list(product(lines, columns))
            sums = [vector.load(kind, self.operands.result, list(pair)) for pair in indices]
            loop = scf.ForOp(index(0), index(blocks), index(1), sums)
            with ir.InsertionPoint(loop.body):
                block = loop.induction_variable
                elements = scf.ForOp(index(0), index(QUARTER), index(AT_ONCE), list(loop.inner_iter_args))
                with ir.InsertionPoint(elements.body):
                    carried_sums = list(elements.inner_iter_args)
                    for half, offset in product(range(self.operands.steps.halves), range(AT_ONCE)):
                        element = arith.addi(elements.induction_variable, index(offset))
                        k = arith.addi(arith.muli(block, index(self.block)), arith.addi(index(half * QUARTER), element))
                        weights = [vector.load(kind, panel, [k, column]) for column in columns]
                        at = [arith.addi(first, block), element]
                        for begin, line in zip(range(0, len(indices), tile.vectors), lines, strict=True):
                            x = vector.broadcast(kind, memref.load(self.operands.halves[half], [line, *at]))
                            for at_tile, b in enumerate(weights, begin):
                                carried_sums[at_tile] = math.fma(x, b, carried_sums[at_tile])
                    scf.yield_(carried_sums)
                scf.yield_(list(elements.results))
            for pair, total in zip(indices, loop.results, strict=True):
                vector.store(total, self.operands.result, list(pair))

        counted(self.operands.columns // tile.columns, part)
