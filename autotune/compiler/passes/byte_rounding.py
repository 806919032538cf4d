"""Lower quantization to i8 (divide, round to even, clamp, convert) to multiply-adds, without division or conversion.

    byte(clip(round(x / c) + z, low, high))   ->   q = the quotient of clip(x, ..);   byte(q + 1.5 * 2^23) + z

Clamping to integers commutes with rounding, so x is clamped first. The sum with 1.5 * 2^23 is so large that f32 has no
fraction bits left: the addition rounds to even, and leaves the integer in the low bits.

    round(x / c)   ->   q = x * (1 / c);   q = fma(fma(-q, c, x), 1 / c, q);   round(q)

A division of 16 lanes occupies its unit for 16 cycles. One such correction step turns a quotient within one ulp of
x / c into the correctly rounded quotient (Markstein, Computation of elementary functions on the IBM RISC System/6000
processor, 1990). The first product is within one ulp if the reciprocal's relative error is at most 2^-25; otherwise, it
is corrected: q = fma(x, 1 / c, x * error). If x is so small that a step loses bits, both round to zero. If x is not
clamped, and so large that a step could overflow, or NaN or infinite, the plain product is used, which rounds to the
same.
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

SMALLEST, LARGEST = 2.0**-60, 2.0**60  # limits of divisors
WHOLE = 2.0**30  # quotients from here on are integers, and outside i8
CLOSE = Fraction(1, 1 << 25)
ROUNDER = 12582912.0  # 2**23 + 2**22
ROUND, DIVIDE, ADD, SELECT, COMPARE = "math.roundeven", "arith.divf", "arith.addf", "arith.select", "arith.cmpf"
LESS, GREATER = (int(each) for each in (arith.CmpFPredicate.OLT, arith.CmpFPredicate.OGT))
BYTE = range(-128, 128)
BYTES, LANES, LOWEST = 64, 16, 0xFF  # bytes and words of a vector; mask of the lowest byte


def rounds(module: ir.Module) -> bool:
    """Return whether a module contains math.roundeven."""
    return any(op.name == ROUND for op in every_op(module))


def round_bytes(module: ir.Module) -> None:
    """Rewrite quantizations to i8, and rounded quotients by a constant, to f32 multiply-adds, in place."""
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
    """A matched quantization to i8: ``clamp(round(rounded / divisor) + zero, low, high)``.

    Attributes:
        rounded: Dividend, or the rounded value if there is no division.
        divisor: Constant divisor; 0 if there is no division.
        zero: Zero point.
        low: Lower bound of the clamp.
        high: Upper bound of the clamp.
        steps: Matched operations, the last first.
    """

    rounded: ir.Value
    divisor: float
    zero: int
    low: int
    high: int
    steps: tuple[ir.Operation, ...]

    def write(self, result_type: ir.Type) -> ir.Value:
        """Build the quantization with the given result type."""
        x, bounds = self.rounded, [float(self.low - self.zero), float(self.high - self.zero)]
        if self.divisor:
            bounds = [last_of(bound, self.divisor, side) for bound, side in zip(bounds, (-np.inf, np.inf), strict=True)]
        for predicate, bound in zip((LESS, GREATER), bounds, strict=True):
            limit = splat(x, bound)
            x = arith.select(arith.cmpf(predicate, x, limit), limit, x)
        q = corrected(x, self.divisor)[1] if self.divisor else x
        word_type = ir.VectorType.get(ir.VectorType(x.type).shape, ir.IntegerType.get_signless(32))
        quantized = lowest_bytes(arith.bitcast(word_type, arith.addf(q, splat(x, ROUNDER))), ir.VectorType(result_type))
        if not self.zero:
            return quantized
        return arith.addi(quantized, splat_of(result_type, self.zero))


def lowest_bytes(words: ir.Value, vector_type: ir.VectorType) -> ir.Value:
    """Truncate words to bytes: combine 4 vectors at once by shifts and masks, then permute bytes once.

    Truncating each vector would permute bytes twice, and then concatenate the results.
    """
    count = prod(vector_type.shape)
    if count % BYTES:
        return arith.trunci(vector_type, words)
    flat = ir.VectorType.get([count], ir.VectorType(words.type).element_type)
    part, packed = ir.VectorType.get([LANES], flat.element_type), ir.VectorType.get([BYTES], vector_type.element_type)
    words, vectors = vector.shape_cast(flat, words), []
    for start in range(0, count, BYTES):
        combined = None
        for number in range(BYTES // LANES):
            piece = vector.extract_strided_slice(part, words, [start + LANES * number], [LANES], [1])
            if combined is None:
                combined = arith.andi(piece, constant_of_words(part, LOWEST))
                continue
            shifted = arith.shli(piece, constant_of_words(part, 8 * number))
            is_last = number + 1 == BYTES // LANES
            combined = arith.ori(
                combined, shifted if is_last else arith.andi(shifted, constant_of_words(part, LOWEST << 8 * number))
            )
        bytes_of_words = vector.bitcast(packed, combined)
        # Byte `number` of word `lane` belongs to element LANES * number + lane.
        order = [4 * (at % LANES) + at // LANES for at in range(BYTES)]
        vectors.append(vector.shuffle(bytes_of_words, bytes_of_words, order))
    whole = vectors[0]
    for rest in vectors[1:]:
        whole = joined(whole, rest)
    return vector.shape_cast(vector_type, whole)


def joined(first: ir.Value, second: ir.Value) -> ir.Value:
    """Concatenate two vectors."""
    sizes = [ir.VectorType(each.type).shape[0] for each in (first, second)]
    result_type = ir.VectorType.get([sum(sizes)], ir.VectorType(first.type).element_type)
    result = splat_of(result_type, 0)
    for each, at in ((first, 0), (second, sizes[0])):
        result = vector.insert_strided_slice(each, result, [at], [1])
    return result


def constant_of_words(vector_type: ir.VectorType, number: int) -> ir.Value:
    """Build a splat constant from an unsigned 32-bit number."""
    return splat_of(vector_type, number - (1 << 32) if number >= 1 << 31 else number)


def ending_of(cast: ir.Operation) -> ByteEnding | None:
    """Match the quantization whose last operation is the given cast; return `None` if the operands do not match."""
    result_type = cast.results[0].type
    if (
        not isinstance(result_type, ir.VectorType)
        or str(result_type.element_type) != "i8"
        or not is_f32_vector(cast.operands[0].type)
    ):
        return None
    unclamped, high, above = limited(cast.operands[0], GREATER)
    unclamped, low, below = limited(unclamped, LESS)
    added = maker_named(unclamped, ADD)
    zero = constant_of(added.operands[1]) if added is not None else 0.0
    rounding = maker_named(added.operands[0] if added is not None else unclamped, ROUND)
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
    """Match a clamp by a constant on one side; return its input (`None` if there is none), the bound and the ops."""
    chosen = maker_named(value, SELECT)
    compared = maker_named(chosen.operands[0], COMPARE) if chosen is not None else None
    if chosen is None or compared is None or ir.IntegerAttr(compared.attributes["predicate"]).value != way:
        return None, 0.0, ()
    limit = constant_of(chosen.operands[1])
    if limit is None or compared.operands[0] != chosen.operands[2] or constant_of(compared.operands[1]) != limit:
        return None, 0.0, ()
    return chosen.operands[2], limit, (chosen, compared)


def erase_unread(ending: list[ir.Operation]) -> None:
    """Erase unused ops; users precede their operands in the list."""
    for op in ending:
        if not list(op.results[0].uses):
            op.erase()


def last_of(bound: float, divisor: float, way: float) -> float:
    """Return the last f32 in a direction whose quotient by `divisor` rounds to the integer `bound`."""
    step, goal = np.float32(divisor), np.float32(bound)
    inside, outside = goal * step, (goal + np.float32(np.sign(way))) * step
    while np.nextafter(inside, outside) != outside:  # bisect
        middle = (inside + outside) / np.float32(2)
        if middle in (inside, outside):
            middle = np.nextafter(inside, outside)
        if np.rint(middle / step) == goal:
            inside = middle
        else:
            outside = middle
    return float(inside)


def rounded_quotients(module: ir.Module) -> Iterator[tuple[ir.Operation, float]]:
    """Yield divisions of f32 vectors by a constant that only roundings use, and the constant."""
    for op in every_op(module):
        if op.name != DIVIDE or not is_f32_vector(op.results[0].type):
            continue
        readers = [use.owner.operation.name for use in op.results[0].uses]
        divisor = constant_of(op.operands[1])
        if set(readers) == {ROUND} and divisor is not None and SMALLEST <= abs(divisor) <= LARGEST:
            yield op.operation, divisor


def is_f32_vector(mlir_type: ir.Type) -> bool:
    """Return whether a type is a vector of f32."""
    return isinstance(mlir_type, ir.VectorType) and isinstance(mlir_type.element_type, ir.F32Type)


def constant_of(value: ir.Value) -> float | None:
    """Return the float of a scalar or splat constant, possibly broadcast; else `None`."""
    op = value.owner
    if not isinstance(op, ir.Block) and op.operation.name == "vector.broadcast":
        op = op.operation.operands[0].owner
    if isinstance(op, ir.Block) or op.operation.name != "arith.constant":
        return None
    attribute = op.operation.attributes["value"]
    if isinstance(attribute, ir.DenseFPElementsAttr):
        return float(ir.FloatAttr(attribute.get_splat_value()).value) if attribute.is_splat else None
    return float(attribute.value) if isinstance(attribute, ir.FloatAttr) else None


def corrected(x: ir.Value, divisor: float) -> tuple[ir.Value, ir.Value]:
    """Build the product of x and the reciprocal, and the correctly rounded quotient x / divisor."""
    reciprocal = float(np.float32(1) / np.float32(divisor))
    error = 1 - Fraction(reciprocal) * Fraction(divisor)
    inverse, minus = splat(x, reciprocal), splat(x, -divisor)
    product = quotient = arith.mulf(x, inverse)
    if abs(error) > CLOSE:
        correction = float(np.float32(float(error / Fraction(divisor))))
        quotient = math.fma(x, inverse, arith.mulf(x, splat(x, correction)))
    return product, math.fma(math.fma(quotient, minus, x), inverse, quotient)


def guarded(x: ir.Value, divisor: float) -> ir.Value:
    """Build the quotient x / divisor, or, if it is large or not finite, the plain product, which rounds to the same."""
    product, quotient = corrected(x, divisor)
    inside = arith.cmpf(arith.CmpFPredicate.OLT, math.absf(product), splat(x, WHOLE))
    return arith.select(inside, quotient, product)
