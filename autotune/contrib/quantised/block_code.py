"""Code of ours for marked products with weights in blocks, on buffers."""

from collections.abc import Iterator, Sequence
from functools import partial

from mlir import ir
from mlir.dialects import memref

from autotune.compiler.ir.values import maker
from autotune.compiler.passes.marked_loops import marked, parents
from autotune.contrib.quantised.block_marks import AHEAD, DOTS, ROWS, TILES, UNROLL
from autotune.contrib.quantised.block_operands import BlockOperands
from autotune.contrib.quantised.dots_code import DotProduct
from autotune.contrib.quantised.rounded_rows import RoundedRows
from autotune.contrib.quantised.rounded_tiles import RoundedTiles, TileLayout
from autotune.contrib.quantised.tile_product import TileProduct
from autotune.core.errors import CompileError


def write_block_code(module: ir.Module, *, unit: bool) -> None:
    """Write the code of every marked op; activations are rounded before the outermost loop around it.

    Args:
        module: Bufferized module.
        unit: Whether products by tiles are instructions of the matrix unit; else they are emulated.

    Raises:
        CompileError: Stage ``transform``; a marked op is no product with a weight in blocks.
    """
    for mark, write in ((DOTS, write_dots), (TILES, partial(write_tiles, unit=unit))):
        for op in marked(module.operation, mark):
            operands = BlockOperands.of(op)
            around = outermost(op)
            halves = [outside(half, around) for half in operands.halves]
            with op.location:
                write(op, operands, halves, ir.InsertionPoint(around), ir.InsertionPoint(op))
            op.erase()


def write_dots(
    op: ir.Operation,
    operands: BlockOperands,
    halves: Sequence[ir.Value],
    before: ir.InsertionPoint,
    here: ir.InsertionPoint,
) -> None:
    """Few rows, by dot products of vectors."""
    word = ir.IntegerType.get_signless(32)
    with before:
        words = memref.alloc(ir.MemRefType.get([operands.rows, operands.steps.row_words], word), [], [])
        RoundedRows(operands.steps, halves, words).write()
    with here:
        DotProduct(operands, words, operands.rows, *(number(op, mark) for mark in (ROWS, UNROLL, AHEAD))).write()


def write_tiles(
    _: ir.Operation,
    operands: BlockOperands,
    halves: Sequence[ir.Value],
    before: ir.InsertionPoint,
    here: ir.InsertionPoint,
    *,
    unit: bool,
) -> None:
    """Many rows, by tiles."""
    with before:
        x = RoundedTiles.allocate(TileLayout(operands.steps, operands.rows), halves)
        x.write()
    with here:
        TileProduct(operands, x, unit).write()


def outermost(op: ir.Operation) -> ir.Operation:
    """The outermost loop around an op; the op where there is none."""
    for parent in parents(op):
        if not parent.name.startswith("scf."):
            break
        op = parent
    return op


def number(op: ir.Operation, name: str) -> int:
    """What a mark says."""
    return int(ir.IntegerAttr(op.attributes[name]).value)


def outside(value: ir.Value, loop: ir.Operation) -> ir.Value:
    """An operand as it is before a loop that does not cut it.

    Raises:
        CompileError: Stage ``transform``; the loop cuts it.
    """
    within = {hash(block) for block in blocks_under(loop)}
    while (made_by := maker(value)) is not None and hash(made_by.block) in within:
        source = made_by.operands[0]
        if list(ir.MemRefType(source.type).shape) != list(ir.MemRefType(value.type).shape):
            raise CompileError("transform", "activations of a product in blocks must be whole in its loops, got a part")
        value = source
    return value


def blocks_under(op: ir.Operation) -> Iterator[ir.Block]:
    """Every block under an op."""
    for region in op.regions:
        for block in region.blocks:
            yield block
            for each in block.operations:
                yield from blocks_under(each.operation)
