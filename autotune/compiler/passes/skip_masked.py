"""Skipping what a causal mask hides: loops over columns stop behind the last column a block of rows can see.

A schedule marks the loop over blocks of rows, and inside it the loops that start at the first column, or ops whose code
has such loops. As marked, the script is right and computes everything; here the upper bounds of those loops become
smaller. A loop over words of several columns is marked with how many a step of its counter is.
"""

from math import lcm

from mlir import ir
from mlir.dialects import affine, arith

from autotune.compiler.ir.values import constant
from autotune.compiler.passes.marked_loops import marked, parent_marked, piece_start
from autotune.core.scripts.marks import HIDDEN, PIECES_OF_M, ROW_BLOCKS


def skip_masked(module: ir.Module) -> None:
    """Shorten the marked loops of a bufferized module, in place.

    All loops of one block stop at the same column, a multiple of all their steps: what one of them leaves out, none of
    the others reads.
    """
    for block in marked(module.operation, ROW_BLOCKS):
        loops = marked(block, HIDDEN)
        if loops:
            shorten_loops(block, loops)


def shorten_loops(block: ir.Operation, loops: list[ir.Operation]) -> None:
    """Let loops inside a loop over blocks of rows stop behind the last row's column."""
    rows, grain = constant(block.operands[2]), lcm(*(constant(loop.operands[2]) * columns_of(loop) for loop in loops))
    first_row, shared = ir.AffineExpr.get_dim(0), parent_marked(block, PIECES_OF_M)
    period = block.attributes[ROW_BLOCKS]
    if isinstance(period, ir.IntegerAttr):
        first_row = ir.AffineExpr.get_mod(first_row, period.value)
    grains = ir.AffineExpr.get_ceil_div(first_row + rows, grain)
    body = block.regions[0].blocks[0]
    for loop in loops:
        with ir.InsertionPoint.at_block_begin(body), block.location:
            seen = grains * (grain // columns_of(loop))
            bound = ir.AffineMap.get(1, 0, [seen, ir.AffineExpr.get_constant(constant(loop.operands[1]))])
            row = body.arguments[0]
            if shared is not None:
                row = arith.addi(row, piece_start(shared, PIECES_OF_M, 0))
            loop.operands[1] = affine.AffineMinOp(bound, [row]).result


def columns_of(loop: ir.Operation) -> int:
    """Columns that a step of a loop's counter is."""
    attribute = loop.attributes[HIDDEN]
    return int(attribute.value) if isinstance(attribute, ir.IntegerAttr) else 1
