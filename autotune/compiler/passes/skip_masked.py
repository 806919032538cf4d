"""Skip columns hidden by a causal mask: end loops over columns after the last one visible to a block of rows.

A schedule marks the loop over blocks of rows, and inside it the loops that start at the first column, or ops whose code
contains such loops. The marked program is correct, and computes everything; here the upper bounds of those loops are
reduced. A loop over words of several columns is marked with the columns per unit of its induction variable.
"""

from math import lcm

from mlir import ir
from mlir.dialects import affine, arith

from autotune.compiler.ir.values import constant
from autotune.compiler.passes.marked_loops import marked, parent_marked, piece_start
from autotune.core.scripts.marks import HIDDEN, PIECES_OF_M, ROW_BLOCKS


def skip_masked(module: ir.Module) -> None:
    """Shorten the marked loops of a bufferized module, in place.

    All loops of one block end at the same column, a multiple of all their steps, so that no loop reads what another one
    skips.
    """
    for block in marked(module.operation, ROW_BLOCKS):
        loops = marked(block, HIDDEN)
        if loops:
            shorten_loops(block, loops)


def shorten_loops(block: ir.Operation, loops: list[ir.Operation]) -> None:
    """End loops inside a loop over blocks of rows after the last column visible to the last row."""
    rows, grain = constant(block.operands[2]), lcm(*(constant(loop.operands[2]) * columns_of(loop) for loop in loops))
    first_row, shared = ir.AffineExpr.get_dim(0), parent_marked(block, PIECES_OF_M)
    period = block.attributes[ROW_BLOCKS]
    if isinstance(period, ir.IntegerAttr):
        first_row = ir.AffineExpr.get_mod(first_row, period.value)
    grains = ir.AffineExpr.get_ceil_div(first_row + rows, grain)
    body = block.regions[0].blocks[0]
    for loop in loops:
        with ir.InsertionPoint.at_block_begin(body), block.location:
            visible = grains * (grain // columns_of(loop))
            bound = ir.AffineMap.get(1, 0, [visible, ir.AffineExpr.get_constant(constant(loop.operands[1]))])
            row = body.arguments[0]
            if shared is not None:
                row = arith.addi(row, piece_start(shared, PIECES_OF_M, 0))
            loop.operands[1] = affine.AffineMinOp(bound, [row]).result


def columns_of(loop: ir.Operation) -> int:
    """Return the number of columns per unit of a loop's induction variable."""
    attribute = loop.attributes[HIDDEN]
    return int(attribute.value) if isinstance(attribute, ir.IntegerAttr) else 1
