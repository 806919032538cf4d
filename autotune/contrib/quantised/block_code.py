"""Lowering of marked products with block-quantized weights, on buffers."""

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
    """A marked product to be lowered.

    Attributes:
        op: The op.
        operands: Operands of the product.
        halves: Activations, as available at `before`.
        before: Insertion point before the outermost loop in which the activations are invariant.
        here: Insertion point at the op.
    """

    op: ir.Operation
    operands: BlockOperands
    halves: Sequence[ir.Value]
    before: ir.InsertionPoint
    here: ir.InsertionPoint

    @classmethod
    def of(cls, op: ir.Operation) -> "MarkedProduct":
        """Analyse a marked op.

        Raises:
            CompileError: Stage ``transform``; the op is not a product with a block-quantized weight.
        """
        here = ir.InsertionPoint(op)
        with here:
            operands = BlockOperands.of(op)
        outermost, activations = hoisted(op, operands.activations)
        before = ir.InsertionPoint(outermost)
        with before:
            halves = [flat_blocks(half, int(operands.has_rows), 1) for half in activations]
        return cls(op, operands, halves, before, here)

    def from_zero(self) -> ir.Value | None:
        """Return an i1 value that is true if sums start from zero: in the first block of k; `None` if they never do."""
        if FROM_ZERO not in self.op.attributes:
            return None
        loop = parent_marked(self.op, BLOCKS_OF_K)
        if loop is None:
            return arith.constant(ir.IntegerType.get_signless(1), 1)
        return arith.cmpi(arith.CmpIPredicate.eq, counter(loop), loop.operands[0])

    def number(self, mark: str) -> int:
        """Return the integer value of a mark."""
        return int(ir.IntegerAttr(self.op.attributes[mark]).value)


def write_block_code(module: ir.Module, *, unit: bool) -> None:
    """Lower every marked op; activations are rounded before the outermost loop in which they are invariant.

    Args:
        module: Bufferized module.
        unit: Whether tile products use instructions of the matrix unit; otherwise they are emulated.

    Raises:
        CompileError: Stage ``transform``; a marked op is not a product with a block-quantized weight.
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


def write_dots(product: MarkedProduct) -> None:
    """Lower a product of few rows to vector dot products."""
    operands, word = product.operands, ir.IntegerType.get_signless(32)
    with product.before:
        words = memref.alloc(ir.MemRefType.get([operands.rows, operands.steps.row_words], word), [], [])
        RoundedRows(operands.steps, product.halves, words).write()
    with product.here:
        tile, strands, ahead = map(product.number, (ROWS, UNROLL, AHEAD))
        DotProduct(operands, tile, strands, ahead, words).write()


def write_floats(product: MarkedProduct) -> None:
    """Lower a product of few rows to f32 vectors."""
    operands = product.operands
    with product.before:
        x = memref.alloc(ir.MemRefType.get([operands.rows, floats_of_row(operands.steps)], ir.F32Type.get()), [], [])
        FloatRows(operands.steps, product.halves, x).write()
    with product.here:
        tile, strands, ahead = map(product.number, (ROWS, UNROLL, AHEAD))
        FloatProduct(operands, tile, strands, ahead, x, LOOKUP in product.op.attributes).write()


def write_tiles(product: MarkedProduct, *, unit: bool) -> None:
    """Lower a product of many rows to i8 tiles."""
    with product.before:
        x = RoundedTiles.allocate(TileLayout(product.operands.steps, product.operands.rows), product.halves)
        x.write()
    with product.here:
        TileSums(product.operands, x, product.number(UNROLL), unit).write()


def write_widened_tiles(product: MarkedProduct, *, unit: bool) -> None:
    """Lower a product of many rows to bf16 tiles."""
    with product.before:
        x = RowWords.allocate(product.halves)
        x.write()
    with product.here:
        lengths = [product.number(mark) if mark in product.op.attributes else x.depth_tiles for mark in (DEPTH, PIECE)]
        stream = STREAMS in product.op.attributes
        WidenedTiles(product.operands, x, unit, product.from_zero(), (lengths[0], lengths[1]), stream).write()


def write_panels(product: MarkedProduct) -> None:
    """Lower a product of many rows to f32 panels."""
    tile = WidenedTile(*map(product.number, (ROWS, VECTORS, LANES)))
    with product.here:
        WidenedProduct(product.operands, tile, product.number(PIECE)).write()


def write_byte_panels(product: MarkedProduct) -> None:
    """Lower a product of many rows to i8 panels."""
    with product.before:
        x = RoundedLines.allocate(product.operands.steps, product.halves, product.operands.rows)
        x.write()
    tile = WidenedTile(*map(product.number, (ROWS, VECTORS, LANES)))
    with product.here:
        PanelProduct(product.operands, x, tile, product.number(PIECE)).write()


def hoisted(op: ir.Operation, halves: Sequence[ir.Value]) -> tuple[ir.Operation, list[ir.Value]]:
    """Return the outermost enclosing op in which the activations are invariant, and the activations before it."""
    outermost, values = op, list(halves)
    for parent in parents(op):
        hoisted_halves = [outside(half, parent) for half in halves] if parent.name.startswith("scf.") else []
        if not hoisted_halves or any(value is None for value in hoisted_halves):
            break
        outermost, values = parent, [value for value in hoisted_halves if value is not None]
    return outermost, values


def outside(value: ir.Value, loop: ir.Operation) -> ir.Value | None:
    """Return an operand as it is before a loop; `None` if the loop computes it, or takes a proper slice of it."""
    while is_inside(value, loop):
        producer = maker(value)
        if producer is None or producer.name not in VIEWS:
            return None
        source = producer.operands[0]
        if list(ir.MemRefType(source.type).shape) != list(ir.MemRefType(value.type).shape):
            return None
        value = source
    return value


def is_inside(value: ir.Value, loop: ir.Operation) -> bool:
    """Return whether a value is an induction variable of a loop, or computed inside it."""
    producer = maker(value)
    owner = value.owner.owner.operation if producer is None else producer
    return (producer is None and owner == loop) or any(parent == loop for parent in parents(owner))
