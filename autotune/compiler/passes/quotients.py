"""Quotients by a constant that are rounded to whole numbers: products with the reciprocal, corrected to the last bit.

    round(x / c)   ->   q = x * (1 / c);   q = fma(fma(-q, c, x), 1 / c, q), once or twice;   round(q)

A division of 16 lanes keeps its unit for 16 cycles. A quotient that is within a unit of the last place of x / c
becomes, by such a step, what a division rounds to (Markstein, Computation of elementary functions on the IBM RISC
System/6000 processor, 1990); the first product is, where the reciprocal is off by no more than 2^-25, and else a first
step makes it so. Where x is so large that a step could overflow, and where it is no number, the product is taken as it
is: rounded, it is as large, or none. Where x is so small that a step loses bits, both round to zero.
"""

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from mlir import ir
from mlir.dialects import arith, math

from autotune.compiler.ir.module import every_op
from autotune.compiler.passes.vector_math import splat

SMALLEST, LARGEST = 2.0**-60, 2.0**60  # of divisors
WHOLE = 2.0**30  # quotients from here on are whole numbers, and no byte
CLOSE = Fraction(1, 1 << 25)
ROUND, DIVIDE = "math.roundeven", "arith.divf"


def has_rounded_quotients(module: ir.Module) -> bool:
    """Tell whether a module rounds, and divides."""
    return {ROUND, DIVIDE} <= {op.name for op in every_op(module)}


def multiply_rounded(module: ir.Module) -> None:
    """Write rounded quotients of f32 vectors by a constant as products, in place."""
    for quotient, divisor in list(rounded_quotients(module)):
        with ir.InsertionPoint(quotient), quotient.location:
            x = quotient.operands[0]
            quotient.results[0].replace_all_uses_with(corrected(x, divisor))
        quotient.erase()


def rounded_quotients(module: ir.Module) -> Iterator[tuple[ir.Operation, float]]:
    """Divisions of f32 vectors by a constant that nothing but a rounding reads, and the constant."""
    for op in every_op(module):
        if op.name != DIVIDE or not is_f32_vector(op.results[0].type):
            continue
        readers = [use.owner.operation.name for use in op.results[0].uses]
        divisor = constant_of(op.operands[1])
        if set(readers) == {ROUND} and divisor is not None and SMALLEST <= abs(divisor) <= LARGEST:
            yield op.operation, divisor


def is_f32_vector(kind: ir.Type) -> bool:
    """Whether a type is that of f32 vectors."""
    return isinstance(kind, ir.VectorType) and isinstance(kind.element_type, ir.F32Type)


def constant_of(value: ir.Value) -> float | None:
    """The number that all lanes are, if it is known."""
    op = value.owner
    if not isinstance(op, ir.Block) and op.operation.name == "vector.broadcast":
        op = op.operation.operands[0].owner
    if isinstance(op, ir.Block) or op.operation.name != "arith.constant":
        return None
    held = op.operation.attributes["value"]
    if isinstance(held, ir.DenseFPElementsAttr):
        return float(ir.FloatAttr(held.get_splat_value()).value) if held.is_splat else None
    return float(held.value) if isinstance(held, ir.FloatAttr) else None


def corrected(x: ir.Value, divisor: float) -> ir.Value:
    """What x / divisor is rounded to, or a number that is rounded to the same whole one."""
    reciprocal = float(np.float32(1) / np.float32(divisor))
    off = abs(Fraction(reciprocal) * Fraction(divisor) - 1)
    inverse, minus = splat(x, reciprocal), splat(x, -divisor)
    product = quotient = arith.mulf(x, inverse)
    for _ in range(1 if off <= CLOSE else 2):
        quotient = math.fma(math.fma(quotient, minus, x), inverse, quotient)
    inside = arith.cmpf(arith.CmpFPredicate.OLT, math.absf(product), splat(x, WHOLE))
    return arith.select(inside, quotient, product)
