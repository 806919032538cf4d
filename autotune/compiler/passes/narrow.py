"""Products of operands rounded to words of several values: before a script, ops that stand for them.

    %c = linalg.matmul ins(%a, %b)   ->   %w = linalg.generic {autotune.narrow = "int8"} ins(%a)      the rows of A
                                          %c = linalg.generic {autotune.narrow = "int8"} ins(%w, %words of B)

The second has the loops of a matmul, with a word a step of k, and is tiled and fused as one. What the bodies compute
says nothing: when everything is on buffers, `dots.py` writes the code of both.
"""

from mlir import ir
from mlir.dialects import tensor

from autotune.compiler.ir.extents import static_shape
from autotune.compiler.ir.values import fill_of
from autotune.compiler.normalise.emit import dims, generic, read_all
from autotune.core.precision import Precision
from autotune.core.scripts.marks import NARROW, TAG, WEIGHT_OF

LINE = 16  # words of a cache line


def narrow(op: ir.Operation, precision: Precision) -> None:
    """Replace a product by the rounding of A's rows and the product of words; its B must be words already.

    Args:
        op: Contraction of A (m, k) and words of B (words, n), whose C was only filled.
        precision: Precision of the words.
    """
    a, b = op.operands[0], op.operands[1]
    word = ir.IntegerType.get_signless(32)
    (rows, _), (words, columns) = static_shape(a), static_shape(b)
    m, n, k = dims(3)
    with ir.InsertionPoint(op), op.location:
        rounded = stand_in([a], empty_rows(rows, words, word, precision), [[m, k], [m, n]], precision)
        into = filled(op.operands[2]) or tensor.empty([rows, columns], op.results[0].type.element_type)
        made = stand_in([rounded, b], into, [[m, k], [k, n], [m, n]], precision)
    for name in (TAG, WEIGHT_OF):
        if name in op.attributes:
            made.owner.attributes[name] = op.attributes[name]
    op.results[0].replace_all_uses_with(made)
    op.erase()


def empty_rows(rows: int, words: int, word: ir.Type, precision: Precision) -> ir.Value:
    """Where the words of A go. Rows of a tile lie an odd number of cache lines apart, or they would share few sets."""
    lines, left = divmod(words, LINE)
    if not precision.by_tiles or left or lines % 2:
        return tensor.empty([rows, words], word)
    padded = tensor.empty([rows, words + LINE], word)
    kind = ir.RankedTensorType.get([rows, words], word)
    return tensor.ExtractSliceOp(kind, padded, [], [], [], [0, 0], [rows, words], [1, 1]).result


def filled(value: ir.Value) -> ir.Value | None:
    """Where a value that is filled lies: the results of a script's payload know already where they are wanted."""
    made_by = fill_of(value)
    return made_by.operands[1] if made_by is not None else None


def stand_in(
    inputs: list[ir.Value], into: ir.Value, layouts: list[list[ir.AffineExpr]], precision: Precision
) -> ir.Value:
    """An op over loops m, n and k that reads its inputs and writes every element."""
    maps = [ir.AffineMap.get(3, 0, layout) for layout in layouts]
    made = generic(inputs, into, maps, ["parallel", "parallel", "reduction"], read_all)
    made.owner.attributes[NARROW] = ir.StringAttr.get(precision.name)
    return made
