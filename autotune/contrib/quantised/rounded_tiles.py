"""Rounding of activations to 8 bits with one scale per block, into matrix unit tiles of 16 rows of x side by side.

    tile of block b:  [j, m] = the word of elements 4 j .. 4 j + 3 of x[m, b]      zero for other blocks

A tile of the weight holds 64 bytes of a row, which are several blocks; it is multiplied by tiles of x that are zero
except for one block. The zeros lie between the blocks, so that neighbouring tiles share them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, memref, vector

from autotune.compiler.ir.loops import counted
from autotune.compiler.ir.values import index
from autotune.compiler.passes.rounding import splat, vector_of
from autotune.compiler.passes.words_of_b import transposed
from autotune.contrib.quantised.block_steps import BYTES, LANES, QUARTER, BlockSteps
from autotune.contrib.quantised.rounded_rows import block_scale, block_sum, in_steps, joined
from autotune.core.host.matrix_unit import ROWS

WORD = 4  # bytes


@dataclass(frozen=True)
class TileLayout:
    """Layout of the words and numbers of activations.

    Attributes:
        steps: Layout of the weight's steps.
        rows: Number of rows of activations.
    """

    steps: BlockSteps
    rows: int

    @property
    def block_rows(self) -> int:
        """Rows of a tile of x per block."""
        return self.steps.halves * QUARTER // WORD

    @property
    def per_tile(self) -> int:
        """Blocks per tile of the weight."""
        return ROWS // self.block_rows

    @property
    def groups(self) -> int:
        """Tiles of the weight per row, each a group of blocks."""
        return -(-self.steps.blocks // self.per_tile)

    @property
    def blocks(self) -> int:
        """Blocks per row, padded to whole groups."""
        return self.groups * self.per_tile

    @property
    def group_rows(self) -> int:
        """Rows that the tiles of x of a group take: its blocks, and the zeros between them."""
        return self.per_tile * self.block_rows + (self.per_tile - 1) * (ROWS - self.block_rows)

    @property
    def row_tiles(self) -> int:
        """Number of tiles of 16 rows of x."""
        return -(-self.rows // ROWS)


@dataclass(frozen=True)
class RoundedTiles:
    """Rounded activations in tiles.

    Attributes:
        layout: Layout of words and numbers.
        halves: Activations ``(m, blocks, 16)`` for each half of a block.
        words: Tiles, ``(row tiles x groups x rows of a group, 16)``.
        scales: Scales of blocks, ``(row tiles x blocks, 16)``, f32.
        totals: Sums of blocks, likewise; `None` if the format has no minimum.
    """

    layout: TileLayout
    halves: Sequence[ir.Value]
    words: ir.Value
    scales: ir.Value
    totals: ir.Value | None

    @classmethod
    def allocate(cls, layout: TileLayout, halves: Sequence[ir.Value]) -> "RoundedTiles":
        """Allocate the buffers at the insertion point."""
        i32, f32 = ir.IntegerType.get_signless(32), ir.F32Type.get()
        tiles, wide = layout.row_tiles * layout.groups * layout.group_rows, layout.row_tiles * layout.blocks
        words, *numbers = (
            memref.alloc(ir.MemRefType.get([rows, ROWS], of), [], [])
            for rows, of in ((tiles, i32), *[(wide, f32)] * (1 + layout.steps.least))
        )
        return cls(layout, halves, words, numbers[0], numbers[1] if layout.steps.least else None)

    def write(self) -> None:
        """Emit the rounding at the insertion point."""
        whole, left = divmod(self.layout.rows, ROWS)
        counted(whole, lambda tile: self.write_rows(tile, ROWS))
        if left:
            self.write_rows(index(whole), left)

    def write_rows(self, tile: ir.Value, rows: int) -> None:
        """Write all groups of a tile of rows."""
        whole, left = divmod(self.layout.steps.blocks, self.layout.per_tile)
        counted(whole, lambda group: self.write_group(tile, group, rows, self.layout.per_tile))
        if left:
            self.write_group(tile, index(whole), rows, left)

    def write_group(self, tile: ir.Value, group: ir.Value, rows: int, blocks: int) -> None:
        """Write `blocks` blocks of `rows` rows, zero-padded."""
        layout = self.layout
        zero = arith.constant(ir.F32Type.get(), 0.0)
        no_bytes = splat(0, "i8", QUARTER)
        scales = [[zero] * ROWS for _ in range(layout.per_tile)]
        totals = [[zero] * ROWS for _ in range(layout.per_tile)]
        lines = [splat(0, "i32")] * ROWS
        first = arith.muli(group, index(layout.per_tile))
        for row in range(rows):
            at = arith.addi(arith.muli(tile, index(ROWS)), index(row))
            parts: list[ir.Value] = []
            for block in range(blocks):
                indices = [at, arith.addi(first, index(block)), index(0)]
                values = [vector.load(vector_of(QUARTER, "f32"), half, indices) for half in self.halves]
                scales[block][row], inverse = block_scale(values)
                if layout.steps.least:
                    totals[block][row] = block_sum(values)
                parts += [in_steps(each, inverse) for each in values]
            parts += [no_bytes] * (BYTES // QUARTER - len(parts))
            lines[row] = joined(parts)
        self.store_words(tile, group, transposed(lines))
        for block in range(layout.per_tile):
            indices = [arith.addi(arith.addi(arith.muli(tile, index(layout.blocks)), first), index(block)), index(0)]
            vector.store(vector.from_elements(vector_of(LANES, "f32"), scales[block]), self.scales, indices)
            if self.totals is not None:
                vector.store(vector.from_elements(vector_of(LANES, "f32"), totals[block]), self.totals, indices)

    def store_words(self, tile: ir.Value, group: ir.Value, lines: list[ir.Value]) -> None:
        """Store the words of a group, and the zeros between its blocks."""
        layout = self.layout
        start = self.start(tile, group)
        for row in range(layout.group_rows):
            block, line = divmod(row, ROWS)
            is_word = line < layout.block_rows
            value = lines[block * layout.block_rows + line] if is_word else splat(0, "i32")
            vector.store(value, self.words, [arith.addi(start, index(row)), index(0)])

    def start(self, tile: ir.Value, group: ir.Value) -> ir.Value:
        """Return the first row of a group."""
        number = arith.addi(arith.muli(tile, index(self.layout.groups)), group)
        return arith.muli(number, index(self.layout.group_rows))

    def tile_row(self, tile: ir.Value, group: ir.Value, block: int) -> ir.Value:
        """Return the first row of the tile of a block of a group."""
        return arith.addi(self.start(tile, group), index(block * (ROWS - self.layout.block_rows)))
