"""Lower products of many rows with a block-quantized weight to i8 dot products of panels, on buffers.

    for b:  y[m, n] += scale_x[m, b] scale_w[n, b] (start[m, b] + sum over j of u[n, b, j] x[m, b, j])      n in lanes

Columns are vector lanes: one ``vpdpbusd`` multiplies a word of four bytes of a row with those of 16 columns, so that no
horizontal sum is needed. A panel of columns is transposed once and stays in a cache while all rows use it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from mlir import ir
from mlir.dialects import arith, math, memref, scf, vector

from autotune.compiler.ir.loops import counted
from autotune.compiler.ir.values import index
from autotune.compiler.passes.rounding import dot_bytes, splat, vector_of
from autotune.compiler.passes.words_of_b import transposed
from autotune.contrib.quantised.block_operands import BlockOperands
from autotune.contrib.quantised.block_steps import LANES, BlockSteps
from autotune.contrib.quantised.loops import RowStep
from autotune.contrib.quantised.rounded_rows import (
    RoundedRows,
    block_scale,
    block_sum,
    in_steps,
    words_without_sign,
)
from autotune.contrib.quantised.stored_bytes import StoredBytes
from autotune.contrib.quantised.widened_product import WidenedTile


@dataclass(frozen=True)
class RoundedLines(RoundedRows):
    """Rounded activations as words ``(m, words)``, whose row stride is an odd number of cache lines, and block numbers.

    Attributes:
        scales: Scales of blocks ``(m, blocks)``, f32.
        starts: Initial values of integer sums, likewise, i32; `None` for zero.
        totals: Sums of blocks, likewise, f32; `None` if the format has no minimum.
    """

    scales: ir.Value
    starts: ir.Value | None
    totals: ir.Value | None

    @classmethod
    def allocate(cls, steps: BlockSteps, halves: Sequence[ir.Value], rows: int) -> "RoundedLines":
        """Allocate the buffers at the insertion point."""
        i32, f32 = ir.IntegerType.get_signless(32), ir.F32Type.get()

        def numbers(of: ir.Type, wanted: object) -> ir.Value | None:
            return memref.alloc(ir.MemRefType.get([rows, steps.blocks], of), [], []) if wanted else None

        lines = steps.steps * steps.vectors
        words = memref.alloc(ir.MemRefType.get([rows, (lines | 1) * LANES], i32), [], [])
        scales = numbers(f32, wanted=True)
        return cls(steps, halves, words, scales, numbers(i32, steps.shift), numbers(f32, steps.least))

    def step(self, row: ir.Value, step: ir.Value, blocks: int) -> None:
        """Write the words of a step of `blocks` blocks, zero-padded, with the numbers of each block."""
        layout, i32 = self.steps, ir.IntegerType.get_signless(32)
        rounded: dict[tuple[int, int], ir.Value] = {}
        for block, (position, values) in enumerate(zip(*self.load_blocks(row, step, blocks), strict=True)):
            scale, inverse = block_scale(values)
            memref.store(scale, self.scales, [row, position])
            parts = [in_steps(each, inverse) for each in values]
            rounded |= {(block, half): part for half, part in enumerate(parts)}
            if self.totals is not None:
                memref.store(block_sum(values), self.totals, [row, position])
            if self.starts is not None:
                wide = [arith.extsi(vector_of(LANES, "i32"), part) for part in parts]
                whole = wide[0] if len(wide) == 1 else arith.addi(*wide)
                total = vector.reduction(i32, vector.CombiningKind.ADD, whole)
                memref.store(arith.muli(total, arith.constant(i32, -layout.shift)), self.starts, [row, position])
        for number in range(layout.vectors):
            first = arith.addi(arith.muli(step, index(layout.vectors * LANES)), index(number * LANES))
            vector.store(self.bytes_of(rounded, number), self.buffer, [row, first])


@dataclass(frozen=True)
class BytePanels:
    """Columns of a weight in some steps, with 16 columns interleaved.

    Attributes:
        operands: Operands of the product.
        words: Unsigned integers in words, ``(columns / 16, words, 16)``.
        numbers: Scales and negated minimums, ``(columns / 16, blocks, 16)``, f32.
    """

    operands: BlockOperands
    words: ir.Value
    numbers: tuple[ir.Value, ...]

    @classmethod
    def allocate(cls, operands: BlockOperands, steps: int) -> "BytePanels":
        """Allocate the buffers for `steps` steps at the insertion point."""
        layout, groups = operands.steps, operands.columns // LANES
        i32, f32 = ir.IntegerType.get_signless(32), ir.F32Type.get()
        words = memref.alloc(ir.MemRefType.get([groups, steps * layout.vectors * LANES, LANES], i32), [], [])
        numbers_type = ir.MemRefType.get([groups, steps * layout.count, LANES], f32)
        return cls(operands, words, tuple(memref.alloc(numbers_type, [], []) for _ in operands.scales))

    def fill(self, stored: StoredBytes, step: ir.Value, at: ir.Value, blocks: int) -> None:
        """Write a step of `blocks` blocks for all columns; `at` is its index in the panel."""
        layout, wide = self.operands.steps, vector_of(LANES, "i32")

        def write(group: ir.Value) -> None:
            columns = [arith.addi(arith.muli(group, index(LANES)), index(each)) for each in range(LANES)]
            rows = [vector.bitcast(wide, stored.load(column, RowStep(step), blocks)) for column in columns]
            for lane, words in enumerate(transposed(rows)):
                for number, part in enumerate(words_without_sign(words, layout)):
                    vector.store(part, self.words, [group, self.word(at, number, lane), index(0)])
            for block in range(blocks):
                position = arith.addi(arith.muli(at, index(layout.count)), index(block))
                source = arith.addi(arith.muli(step, index(layout.count)), index(block))
                for target, numbers in zip(self.numbers, self.operands.scales, strict=True):
                    scalars = [numbers.one(column, source) for column in columns]
                    values = vector.from_elements(vector_of(LANES, "f32"), scalars)
                    is_least = target != self.numbers[0]
                    vector.store(arith.negf(values) if is_least else values, target, [group, position, index(0)])

        counted(self.operands.columns // LANES, write)

    def word(self, step: ir.Value, number: int, lane: int) -> ir.Value:
        """Return the index of a word of a step, in a row of activations or in the panel."""
        layout = self.operands.steps
        return arith.addi(arith.muli(step, index(layout.vectors * LANES)), index(number * LANES + lane))


@dataclass(frozen=True)
class PanelProduct:
    """Product of all rows with a tile of columns, a multiple of 16.

    Attributes:
        operands: Operands of the product.
        x: Activations.
        tile: Register tile; its width divides the columns.
        piece: Steps per piece of k.
    """

    operands: BlockOperands
    x: RoundedLines
    tile: WidenedTile
    piece: int

    def write(self) -> None:
        """Emit the whole product at the insertion point."""
        layout = self.operands.steps
        panel = BytePanels.allocate(self.operands, min(self.piece, layout.steps))
        stored = StoredBytes.open(self.operands)

        def multiply(first: ir.Value, steps: int, left: int) -> None:
            counted(steps, lambda step: panel.fill(stored, arith.addi(first, step), step, layout.count))
            if left:
                panel.fill(stored, arith.addi(first, index(steps)), index(steps), left)
            whole, rest = divmod(self.operands.rows, self.tile.rows)
            part = RowsByPanel(self, panel, first, steps, left)
            counted(whole, lambda row: part.write(arith.muli(row, index(self.tile.rows)), self.tile.rows))
            if rest:
                part.write(index(whole * self.tile.rows), rest)

        pieces, whole = divmod(layout.whole, self.piece)
        counted(pieces, lambda number: multiply(arith.muli(number, index(self.piece)), self.piece, 0))
        if whole or layout.left:
            multiply(index(pieces * self.piece), whole, layout.left)


@dataclass(frozen=True)
class RowsByPanel:
    """Register tiles of one panel.

    Attributes:
        product: Product that they belong to.
        panel: Panel.
        first: First step of the panel.
        steps: Number of whole steps.
        left: Blocks of one more, partial step; 0 if there is none.
    """

    product: PanelProduct
    panel: BytePanels
    first: ir.Value
    steps: int
    left: int

    def write(self, row: ir.Value, rows: int) -> None:
        """Multiply `rows` rows with all columns, one register tile at a time, while the rows stay in L1."""
        columns = self.product.operands.columns // self.product.tile.columns
        lines = [arith.addi(row, index(each)) for each in range(rows)]
        counted(columns, lambda number: self.write_tile(lines, number))

    def write_tile(self, lines: list[ir.Value], number: ir.Value) -> None:
        """Emit one register tile."""
        tile, layout = self.product.tile, self.product.operands.steps
        groups = [arith.addi(arith.muli(number, index(tile.vectors)), index(v)) for v in range(tile.vectors)]
        indices = [[line, arith.muli(group, index(LANES))] for line, group in product(lines, groups)]
        target = self.product.operands.result
        sums = [vector.load(vector_of(LANES, "f32"), target, at) for at in indices]
        if self.steps:
            loop = scf.ForOp(index(0), index(self.steps), index(1), sums)
            with ir.InsertionPoint(loop.body):
                scf.yield_(self.step(groups, lines, loop.induction_variable, layout.count, list(loop.inner_iter_args)))
            sums = list(loop.results)
        if self.left:
            sums = self.step(groups, lines, index(self.steps), self.left, sums)
        for at, total in zip(indices, sums, strict=True):
            vector.store(total, target, at)

    def step(
        self, groups: list[ir.Value], lines: list[ir.Value], step: ir.Value, blocks: int, sums: list[ir.Value]
    ) -> list[ir.Value]:
        """Return the sums after one more step of `blocks` blocks."""
        layout = self.product.operands.steps
        source = arith.addi(self.first, step)
        for block in range(blocks):
            at = arith.addi(arith.muli(step, index(layout.count)), index(block))
            row_block = arith.addi(arith.muli(source, index(layout.count)), index(block))
            sums = self.scaled(groups, lines, at, row_block, self.whole_sums(groups, lines, step, source, block), sums)
        return sums

    def whole_sums(
        self, groups: list[ir.Value], lines: list[ir.Value], step: ir.Value, source: ir.Value, block: int
    ) -> list[ir.Value]:
        """Return the integer dot products of one block of the rows with that of each column."""
        layout, x, wide = self.product.operands.steps, self.product.x, vector_of(LANES, "i32")
        row_block = arith.addi(arith.muli(source, index(layout.count)), index(block))
        starts = [
            splat(0, "i32") if x.starts is None else vector.broadcast(wide, memref.load(x.starts, [line, row_block]))
            for line in lines
        ]
        totals = [start for start in starts for _ in groups]
        lanes = [lane for lane, of in enumerate(layout.lane_blocks) if of == block]
        for number, lane in product(range(layout.vectors), lanes):
            at, word = (self.panel.word(each, number, lane) for each in (step, source))
            weights = [vector.load(wide, self.panel.words, [group, at, index(0)]) for group in groups]
            for which, line in enumerate(lines):
                activation = vector.broadcast(wide, memref.load(x.buffer, [line, word]))
                for position, weight in enumerate(weights):
                    total = which * len(groups) + position
                    totals[total] = dot_bytes(totals[total], weight, activation)
        return totals

    def scaled(
        self,
        groups: list[ir.Value],
        lines: list[ir.Value],
        at: ir.Value,
        row_block: ir.Value,
        totals: list[ir.Value],
        sums: list[ir.Value],
    ) -> list[ir.Value]:
        """Return the sums plus a block's scaled products; `at` is its index in the panel, `row_block` that in a row."""
        x, wide = self.product.x, vector_of(LANES, "f32")
        numbers = [[vector.load(wide, each, [group, at, index(0)]) for group in groups] for each in self.panel.numbers]
        new_sums = []
        for which, line in enumerate(lines):
            scale = vector.broadcast(wide, memref.load(x.scales, [line, row_block]))
            of_row = None if x.totals is None else vector.broadcast(wide, memref.load(x.totals, [line, row_block]))
            for position in range(len(groups)):
                element = which * len(groups) + position
                value = arith.mulf(arith.sitofp(wide, totals[element]), scale)
                after = math.fma(value, numbers[0][position], sums[element])
                new_sums.append(after if of_row is None else math.fma(of_row, numbers[1][position], after))
        return new_sums
