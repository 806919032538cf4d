"""Dequantization of weight blocks to f32 in registers."""

from mlir import ir
from mlir.dialects import arith, vector

from autotune.compiler.ir.values import index
from autotune.compiler.passes.rounding import LANES, call_intrinsic, splat, vector_of
from autotune.contrib.quantised.block_operands import BlockOperands
from autotune.contrib.quantised.block_steps import QUARTER

LOOKUP = "llvm.x86.avx512.permvar.sf.512"


def numbers_of_nibbles(words: ir.Value, *, signed: bool) -> ir.Value:
    """Convert the low four bits of each of 16 words to f32 by a lookup table."""
    vector_type, half = vector_of(LANES, "f32"), LANES // 2
    numbers = [n - LANES if signed and n >= half else n for n in range(LANES)]
    attributes = [ir.FloatAttr.get(vector_type.element_type, float(n)) for n in numbers]
    table = arith.constant(vector_type, ir.DenseElementsAttr.get(attributes, vector_type))
    return call_intrinsic(LOOKUP, [vector_type], table, words)[0]


def widened_block(operands: BlockOperands, column: ir.Value, block: ir.Value) -> list[ir.Value]:
    """Return a block of a column in f32, one vector per half."""
    f32_vector = vector_of(QUARTER, "f32")
    scale, *least = (vector.broadcast(f32_vector, each.one(column, block)) for each in operands.scales)
    values = [arith.mulf(value, scale) for value in whole_numbers(operands, column, block)]
    return [arith.subf(value, least[0]) for value in values] if least else values


def whole_numbers(operands: BlockOperands, column: ir.Value, block: ir.Value) -> list[ir.Value]:
    """Return the unscaled integers of a block in f32, one vector per half."""
    wide = vector_of(QUARTER, "i32")
    stored = [vector.load(vector_of(QUARTER, "i8"), each, [column, block, index(0)]) for each in operands.weights]
    if operands.steps.bits == 8:
        integers = [arith.extsi(wide, each) for each in stored]
    elif operands.steps.signed:
        words, high = arith.extsi(wide, stored[0]), splat(28, "i32")
        integers = [arith.shrsi(arith.shli(words, high), high), arith.shrsi(words, splat(4, "i32"))]
    else:
        words = arith.extui(wide, stored[0])
        integers = [arith.andi(words, splat(15, "i32")), arith.shrui(words, splat(4, "i32"))]
    return [arith.sitofp(vector_of(QUARTER, "f32"), each) for each in integers]
