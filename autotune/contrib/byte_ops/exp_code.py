"""Lower marked exponentials of differences of bytes, on vectors, to lookups in two tables.

    exp(c (x - y)) = high[h] low[l]   where x - y = 16 h + l, with l from 0 to 15 and h from -16 to 15

The tables hold 16 and 32 correctly rounded numbers, one and two registers. A permute selects 16 of them, by the lowest
4 or 5 bits of each word, so that l and h need one shift. The argument of exp is never rounded, as it is in f32. The
relative error is at most 1.5 * 2^-23, and equal bytes give 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from mlir import ir
from mlir.dialects import arith

from autotune.compiler.ir.values import maker_named, splat_of
from autotune.compiler.passes.byte_rounding import constant_of
from autotune.compiler.passes.marked_loops import marked
from autotune.compiler.passes.rounding import LANES, call_intrinsic, splat, vector_of
from autotune.contrib.byte_ops.flat import in_parts
from autotune.contrib.byte_ops.marks import EXP, PERMUTES
from autotune.core.host.matrix_unit import cpu_flags

BITS = 4  # of l
LOW, HIGH = range(1 << BITS), (*range(16), *range(-16, 0))  # values of l, and of h by its lowest five bits
MOST = 80.0  # of |c (16 h + l)|: from there on, a factor may not be a normal number of f32
CHOOSE, CHOOSE_OF_TWO = "llvm.x86.avx512.permvar.sf.512", "llvm.x86.avx512.vpermi2var.ps.512"


@dataclass(frozen=True)
class ByteExp:
    """A matched exponential ``exp(factor * (x - y))`` of vectors of bytes.

    Attributes:
        x: Bytes.
        y: Bytes that are subtracted.
        factor: Constant factor.
    """

    x: ir.Value
    y: ir.Value
    factor: float

    def table(self, numbers: Sequence[int], step: int) -> list[float]:
        """Return the exponentials of multiples of `step`."""
        return [float(np.float32(np.exp(np.float64(self.factor) * step * number))) for number in numbers]

    def write(self, x: ir.Value, y: ir.Value) -> ir.Value:
        """Build the exponentials of a vector of machine width."""
        words = vector_of(LANES, "i32")
        low = arith.subi(arith.extsi(words, x), arith.extsi(words, y))
        high = arith.shrui(low, splat(BITS, "i32"))
        return arith.mulf(
            looked_up(self.table(HIGH, 1 << BITS), high),
            looked_up(self.table(LOW, 1), low),
        )


def write_byte_exps(module: ir.Module) -> None:
    """Replace every marked exponential that has this form; any other stays as it is."""
    for op in marked(module.operation, EXP):
        match = byte_exp_of(op)
        if match is not None:
            with ir.InsertionPoint(op), op.location:
                op.results[0].replace_all_uses_with(in_parts(match.write, LANES, op.results[0].type, match.x, match.y))
            op.erase()


def byte_exp_of(op: ir.Operation) -> ByteExp | None:
    """Match an exponential; return `None` if it has another form, or if a factor would not be a normal number."""
    product = maker_named(op.operands[0], "arith.mulf")
    if product is None or not isinstance(op.results[0].type, ir.VectorType):
        return None
    factors = [constant_of(each) for each in product.operands]
    constants = [each for each in factors if each is not None]
    difference = maker_named(product.operands[factors.index(None)], "arith.subf") if None in factors else None
    if difference is None or len(constants) != 1 or abs(constants[0]) * (16 * 17) > MOST:
        return None
    widened = [maker_named(each, "arith.sitofp") for each in difference.operands]
    sources = [each.operands[0] for each in widened if each is not None]
    if len(sources) < len(widened) or any(str(ir.VectorType(each.type).element_type) != "i8" for each in sources):
        return None
    x, y = sources
    return ByteExp(x, y, constants[0])


def looked_up(table: Sequence[float], words: ir.Value) -> ir.Value:
    """Look up one or two registers of numbers by the lowest bits of words; without permutes, by selecting halves."""
    vector_type = vector_of(LANES, "f32")
    if PERMUTES in cpu_flags():
        attributes = [ir.FloatAttr.get(vector_type.element_type, number) for number in table]
        parts = [
            arith.constant(vector_type, ir.DenseElementsAttr.get(attributes[start : start + LANES], vector_type))
            for start in range(0, len(table), LANES)
        ]
        if len(parts) == 1:
            return call_intrinsic(CHOOSE, [vector_type], parts[0], words)[0]
        return call_intrinsic(CHOOSE_OF_TWO, [vector_type], parts[0], words, parts[1])[0]
    values = [splat_of(vector_type, number) for number in table]
    for bit in range(len(table).bit_length() - 1):
        shifted = arith.shrui(words, splat(bit, "i32"))
        is_set = arith.trunci(vector_of(LANES, "i1"), shifted)
        values = [arith.select(is_set, second, first) for first, second in zip(values[::2], values[1::2], strict=True)]
    return values[0]
