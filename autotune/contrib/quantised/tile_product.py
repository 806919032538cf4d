"""Lower products of many rows with a block-quantized weight to i8 tiles of a matrix unit, on buffers.

    y[m, n] = sum over b of  scale_x[m, b] scale_w[n, b] (sum over j of q[n, b, j] x[m, b, j])

Tiles of the weight are the left operands of the matrix unit, in the layout of its rows; 16 rows of x side by side are
the right operands. The integer result of every block is scaled and accumulated in registers. The columns of a register
tile are transposed before they are stored.
"""

from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, math, memref, scf, vector

from autotune.compiler.ir.loops import counted
from autotune.compiler.ir.values import index
from autotune.compiler.passes.rounding import first_of, splat, vector_of
from autotune.compiler.passes.tiles import Amx, Emulated, tile_of
from autotune.compiler.passes.words_of_b import transposed
from autotune.contrib.quantised.block_operands import BlockOperands
from autotune.contrib.quantised.block_steps import BYTES, LANES, QUARTER
from autotune.contrib.quantised.loads import fetch_for_writing
from autotune.contrib.quantised.loops import RowStep
from autotune.contrib.quantised.rounded_tiles import WORD, RoundedTiles, TileLayout
from autotune.contrib.quantised.stored_bytes import StoredBytes
from autotune.contrib.quantised.stored_numbers import StoredNumbers

LINE = 16  # words in a cache line


@dataclass(frozen=True)
class UnpackedPanel:
    """Columns of a weight, unpacked to the layout that a matrix unit reads.

    Attributes:
        words: Signed bytes in words, ``(n, words)``; the row stride is an odd number of cache lines.
        scales: Scales ``(n, blocks)``, f32.
        least: Negated minimums, likewise; `None` if the format has none.
    """

    words: ir.Value
    scales: ir.Value
    least: ir.Value | None

    @classmethod
    def write(cls, operands: BlockOperands, layout: TileLayout) -> "UnpackedPanel":
        """Allocate and fill the panel at the insertion point."""
        i32, f32 = ir.IntegerType.get_signless(32), ir.F32Type.get()
        columns, wide = operands.columns, layout.groups * LINE
        words_type = ir.MemRefType.get([columns, wide + LINE * (layout.groups % 2 == 0)], i32)
        words = memref.alloc(words_type, [], [])
        numbers = [memref.alloc(ir.MemRefType.get([columns, layout.blocks], f32), [], []) for _ in operands.scales]
        panel = cls(words, numbers[0], numbers[1] if len(numbers) > 1 else None)
        stored = StoredBytes.open(operands)

        def copy(column: ir.Value) -> None:
            panel.copy_bytes(stored, column)
            for number, (source, target) in enumerate(zip(operands.scales, numbers, strict=True)):
                copy_numbers(source, target, column, negative=bool(number))

        counted(columns, copy)
        return panel

    def copy_bytes(self, stored: StoredBytes, column: ir.Value) -> None:
        """Copy a row of bytes, unpacking nibbles."""
        steps = stored.operands.steps
        counted(steps.whole, lambda step: self.copy_step(stored, column, step, steps.count))
        if steps.left:
            self.copy_step(stored, column, index(steps.whole), steps.left)

    def copy_step(self, stored: StoredBytes, column: ir.Value, step: ir.Value, blocks: int) -> None:
        """Copy one step of a row: 64 bytes, or fewer in the last step."""
        steps = stored.operands.steps
        parts = signed_bytes(stored.load(column, RowStep(step), blocks), steps.bits, signed=steps.signed)
        count = blocks * steps.halves * QUARTER // WORD  # valid words of the step
        for number, part in enumerate(parts):
            if number * LINE < count:
                at = arith.addi(arith.muli(step, index(LINE * len(parts))), index(number * LINE))
                vector.store(vector.bitcast(vector_of(LANES, "i32"), part), self.words, [column, at])


def signed_bytes(stored: ir.Value, bits: int, *, signed: bool) -> list[ir.Value]:
    """Return 64 stored bytes of a row as signed bytes in element order; nibbles give two vectors."""
    if bits == 8:
        return [stored]
    i8_vector, words = vector_of(BYTES, "i8"), vector.bitcast(vector_of(LANES, "i32"), stored)
    mask = splat(0x0F0F0F0F, "i32")
    low, high = (arith.andi(part, mask) for part in (words, arith.shrui(words, splat(4, "i32"))))
    halves = [vector.bitcast(i8_vector, half) for half in (low, high)]
    if signed:
        eight = splat(8, "i8", BYTES)
        halves = [arith.subi(arith.xori(half, eight), eight) for half in halves]
    orders = [
        [which * BYTES + block * QUARTER + j for block in blocks for which in (0, 1) for j in range(QUARTER)]
        for blocks in ((0, 1), (2, 3))
    ]
    return [vector.shuffle(*halves, order) for order in orders]


def copy_numbers(source: StoredNumbers, target: ir.Value, row: ir.Value, *, negative: bool) -> None:
    """Copy a row of numbers, widened to f32 and zero-padded."""
    source_blocks, target_blocks = source.blocks, ir.MemRefType(target.type).shape[1]

    def copy(first: ir.Value, count: int, whole: int) -> None:
        values = source.several(row, first, count, LANES)
        vector.store(first_of(arith.negf(values) if negative else values, whole), target, [row, first])

    whole = source_blocks // LANES * LANES
    if whole:
        loop = scf.ForOp(index(0), index(whole), index(LANES))
        with ir.InsertionPoint(loop.body):
            copy(loop.induction_variable, LANES, LANES)
            scf.yield_([])
    if target_blocks > whole:
        copy(index(whole), source_blocks - whole, target_blocks - whole)


@dataclass(frozen=True)
class TileSums:
    """Product of all rows with a tile of columns, a multiple of 16.

    Attributes:
        operands: Operands of the product.
        x: Activations in tiles.
        unroll: Groups of blocks that are multiplied before their sums are scaled; divides the number of groups.
        unit: Whether to use the processor's matrix unit; otherwise it is emulated.
    """

    operands: BlockOperands
    x: RoundedTiles
    unroll: int
    unit: bool

    def write(self) -> None:
        """Emit the whole product at the insertion point."""
        panel = UnpackedPanel.write(self.operands, self.x.layout)
        i32 = ir.IntegerType.get_signless(32)
        blocks = self.unroll * self.x.layout.per_tile
        buffers = [memref.alloc(ir.MemRefType.get([LANES, LANES], i32), [], []) for _ in range(blocks)]
        whole, left = divmod(self.x.layout.rows, LANES)
        counted(whole, lambda tile: self.write_rows(panel, buffers, tile, LANES))
        if left:
            self.write_rows(panel, buffers, index(whole), left)

    def write_rows(self, panel: UnpackedPanel, products: list[ir.Value], tile: ir.Value, rows: int) -> None:
        """Multiply a tile of `rows` rows with all columns."""
        loop = scf.ForOp(index(0), index(self.operands.columns), index(LANES))
        with ir.InsertionPoint(loop.body):
            column = loop.induction_variable
            indices = [[arith.addi(arith.muli(tile, index(LANES)), index(row)), column] for row in range(rows)]
            for at in indices:
                fetch_for_writing(self.operands.result, at)
            groups = scf.ForOp(index(0), index(self.x.layout.groups), index(self.unroll), [splat(0, "f32")] * LANES)
            with ir.InsertionPoint(groups.body):
                sums = list(groups.inner_iter_args)
                parts = [arith.addi(groups.induction_variable, index(number)) for number in range(self.unroll)]
                per_tile = self.x.layout.per_tile
                for number, group in enumerate(parts):
                    self.multiply(panel, products[number * per_tile : (number + 1) * per_tile], tile, column, group)
                for number, whole in enumerate(products):
                    group, block = parts[number // per_tile], number % per_tile
                    sums = self.scaled(panel, whole, tile, column, group, block, sums)
                scf.yield_(sums)
            for at, total in zip(indices, transposed(list(groups.results)), strict=False):
                before = vector.load(vector_of(LANES, "f32"), self.operands.result, at)
                vector.store(arith.addf(before, total), self.operands.result, at)
            scf.yield_([])

    def multiply(
        self, panel: UnpackedPanel, targets: list[ir.Value], tile: ir.Value, column: ir.Value, group: ir.Value
    ) -> None:
        """Store the integer products of each block of a group."""
        matrix_unit = Amx() if self.unit else Emulated("i32")
        a = matrix_unit.load(tile_of(panel.words, column, arith.muli(group, index(LINE))), once=False)
        products = []
        for block in range(len(targets)):
            b = matrix_unit.load(tile_of(self.x.words, self.x.tile_row(tile, group, block), index(0)), once=False)
            products.append(matrix_unit.dot("i8", matrix_unit.zero(), a, b))
        for product, target in zip(products, targets, strict=True):
            matrix_unit.store(product, tile_of(target, index(0), index(0)))

    def scaled(
        self,
        panel: UnpackedPanel,
        whole: ir.Value,
        tile: ir.Value,
        column: ir.Value,
        group: ir.Value,
        block: int,
        sums: list[ir.Value],
    ) -> list[ir.Value]:
        """Return the sums plus the scaled products of a block, one vector of 16 rows of x per column."""
        f32_vector = vector_of(LANES, "f32")
        position = arith.addi(arith.muli(group, index(self.x.layout.per_tile)), index(block))
        at = [arith.addi(arith.muli(tile, index(self.x.layout.blocks)), position), index(0)]
        step = vector.load(f32_vector, self.x.scales, at)
        total = vector.load(f32_vector, self.x.totals, at) if self.x.totals is not None else None
        new_sums = []
        for row, before in enumerate(sums):
            indices = [arith.addi(column, index(row)), position]
            number = vector.load(vector_of(LANES, "i32"), whole, [index(row), index(0)])
            value = arith.mulf(arith.sitofp(f32_vector, number), step)
            scale = vector.broadcast(f32_vector, memref.load(panel.scales, indices))
            after = math.fma(value, scale, before)
            if total is not None and panel.least is not None:
                after = math.fma(total, vector.broadcast(f32_vector, memref.load(panel.least, indices)), after)
            new_sums.append(after)
        return new_sums
