"""Numbers that are rounded to bytes: no division, and neither a rounding of its own nor a conversion.

    byte(clip(round(x / c) + z, low, high))   ->   q = the quotient of clip(x, ..);   byte(q + 1.5 * 2^23) + z

What is held between whole numbers before it is rounded is what it would be behind; a sum that large has no room for a
fraction, rounds it to even, and has the whole number in its lowest bits.

    round(x / c)   ->   q = x * (1 / c);   q = fma(fma(-q, c, x), 1 / c, q);   round(q)

A division of 16 lanes keeps its unit for 16 cycles. A quotient that is within a unit of the last place of x / c
becomes, by such a step, what a division rounds to (Markstein, Computation of elementary functions on the IBM RISC
System/6000 processor, 1990); the first product is, where the reciprocal is off by no more than 2^-25, and else what the
reciprocal lacks is multiplied, too: q = fma(x, 1 / c, x * what it lacks). Where x is so small that a step loses bits,
both round to zero. Where nothing holds x in bounds, and it is so large that a step could overflow, or no number, the
product is taken as it is: rounded, it is as large, or none.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import prod

import numpy as np
from mlir import ir
from mlir.dialects import arith, math, vector

from autotune.compiler.ir.module import every_op
from autotune.compiler.ir.values import maker_named, splat_of
from autotune.compiler.passes.vector_math import splat

SMALLEST, LARGEST = 2.0**-60, 2.0**60  # of divisors
WHOLE = 2.0**30  # quotients from here on are whole numbers, and no byte
CLOSE = Fraction(1, 1 << 25)
ROUNDER = 12582912.0  # 2**23 + 2**22
ROUND, DIVIDE, ADD, SELECT, COMPARE = "math.roundeven", "arith.divf", "arith.addf", "arith.select", "arith.cmpf"
LESS, GREATER = (int(each) for each in (arith.CmpFPredicate.OLT, arith.CmpFPredicate.OGT))
BYTE = range(-128, 128)
BYTES, LANES, LOWEST = 64, 16, 0xFF  # bytes and words of a vector; the lowest bits of a word


def rounds(module: ir.Module) -> bool:
    """Tell whether a module rounds to even."""
    return any(op.name == ROUND for op in every_op(module))


def round_bytes(module: ir.Module) -> None:
    """Write what is rounded to bytes, and rounded quotients by a constant, as sums and products of f32, in place."""
    for cast in [op.operation for op in every_op(module) if op.name == "arith.fptosi"]:
        ending = ending_of(cast)
        if ending is not None:
            with ir.InsertionPoint(cast), cast.location:
                cast.results[0].replace_all_uses_with(ending.write(cast.results[0].type))
            erase_unread([cast, *ending.steps])
    for quotient, divisor in list(rounded_quotients(module)):
        with ir.InsertionPoint(quotient), quotient.location:
            quotient.results[0].replace_all_uses_with(guarded(quotient.operands[0], divisor))
        quotient.erase()


@dataclass(frozen=True)
class ByteEnding:
    """What makes a byte of a number.

    Attributes:
        rounded: What is rounded; a quotient, where `divisor` is not 0 the number that is divided.
        divisor: Constant that it is divided by; 0 for none.
        zero: Whole number that is added to what is rounded.
        low: Least byte.
        high: Greatest one.
        steps: The ops that it is made of, the last first.
    """

    rounded: ir.Value
    divisor: float
    zero: int
    low: int
    high: int
    steps: tuple[ir.Operation, ...]

    def write(self, kind: ir.Type) -> ir.Value:
        """The bytes, of a type."""
        x, bounds = self.rounded, [float(self.low - self.zero), float(self.high - self.zero)]
        if self.divisor:
            bounds = [last_of(bound, self.divisor, way) for bound, way in zip(bounds, (-np.inf, np.inf), strict=True)]
        for predicate, bound in zip((LESS, GREATER), bounds, strict=True):
            limit = splat(x, bound)
            x = arith.select(arith.cmpf(predicate, x, limit), limit, x)
        q = corrected(x, self.divisor)[1] if self.divisor else x
        whole = ir.VectorType.get(ir.VectorType(x.type).shape, ir.IntegerType.get_signless(32))
        found = lowest_bytes(arith.bitcast(whole, arith.addf(q, splat(x, ROUNDER))), ir.VectorType(kind))
        if not self.zero:
            return found
        return arith.addi(found, splat_of(kind, self.zero))


def lowest_bytes(words: ir.Value, kind: ir.VectorType) -> ir.Value:
    """The lowest bytes of words: of 4 vectors at once by shifts, a choice of bits each, and one move of bytes.

    A truncation of each vector moves bytes twice, and then their results are put together.
    """
    count = prod(kind.shape)
    if count % BYTES:
        return arith.trunci(kind, words)
    flat = ir.VectorType.get([count], ir.VectorType(words.type).element_type)
    part, packed = ir.VectorType.get([LANES], flat.element_type), ir.VectorType.get([BYTES], kind.element_type)
    words, found = vector.shape_cast(flat, words), []
    for start in range(0, count, BYTES):
        held = None
        for number in range(BYTES // LANES):
            piece = vector.extract_strided_slice(part, words, [start + LANES * number], [LANES], [1])
            if held is None:
                held = arith.andi(piece, constant_of_words(part, LOWEST))
                continue
            shifted = arith.shli(piece, constant_of_words(part, 8 * number))
            is_last = number + 1 == BYTES // LANES
            held = arith.ori(
                held, shifted if is_last else arith.andi(shifted, constant_of_words(part, LOWEST << 8 * number))
            )
        loose = vector.bitcast(packed, held)
        order = [4 * (at % LANES) + at // LANES for at in range(BYTES)]
        found.append(vector.shuffle(loose, loose, order))
    whole = found[0]
    for more in found[1:]:
        whole = joined(whole, more)
    return vector.shape_cast(kind, whole)


def joined(first: ir.Value, second: ir.Value) -> ir.Value:
    """Two vectors, one behind the other."""
    sizes = [ir.VectorType(each.type).shape[0] for each in (first, second)]
    whole = ir.VectorType.get([sum(sizes)], ir.VectorType(first.type).element_type)
    nothing = splat_of(whole, 0)
    for each, at in ((first, 0), (second, sizes[0])):
        nothing = vector.insert_strided_slice(each, nothing, [at], [1])
    return nothing


def constant_of_words(kind: ir.VectorType, number: int) -> ir.Value:
    """A whole number in every lane."""
    return splat_of(kind, number - (1 << 32) if number >= 1 << 31 else number)


def ending_of(cast: ir.Operation) -> ByteEnding | None:
    """The ending that a cast of f32 vectors to bytes is the last of; `None` if it is another."""
    kind = cast.results[0].type
    if (
        not isinstance(kind, ir.VectorType)
        or str(kind.element_type) != "i8"
        or not is_f32_vector(cast.operands[0].type)
    ):
        return None
    held, high, above = limited(cast.operands[0], GREATER)
    held, low, below = limited(held, LESS)
    added = maker_named(held, ADD)
    zero = constant_of(added.operands[1]) if added is not None else 0.0
    rounding = maker_named(added.operands[0] if added is not None else held, ROUND)
    if rounding is None or zero is None or any(each != int(each) for each in (zero, low, high)):
        return None
    if not (int(zero) in BYTE and int(low) in BYTE and int(high) in BYTE and low <= high):
        return None
    x, divisor = rounding.operands[0], 0.0
    quotient = maker_named(x, DIVIDE)
    if quotient is not None:
        constant = constant_of(quotient.operands[1])
        if constant is not None and SMALLEST <= constant <= LARGEST:
            x, divisor = quotient.operands[0], constant
    steps = (*above, *below, *(each for each in (added, rounding, quotient) if each is not None))
    return ByteEnding(x, divisor, int(zero), int(low), int(high), steps)


def limited(value: ir.Value | None, way: int) -> tuple[ir.Value | None, float, tuple[ir.Operation, ...]]:
    """What a constant limits on one side, the constant, and the ops that do; `None` if a value is no such limit."""
    chosen = maker_named(value, SELECT)
    compared = maker_named(chosen.operands[0], COMPARE) if chosen is not None else None
    if chosen is None or compared is None or ir.IntegerAttr(compared.attributes["predicate"]).value != way:
        return None, 0.0, ()
    limit = constant_of(chosen.operands[1])
    if limit is None or compared.operands[0] != chosen.operands[2] or constant_of(compared.operands[1]) != limit:
        return None, 0.0, ()
    return chosen.operands[2], limit, (chosen, compared)


def erase_unread(ending: list[ir.Operation]) -> None:
    """Erase ops whose results nothing reads, of ops each before those that it reads."""
    for op in ending:
        if not list(op.results[0].uses):
            op.erase()


def last_of(bound: float, divisor: float, way: float) -> float:
    """The last number in a direction whose quotient is rounded to a whole number."""
    step, goal = np.float32(divisor), np.float32(bound)
    inside, outside = goal * step, (goal + np.float32(np.sign(way))) * step
    while np.nextafter(inside, outside) != outside:  # halve what is between them
        middle = (inside + outside) / np.float32(2)
        if middle in (inside, outside):
            middle = np.nextafter(inside, outside)
        if np.rint(middle / step) == goal:
            inside = middle
        else:
            outside = middle
    return float(inside)


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


def corrected(x: ir.Value, divisor: float) -> tuple[ir.Value, ir.Value]:
    """Give x times the reciprocal, and what x / divisor is rounded to."""
    reciprocal = float(np.float32(1) / np.float32(divisor))
    off = 1 - Fraction(reciprocal) * Fraction(divisor)
    inverse, minus = splat(x, reciprocal), splat(x, -divisor)
    product = near = arith.mulf(x, inverse)
    if abs(off) > CLOSE:
        lacking = float(np.float32(float(off / Fraction(divisor))))
        near = math.fma(x, inverse, arith.mulf(x, splat(x, lacking)))
    return product, math.fma(math.fma(near, minus, x), inverse, near)


def guarded(x: ir.Value, divisor: float) -> ir.Value:
    """What x / divisor is rounded to, or a number that is rounded to the same whole one."""
    product, quotient = corrected(x, divisor)
    inside = arith.cmpf(arith.CmpFPredicate.OLT, math.absf(product), splat(x, WHOLE))
    return arith.select(inside, quotient, product)
