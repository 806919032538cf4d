"""Code of ours for marked products with weights in blocks, on buffers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from mlir import ir
from mlir.dialects import arith, memref

from autotune.compiler.ir.values import maker
from autotune.compiler.passes.marked_loops import counter, marked, parent_marked, parents
from autotune.compiler.passes.words_of_b import VIEWS
from autotune.contrib.quantised.block_marks import (
    AHEAD,
    BYTE_PANELS,
    DEPTH,
    DOTS,
    FLOATS,
    FROM_ZERO,
    LANES,
    LOOKUP,
    PANELS,
    PIECE,
    ROWS,
    STREAMS,
    TILES,
    UNROLL,
    VECTORS,
    WIDENED_TILES,
)
from autotune.contrib.quantised.block_operands import BlockOperands, flat_blocks
from autotune.contrib.quantised.dots_code import DotProduct
from autotune.contrib.quantised.float_code import FloatProduct, FloatRows, floats_of_row
from autotune.contrib.quantised.panel_product import PanelProduct, RoundedLines
from autotune.contrib.quantised.rounded_rows import RoundedRows
from autotune.contrib.quantised.rounded_tiles import RoundedTiles, TileLayout
from autotune.contrib.quantised.tile_product import TileSums
from autotune.contrib.quantised.widened_product import WidenedProduct, WidenedTile
from autotune.contrib.quantised.widened_tiles import WidenedTiles
from autotune.contrib.quantised.widened_words import RowWords
from autotune.core.scripts.marks import BLOCKS_OF_K


@dataclass(frozen=True)
class MarkedProduct:
    """A product that code of ours computes.

    Attributes:
        op: The op.
        operands: What it multiplies.
        halves: Activations, as they are at `before`.
        before: Insertion point before the outermost loop that they are the same for.
        here: Insertion point at the op.
    """

    op: ir.Operation
    operands: BlockOperands
    halves: Sequence[ir.Value]
    before: ir.InsertionPoint
    here: ir.InsertionPoint

    @classmethod
    def of(cls, op: ir.Operation) -> "MarkedProduct":
        """Read an op.

        Raises:
            CompileError: Stage ``transform``; it is no product with a weight in blocks.
        """
        here = ir.InsertionPoint(op)
        with here:
            operands = BlockOperands.of(op)
        around, given = hoisted(op, operands.given)
        before = ir.InsertionPoint(around)
        with before:
            halves = [flat_blocks(half, int(operands.has_rows), 1) for half in given]
        return cls(op, operands, halves, before, here)

    def from_zero(self) -> ir.Value | None:
        """Whether sums start from zero, as a value at the insertion point: in the first part of k, where it is cut."""
        if FROM_ZERO not in self.op.attributes:
            return None
        loop = parent_marked(self.op, BLOCKS_OF_K)
        if loop is None:
            return arith.constant(ir.IntegerType.get_signless(1), 1)
        return arith.cmpi(arith.CmpIPredicate.eq, counter(loop), loop.operands[0])

    def number(self, mark: str) -> int:
        """What a mark says."""
        return int(ir.IntegerAttr(self.op.attributes[mark]).value)


def write_block_code(module: ir.Module, *, unit: bool) -> None:
    """Write the code of every marked op; activations are rounded before the outermost loop around it.

    Args:
        module: Bufferized module.
        unit: Whether products by tiles are instructions of the matrix unit; else they are emulated.

    Raises:
        CompileError: Stage ``transform``; a marked op is no product with a weight in blocks.
    """
    writers: dict[str, Callable[[MarkedProduct], None]] = {
        FLOATS: write_floats,
        DOTS: write_dots,
        TILES: partial(write_tiles, unit=unit),
        WIDENED_TILES: partial(write_widened_tiles, unit=unit),
        PANELS: write_panels,
        BYTE_PANELS: write_byte_panels,
    }
    for mark, write in writers.items():
        for op in marked(module.operation, mark):
            with op.location:
                write(MarkedProduct.of(op))
            op.erase()


def write_dots(found: MarkedProduct) -> None:
    """Few rows, by dot products of vectors."""
    operands, word = found.operands, ir.IntegerType.get_signless(32)
    with found.before:
        words = memref.alloc(ir.MemRefType.get([operands.rows, operands.steps.row_words], word), [], [])
        RoundedRows(operands.steps, found.halves, words).write()
    with found.here:
        tile, strands, ahead = map(found.number, (ROWS, UNROLL, AHEAD))
        DotProduct(operands, tile, strands, ahead, words).write()


def write_floats(found: MarkedProduct) -> None:
    """Few rows, in f32."""
    operands = found.operands
    with found.before:
        x = memref.alloc(ir.MemRefType.get([operands.rows, floats_of_row(operands.steps)], ir.F32Type.get()), [], [])
        FloatRows(operands.steps, found.halves, x).write()
    with found.here:
        tile, strands, ahead = map(found.number, (ROWS, UNROLL, AHEAD))
        FloatProduct(operands, tile, strands, ahead, x, LOOKUP in found.op.attributes).write()


def write_tiles(found: MarkedProduct, *, unit: bool) -> None:
    """Many rows, by tiles of bytes."""
    with found.before:
        x = RoundedTiles.allocate(TileLayout(found.operands.steps, found.operands.rows), found.halves)
        x.write()
    with found.here:
        TileSums(found.operands, x, found.number(UNROLL), unit).write()


def write_widened_tiles(found: MarkedProduct, *, unit: bool) -> None:
    """Many rows, by tiles of bf16."""
    with found.before:
        x = RowWords.allocate(found.halves)
        x.write()
    with found.here:
        lengths = [found.number(mark) if mark in found.op.attributes else x.depth_tiles for mark in (DEPTH, PIECE)]
        stream = STREAMS in found.op.attributes
        WidenedTiles(found.operands, x, unit, found.from_zero(), (lengths[0], lengths[1]), stream).write()


def write_panels(found: MarkedProduct) -> None:
    """Many rows, in f32."""
    tile = WidenedTile(*map(found.number, (ROWS, VECTORS, LANES)))
    with found.here:
        WidenedProduct(found.operands, tile, found.number(PIECE)).write()


def write_byte_panels(found: MarkedProduct) -> None:
    """Many rows, by panels of bytes."""
    with found.before:
        x = RoundedLines.allocate(found.operands.steps, found.halves, found.operands.rows)
        x.write()
    tile = WidenedTile(*map(found.number, (ROWS, VECTORS, LANES)))
    with found.here:
        PanelProduct(found.operands, x, tile, found.number(PIECE)).write()


def hoisted(op: ir.Operation, halves: Sequence[ir.Value]) -> tuple[ir.Operation, list[ir.Value]]:
    """The outermost op around an op that its activations are the same for, and those as they are before it."""
    found, values = op, list(halves)
    for parent in parents(op):
        before = [outside(half, parent) for half in halves] if parent.name.startswith("scf.") else []
        if not before or any(value is None for value in before):
            break
        found, values = parent, [value for value in before if value is not None]
    return found, values


def outside(value: ir.Value, loop: ir.Operation) -> ir.Value | None:
    """An operand as it is before a loop; `None` where the loop computes it, or cuts it in parts."""
    while is_inside(value, loop):
        made_by = maker(value)
        if made_by is None or made_by.name not in VIEWS:
            return None
        source = made_by.operands[0]
        if list(ir.MemRefType(source.type).shape) != list(ir.MemRefType(value.type).shape):
            return None
        value = source
    return value


def is_inside(value: ir.Value, loop: ir.Operation) -> bool:
    """Whether a loop counts a value, or computes it."""
    made_by = maker(value)
    owner = value.owner.owner.operation if made_by is None else made_by
    return (made_by is None and owner == loop) or any(parent == loop for parent in parents(owner))
