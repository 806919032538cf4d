"""Lower products of packed words, on buffers: quantization of A, packing of B, register tiles of dot products.

    for k:  C[i, j : j + 16] += dot(A[i, k], B[k, j : j + 16])      a word of A times 16 of B, summed within each word

It uses AVX-512 instructions: ``vpdpbusd`` for four int8, of which A's are unsigned, ``vpdpwssd`` for two int16, and
``vdpbf16ps`` for two bf16.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, memref, scf, vector

from autotune.compiler.ir.values import index
from autotune.compiler.passes.marked_loops import mark_hidden, marked
from autotune.compiler.passes.rounding import (
    LANES,
    Rounding,
    call_intrinsic,
    first_of,
    shape_of,
    splat,
    vector_of,
    widened,
)
from autotune.compiler.passes.tiles import TileProduct
from autotune.compiler.passes.words_of_b import WordsOfB, lay_in_panels
from autotune.core.precision import Precision, precision_named
from autotune.core.scripts.marks import HIDDEN, NARROW, WORDS_OF_B

Part = tuple[int, int, int]  # vector of a tile: row, first column, and number of columns, at most a vector
INTRINSICS = {  # by element type
    "i8": "llvm.x86.avx512.vpdpbusd.512",
    "i16": "llvm.x86.avx512.vpdpwssd.512",
    "bf16": "llvm.x86.avx512bf16.dpbf16ps.512",
}


def write_dots(module: ir.Module, *, unit: bool = False, threads: int = 1) -> None:
    """Replace every placeholder op of `narrow.py` by its code.

    Args:
        module: Bufferized module.
        unit: Whether tile products use the matrix unit; otherwise, they are emulated.
        threads: Threads of the program.

    Raises:
        CompileError: Stage ``transform``; an op is not a register tile of static shape.
    """
    packed: list[ir.Value] = []
    for op in marked(module.operation, NARROW):
        precision = precision_named(ir.StringAttr(op.attributes[NARROW]).value)
        hidden = HIDDEN in op.attributes
        with ir.InsertionPoint(op), op.location:
            operands = list(op.operands)
            if WORDS_OF_B in op.attributes:
                source, words = operands
                transposed = ir.StringAttr(op.attributes[WORDS_OF_B]).value == "nk"
                WordsOfB(precision, source, words, transposed).write()
                packed.append(words)
            elif len(operands) == 2:
                source, words = operands
                Rounding(precision, source, words, threads, hidden).write()
            else:
                a, b, c = operands
                if precision.by_tiles:
                    TileProduct(precision, a, b, c, unit, hidden).write()
                else:
                    Dots(precision, a, b, c, hidden).write()
        op.erase()
    lay_in_panels(packed)


@dataclass(frozen=True)
class Dots:
    """Code generator of one register tile, whose accumulators are all in vector registers.

    Attributes:
        precision: Precision of the words.
        a: Words of A's rows (m, words).
        b: Words of B's columns (words, n).
        c: Buffer of the tile's results (m, n), f32.
        hidden: Whether a causal mask hides the last of A's columns, so that they may be skipped.
    """

    precision: Precision
    a: ir.Value
    b: ir.Value
    c: ir.Value
    hidden: bool

    def write(self) -> None:
        """Build the code of the tile at the insertion point."""
        (rows, columns), (words, _) = shape_of(self.c), shape_of(self.b)
        tile = [(row, start, min(LANES, columns - start)) for row in range(rows) for start in range(0, columns, LANES)]
        values, chunk = words - self.precision.extra, self.precision.chunk
        if not chunk or values <= chunk:
            totals = self.sums(index(0), index(values // self.precision.parts), tile, values)
            self.store(tile, self.scaled(tile, totals, values))
            return
        self.store(tile, [splat(0, "f32")] * len(tile))
        loop = scf.ForOp(index(0), index(values), index(chunk))
        with ir.InsertionPoint(loop.body):
            first = loop.induction_variable
            last = arith.minui(arith.addi(first, index(chunk)), index(values))
            numbers = map(self.as_floats, self.sums(first, last, tile, values))
            self.store(tile, map(arith.addf, self.load(tile), numbers))
            scf.yield_([])
        self.store(tile, self.scaled(tile, self.load(tile), values))

    def sums(self, first: ir.Value, last: ir.Value, tile: list[Part], values: int) -> list[ir.Value]:
        """Build the accumulators over words from `first` up to, excluding, `last`."""
        columns = tile[: sum(row == 0 for row, _, _ in tile)]
        zero = splat(0, self.precision.sums)
        first_sums = index(values + self.precision.is_scaled)
        starts = [self.load_b(first_sums, part) if self.precision.shift else zero for part in columns]
        loop = scf.ForOp(first, last, index(1), starts * (len(tile) // len(columns)))
        mark_hidden(loop, self.precision.values, is_hidden=self.hidden)
        with ir.InsertionPoint(loop.body):
            sums = list(loop.inner_iter_args)
            for of_a, of_b in self.precision.products:
                k = loop.induction_variable
                sums = list(self.step(self.of_part(k, of_a), self.of_part(k, of_b), tile, columns, sums))
            scf.yield_(sums)
        return list(loop.results)

    def of_part(self, k: ir.Value, part: int) -> ir.Value:
        """Offset a word's index to a part of the precision."""
        words = (shape_of(self.b)[0] - self.precision.extra) // self.precision.parts
        return arith.addi(k, index(part * words)) if part else k

    def scaled(self, tile: list[Part], totals: list[ir.Value], values: int) -> Iterator[ir.Value]:
        """Dequantize accumulators: multiply by the scales of their row and columns."""
        if not self.precision.is_scaled:
            yield from totals
            return
        scales = {part[1]: self.as_numbers(self.load_b(index(values), part)) for part in tile if part[0] == 0}
        for (row, start, _), total in zip(tile, totals, strict=True):
            scale = arith.mulf(self.as_numbers(self.splat_a(row, index(values))), scales[start])
            yield arith.mulf(self.as_floats(total), scale)

    def as_floats(self, total: ir.Value) -> ir.Value:
        """Convert accumulators to f32."""
        float_type = vector_of(LANES, "f32")
        return total if total.type == float_type else arith.sitofp(float_type, total)

    def load(self, tile: list[Part]) -> list[ir.Value]:
        """Load the tile from the buffer of results."""
        return [
            widened(vector.load(vector_of(count, "f32"), self.c, [index(row), index(start)]))
            for row, start, count in tile
        ]

    def store(self, tile: list[Part], results: Iterable[ir.Value]) -> None:
        """Store the tile to the buffer of results."""
        for (row, start, count), result in zip(tile, results, strict=True):
            vector.store(first_of(result, count), self.c, [index(row), index(start)])

    def step(
        self, k_of_a: ir.Value, k_of_b: ir.Value, tile: list[Part], parts: list[Part], sums: list[ir.Value]
    ) -> Iterator[ir.Value]:
        """Accumulate the product of one word of A and one of B for every vector of the tile."""
        of_b = [self.as_values(self.load_b(k_of_b, part)) for part in parts]
        for position, (row, _, _) in enumerate(tile):
            if position % len(parts) == 0:
                of_a = self.as_values(self.splat_a(row, k_of_a))
            yield self.dot(sums[position], of_a, of_b[position % len(parts)])

    def load_b(self, k: ir.Value, part: Part) -> ir.Value:
        """Load words of neighbouring columns of B."""
        _, first, count = part
        return widened(vector.load(vector_of(count, "i32"), self.b, [k, index(first)]))

    def splat_a(self, row: int, k: ir.Value) -> ir.Value:
        """Load one word of A, broadcast to all lanes."""
        return vector.broadcast(vector_of(LANES, "i32"), memref.load(self.a, [index(row), k]))

    def as_numbers(self, words: ir.Value) -> ir.Value:
        """Bitcast words to f32."""
        return arith.bitcast(vector_of(LANES, "f32"), words)

    def as_values(self, words: ir.Value) -> ir.Value:
        """Bitcast words to packed values."""
        return vector.bitcast(vector_of(LANES * self.precision.values, self.precision.element), words)

    def dot(self, sums: ir.Value, a: ir.Value, b: ir.Value) -> ir.Value:
        """Build the dot-product intrinsic."""
        return call_intrinsic(INTRINSICS[self.precision.element], [sums.type], sums, a, b)[0]
