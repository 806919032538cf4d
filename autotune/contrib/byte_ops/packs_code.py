"""Lower marked quantizations to bytes, on vectors, to conversions that round and packs that saturate.

    byte(clamp(round(x) + z, low, high))   ->   words of x, packed to 16 bits, plus z, packed to 8 bits

A conversion gives the smallest word for a number below all words, which packs saturate to the smallest byte; for a
number above all words, too, so that of both limits only the upper one is left. Packs work within quarters of a vector:
a permute of words restores the order of the elements.
"""

from dataclasses import dataclass
from math import inf, prod

from mlir import ir
from mlir.dialects import arith, vector

from autotune.compiler.passes.byte_rounding import ByteEnding, corrected, ending_of, erase_unread, last_of
from autotune.compiler.passes.marked_loops import marked
from autotune.compiler.passes.rounding import BYTES_OF_WORD, LANES, call_intrinsic, splat, vector_of
from autotune.contrib.byte_ops.flat import cut, in_parts
from autotune.contrib.byte_ops.marks import PACKS, PACKS_BYTES
from autotune.core.host.matrix_unit import cpu_flags

BYTES = BYTES_OF_WORD * LANES
CONVERT = "llvm.x86.avx512.mask.cvtps2dq.512"
TO_NEAREST, ALL_LANES = 8, -1  # ties to even, whatever the rounding mode of the thread is
TO_16_BITS, TO_SIGNED, TO_UNSIGNED = (f"llvm.x86.avx512.{name}.512" for name in ("packssdw", "packsswb", "packuswb"))
ADD = "llvm.sadd.sat.v32i16"
LEAST = -128
QUARTERS = 4  # of a vector, within which packs work
IN_ORDER = [QUARTERS * (word % QUARTERS) + word // QUARTERS for word in range(LANES)]


def write_byte_packs(module: ir.Module) -> None:
    """Replace every marked quantization of whole vectors; without packs of 64 bytes, all stay as they are."""
    for cast in marked(module.operation, PACKS):
        ending, vector_type = ending_of(cast), cast.results[0].type
        if ending is None or prod(vector_type.shape) % BYTES or PACKS_BYTES not in cpu_flags():
            continue
        with ir.InsertionPoint(cast), cast.location:
            write_bytes = BytePack(ending).write
            cast.results[0].replace_all_uses_with(in_parts(write_bytes, BYTES, vector_type, ending.rounded))
        erase_unread([cast, *ending.steps])


@dataclass(frozen=True)
class BytePack:
    """Code generator of a quantization of 64 elements.

    Attributes:
        ending: The quantization.
    """

    ending: ByteEnding

    def write(self, x: ir.Value) -> ir.Value:
        """Build the bytes of a vector of 64 elements of f32."""
        zero, low = self.ending.zero, self.ending.low
        first, second, third, fourth = (self.words(part) for part in cut(x, LANES))
        halves = [self.shifted(packed(TO_16_BITS, "i16", *pair)) for pair in ((first, second), (third, fourth))]
        result = packed(TO_UNSIGNED if zero == LEAST else TO_SIGNED, "i8", *halves)
        words = vector.bitcast(vector_of(LANES, "i32"), result)
        result = vector.bitcast(vector_of(BYTES, "i8"), vector.shuffle(words, words, IN_ORDER))
        if zero == LEAST:
            result = arith.addi(result, splat(zero, "i8", BYTES))
        return arith.maxsi(result, splat(low, "i8", BYTES)) if low > LEAST else result

    def words(self, x: ir.Value) -> ir.Value:
        """Build the rounded quotients of a vector of machine width, as words; numbers above the range are limited."""
        bound, divisor = float(self.ending.high - self.ending.zero), self.ending.divisor
        limit = splat(last_of(bound, divisor, inf) if divisor else bound, "f32")
        x = arith.select(arith.cmpf(arith.CmpFPredicate.OGT, x, limit), limit, x)
        q = corrected(x, divisor)[1] if divisor else x
        sixteen, words = ir.IntegerType.get_signless(16), vector_of(LANES, "i32")
        lanes, mode = arith.constant(sixteen, ALL_LANES), arith.constant(words.element_type, TO_NEAREST)
        return call_intrinsic(CONVERT, [words], q, splat(0, "i32"), lanes, mode)[0]

    def shifted(self, half: ir.Value) -> ir.Value:
        """Build the sum of 16-bit numbers and the zero point, saturated; the smallest zero point is added to bytes."""
        if self.ending.zero in (0, LEAST):
            return half
        return call_intrinsic(ADD, [half.type], half, splat(self.ending.zero, "i16", len(IN_ORDER) * 2))[0]


def packed(name: str, element: str, first: ir.Value, second: ir.Value) -> ir.Value:
    """Build the pack of two vectors into one of elements of half the size."""
    count = ir.VectorType(first.type).shape[0]
    return call_intrinsic(name, [vector_of(2 * count, element)], first, second)[0]
