"""Quantize the rows of A to packed words, on buffers; and helpers for vectors of words."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from mlir import ir
from mlir.dialects import arith, math, memref, scf, vector

from autotune.compiler.ir.loops import counted, in_pieces, split
from autotune.compiler.ir.values import index, splat_of
from autotune.compiler.passes.marked_loops import mark_hidden
from autotune.core.errors import CompileError
from autotune.core.host.matrix_unit import cpu_flags
from autotune.core.precision import Precision

LANES = 16  # 32-bit words of a vector
BYTES_OF_WORD = 4
DOTS_FLAG, DOTS = "avx512_vnni", "llvm.x86.avx512.vpdpbusd.512"
LEAST_SPLIT = 1 << 15  # elements, below which waking up threads takes longer than the work
ROUND = 1.5 * 2.0**23  # after adding it to a small number, the low bits of the sum are the nearest integer


def shape_of(value: ir.Value) -> list[int]:
    """Return the static shape of a memref.

    Raises:
        CompileError: Dynamic shape.
    """
    memref_type = ir.MemRefType(value.type)
    if not memref_type.has_static_shape:
        raise CompileError("transform", f"a product of words must have tiles of static sizes, got {memref_type}")
    return list(memref_type.shape)


def vector_of(count: int, element: str) -> ir.VectorType:
    """Return a one-dimensional vector type."""
    return ir.VectorType.get([count], ir.Type.parse(element))


def splat(number: float, element: str, count: int = LANES) -> ir.Value:
    """Build a splat constant; for i8, numbers above 127 are given as unsigned."""
    is_upper = element == "i8" and number > 127
    return splat_of(vector_of(count, element), number - 256 if is_upper else number)


def widened(part: ir.Value, count: int = LANES) -> ir.Value:
    """Pad a vector with zeros to `count` elements."""
    vector_type = ir.VectorType(part.type)
    if vector_type.shape[0] == count:
        return part
    zeros = splat(0, str(vector_type.element_type), count)
    return vector.insert_strided_slice(part, zeros, [0], [1])


def first_of(whole: ir.Value, count: int) -> ir.Value:
    """Extract the first `count` elements of a vector."""
    vector_type = ir.VectorType(whole.type)
    if vector_type.shape[0] == count:
        return whole
    return vector.extract_strided_slice(vector_of(count, str(vector_type.element_type)), whole, [0], [count], [1])


def split_values(rest: ir.Value, parts: int) -> list[ir.Value]:
    """Split a vector of f32 into a sum of bf16 vectors; each part rounds the remainder of those before."""
    halves: list[ir.Value] = []
    for _ in range(parts):
        if halves:
            rest = arith.subf(rest, arith.extf(vector_of(LANES, "f32"), halves[-1]))
        halves.append(arith.truncf(vector_of(LANES, "bf16"), rest))
    return halves


def call_intrinsic(name: str, results: list[ir.Type], *operands: ir.Value) -> list[ir.Value]:
    """Build a call of an LLVM intrinsic; return its results."""
    attributes = {
        "intrin": ir.StringAttr.get(name),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(operands), 0]),
        "op_bundle_sizes": ir.DenseI32ArrayAttr.get([]),
    }
    call = ir.Operation.create("llvm.call_intrinsic", results=results, operands=list(operands), attributes=attributes)
    return list(call.results)


def dot_bytes(sums: ir.Value, unsigned: ir.Value, signed: ir.Value) -> ir.Value:
    """Add a dot product of four u8 x i8 pairs to each i32 lane of `sums`; the operands are packed in words.

    Without AVX-512 VNNI, it is emulated by multiplications and additions.
    """
    count = BYTES_OF_WORD * LANES
    pair = [vector.bitcast(vector_of(count, "i8"), each) for each in (unsigned, signed)]
    if DOTS_FLAG in cpu_flags():
        return call_intrinsic(DOTS, [sums.type], sums, *pair)[0]
    product_type = vector_of(count, "i32")
    products = arith.muli(arith.extui(product_type, pair[0]), arith.extsi(product_type, pair[1]))
    for part in range(BYTES_OF_WORD):
        lanes = [lane * BYTES_OF_WORD + part for lane in range(LANES)]
        sums = arith.addi(sums, vector.shuffle(products, products, lanes))
    return sums


@dataclass(frozen=True)
class Rounding:
    """Code generator that quantizes rows of f32, along the last dimension of an array, to packed words.

    Attributes:
        precision: Precision of the words.
        source: Source memref (..., k) of f32.
        words: Target memref (..., words) of i32.
        threads: Threads that share the rows of a large source.
        hidden: Whether a causal mask hides the last columns, so that they may be skipped.
    """

    precision: Precision
    source: ir.Value
    words: ir.Value
    threads: int = 1
    hidden: bool = False

    def write(self) -> None:
        """Build the loop over the rows of a matrix, each with its own scale, at the insertion point."""
        rows, _ = shape_of(self.source)

        def write(number: ir.Value) -> None:
            if self.precision.is_scaled:
                largest = self.largest(self.raised(splat(self.least, "i32"), [number]))
                self.store_scale(self.scale(largest), [number])
                self.round_row([number], self.steps(largest))
            else:
                self.round_row([number], None)

        loop = split if self.is_split(rows) else counted
        loop(rows, write)

    def is_split(self, count: int) -> bool:
        """Return whether threads share a loop of `count` iterations over all rows."""
        return count >= self.threads > 1 and prod(shape_of(self.source)) >= LEAST_SPLIT

    @property
    def length(self) -> int:
        """Number of elements of a row."""
        return shape_of(self.source)[-1]

    def scale(self, largest: ir.Value) -> ir.Value:
        """Build the quantization scale for the largest magnitude of a row."""
        return arith.mulf(largest, self.number(1 / self.precision.most))

    def store_scale(self, scale: ir.Value, row: Sequence[ir.Value]) -> None:
        """Store a scale after the words of a row."""
        values = shape_of(self.words)[-1] - self.precision.extra
        memref.store(self.bits(scale), self.words, [*row, index(values)])

    def steps(self, largest: ir.Value) -> ir.Value:
        """Build the reciprocal of the scale, by which values are multiplied before rounding, in all lanes."""
        return vector.broadcast(vector_of(LANES, "f32"), arith.divf(self.number(self.precision.most), largest))

    @property
    def least(self) -> int:
        """Bits of the lower bound of the largest magnitude."""
        return int(np.float32(self.precision.least).view(np.int32))

    def copy_bytes(self, row: Sequence[ir.Value]) -> None:
        """Copy a row of i8 into words, plus the shift of the precision, which makes them unsigned."""
        k, count = self.length, LANES * self.precision.values
        shift = splat(self.precision.shift, "i8", count)

        def copied(column: ir.Value, part: int) -> None:
            source = widened(vector.load(vector_of(part, "i8"), self.source, [*row, column]), count)
            words = vector.bitcast(vector_of(LANES, "i32"), arith.addi(source, shift))
            word = arith.divui(column, index(self.precision.values))
            vector.store(first_of(words, self.precision.part_words(part)), self.words, [*row, word])

        in_pieces(k, count, copied)

    def number(self, value: float) -> ir.Value:
        """Build an f32 constant."""
        return arith.constant(ir.F32Type.get(), float(value))

    def bits(self, value: ir.Value) -> ir.Value:
        """Bitcast an f32 to i32."""
        return arith.bitcast(ir.IntegerType.get_signless(32), value)

    def raised(self, largest: ir.Value, row: Sequence[ir.Value]) -> ir.Value:
        """Update a vector with the bits of the largest magnitudes so far by those of a row."""
        k = self.length
        whole = k // LANES * LANES
        positive = splat(2**31 - 1, "i32")

        def step(so_far: ir.Value, column: ir.Value, count: int) -> ir.Value:
            bits = arith.bitcast(vector_of(LANES, "i32"), self.load(row, column, count))
            return arith.maxsi(so_far, arith.andi(bits, positive))

        if whole:
            loop = scf.ForOp(index(0), index(whole), index(LANES), [largest])
            with ir.InsertionPoint(loop.body):
                scf.yield_([step(loop.inner_iter_args[0], loop.induction_variable, LANES)])
            largest = loop.results[0]
        if whole < k:
            largest = step(largest, index(whole), k - whole)
        return largest

    def largest(self, largest: ir.Value) -> ir.Value:
        """Reduce it to the largest magnitude; NaN if there is one, as its bits compare greater than any number's."""
        return arith.bitcast(ir.F32Type.get(), self.largest_bits(largest))

    def largest_bits(self, bits: ir.Value) -> ir.Value:
        """Reduce a vector of bits to their maximum."""
        return vector.reduction(ir.IntegerType.get_signless(32), vector.CombiningKind.MAXSI, bits)

    def load(self, row: Sequence[ir.Value], column: ir.Value, count: int) -> ir.Value:
        """Load `count` elements of a row, padded with zeros."""
        return widened(vector.load(vector_of(count, "f32"), self.source, [*row, column]))

    def round_row(self, row: Sequence[ir.Value], steps: ir.Value | None) -> None:
        """Quantize a row vector by vector; words of a part beyond the row are zero."""
        if self.precision.exact:
            self.copy_bytes(row)
            return
        k = self.length
        whole, packed, words = k // LANES * LANES, LANES // self.precision.values, self.precision.part_words(k)
        if whole:
            loop = scf.ForOp(index(0), index(whole), index(LANES))
            mark_hidden(loop, 1, is_hidden=self.hidden)
            with ir.InsertionPoint(loop.body):
                parts = self.rounded(self.load(row, loop.induction_variable, LANES), steps)
                word = arith.divui(loop.induction_variable, index(self.precision.values))
                self.store(parts, row, word, words, packed)
                scf.yield_([])
        first = whole // self.precision.values
        if whole < k:
            parts = self.rounded(self.load(row, index(whole), k - whole), steps)
            self.store(parts, row, index(first), words, min(packed, words - first))
            first += packed
        for word in range(first, words, packed):
            zero = first_of(splat(0, "i32"), packed)
            self.store([zero] * self.precision.parts, row, index(word), words, packed)

    def store(self, parts: list[ir.Value], row: Sequence[ir.Value], word: ir.Value, words: int, count: int) -> None:
        """Store the first `count` words of the vector of each part, from word `word` of the row on."""
        for number, part in enumerate(parts):
            first_word = arith.addi(word, index(number * words)) if number else word
            vector.store(first_of(part, count), self.words, [*row, first_word])

    def rounded(self, values: ir.Value, steps: ir.Value | None) -> list[ir.Value]:
        """Round a vector of f32 and pack it in words, one vector per part."""
        words = vector_of(LANES // self.precision.values, "i32")
        if steps is None:
            return [vector.bitcast(words, part) for part in split_values(values, self.precision.parts)]
        summed = math.fma(values, steps, splat(ROUND, "f32"))
        bits = arith.bitcast(vector_of(LANES, "i32"), summed)
        if self.precision.shift:
            bits = arith.addi(bits, splat(self.precision.shift, "i32"))
        return [vector.bitcast(words, arith.trunci(vector_of(LANES, self.precision.element), bits))]
