"""Code for products of words, on buffers: the rounding of A's rows, and register tiles of dot products.

    for k:  C[i, j : j + 16] += dot(A[i, k], B[k, j : j + 16])      a word of A times 16 of B, summed within each word

The instructions are AVX-512's: ``vpdpbusd`` for four int8, A's without a sign, and ``vdpbf16ps`` for two bf16.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, math, memref, scf, vector

from autotune.compiler.passes.marked_loops import marked
from autotune.compiler.values import index
from autotune.core.errors import CompileError
from autotune.core.marks import NARROW
from autotune.core.precision import MOST, SHIFT, Precision, precision_named

LANES = 16  # words of a vector
ROUND = 1.5 * 2.0**23  # added to a small number, the last bits of the sum are the nearest integer
INTRINSICS = {"int8": "llvm.x86.avx512.vpdpbusd.512", "bf16": "llvm.x86.avx512bf16.dpbf16ps.512"}
VALUES = {"int8": "vector<64xi8>", "bf16": "vector<32xbf16>"}
SUMS = {"int8": "vector<16xi32>", "bf16": "vector<16xf32>"}


def write_dots(module: ir.Module) -> None:
    """Write the code of every op that `narrow.py` left.

    Raises:
        CompileError: Stage ``transform``; a schedule left an op that is no register tile.
    """
    for op in marked(module.operation, NARROW):
        precision = precision_named(ir.StringAttr(op.attributes[NARROW]).value)
        with ir.InsertionPoint(op), op.location:
            operands = list(op.operands)
            if len(operands) == 2:
                Rounding(precision, *operands).write()
            else:
                Dots(precision, *operands).write()
        op.erase()


def shape_of(value: ir.Value) -> list[int]:
    """Sizes of a buffer.

    Raises:
        CompileError: One is known at run time only.
    """
    kind = ir.MemRefType(value.type)
    if not kind.has_static_shape:
        raise CompileError("transform", f"a product of words must have tiles of static sizes, got {kind}")
    return list(kind.shape)


def vector_of(count: int, element: str) -> ir.VectorType:
    """A vector type."""
    return ir.VectorType.get([count], ir.Type.parse(element))


def splat(number: float, element: str) -> ir.Value:
    """A vector of words that holds one number."""
    kind = vector_of(LANES, element)
    one = kind.element_type
    value = ir.IntegerAttr.get(one, int(number)) if isinstance(one, ir.IntegerType) else ir.FloatAttr.get(one, number)
    return arith.constant(kind, ir.DenseElementsAttr.get_splat(kind, value))


def widened(part: ir.Value) -> ir.Value:
    """A vector filled up with zeros to the length of all others."""
    kind = ir.VectorType(part.type)
    if kind.shape[0] == LANES:
        return part
    zeros = splat(0, str(kind.element_type))
    return vector.insert_strided_slice(part, zeros, [0], [1])


def first_of(whole: ir.Value, count: int) -> ir.Value:
    """The first elements of a vector."""
    kind = ir.VectorType(whole.type)
    if kind.shape[0] == count:
        return whole
    return vector.extract_strided_slice(vector_of(count, str(kind.element_type)), whole, [0], [count], [1])


@dataclass(frozen=True)
class Rounding:
    """The rows of A, f32, as words.

    Attributes:
        precision: Precision of the words.
        source: A (m, k).
        words: The words (m, words).
    """

    precision: Precision
    source: ir.Value
    words: ir.Value

    def write(self) -> None:
        """All of it, at the insertion point."""
        (rows, k), (_, words) = shape_of(self.source), shape_of(self.words)
        loop = scf.ForOp(index(0), index(rows), index(1))
        with ir.InsertionPoint(loop.body):
            row, values = loop.induction_variable, words - self.precision.extra
            steps = None
            if self.precision.extra:
                largest = self.largest(row, k)
                memref.store(self.bits(arith.mulf(largest, self.number(1 / MOST))), self.words, [row, index(values)])
                is_zero = arith.cmpf(arith.CmpFPredicate.OEQ, largest, self.number(0.0))
                inverse = arith.divf(self.number(MOST), largest)
                steps = vector.broadcast(vector_of(LANES, "f32"), arith.select(is_zero, self.number(0.0), inverse))
            self.round_row(row, k, steps)
            scf.yield_([])

    def number(self, value: float) -> ir.Value:
        """A constant of f32."""
        return arith.constant(ir.F32Type.get(), float(value))

    def bits(self, value: ir.Value) -> ir.Value:
        """A number of f32 as a word."""
        return arith.bitcast(ir.IntegerType.get_signless(32), value)

    def largest(self, row: ir.Value, k: int) -> ir.Value:
        """The largest magnitude of a row; NaN if there is one, whose bits are above those of all numbers."""
        whole = k // LANES * LANES
        positive, found = splat(2**31 - 1, "i32"), splat(0, "i32")

        def raised(so_far: ir.Value, column: ir.Value, count: int) -> ir.Value:
            bits = arith.bitcast(vector_of(LANES, "i32"), self.load(row, column, count))
            return arith.maxsi(so_far, arith.andi(bits, positive))

        if whole:
            loop = scf.ForOp(index(0), index(whole), index(LANES), [found])
            with ir.InsertionPoint(loop.body):
                scf.yield_([raised(loop.inner_iter_args[0], loop.induction_variable, LANES)])
            found = loop.results[0]
        if whole < k:
            found = raised(found, index(whole), k - whole)
        most = vector.reduction(ir.IntegerType.get_signless(32), vector.CombiningKind.MAXSI, found)
        return arith.bitcast(ir.F32Type.get(), most)

    def load(self, row: ir.Value, column: ir.Value, count: int) -> ir.Value:
        """Elements of a row, filled up with zeros."""
        return widened(vector.load(vector_of(count, "f32"), self.source, [row, column]))

    def round_row(self, row: ir.Value, k: int, steps: ir.Value | None) -> None:
        """A vector of elements after the other."""
        whole, packed = k // LANES * LANES, LANES // self.precision.values
        if whole:
            loop = scf.ForOp(index(0), index(whole), index(LANES))
            with ir.InsertionPoint(loop.body):
                words = self.rounded(self.load(row, loop.induction_variable, LANES), steps)
                place = arith.divui(loop.induction_variable, index(self.precision.values))
                vector.store(words, self.words, [row, place])
                scf.yield_([])
        if whole < k:
            words = self.rounded(self.load(row, index(whole), k - whole), steps)
            left = -(-(k - whole) // self.precision.values)
            part = vector_of(left, "i32")
            last = words if left == packed else vector.extract_strided_slice(part, words, [0], [left], [1])
            vector.store(last, self.words, [row, index(whole // self.precision.values)])

    def rounded(self, values: ir.Value, steps: ir.Value | None) -> ir.Value:
        """A vector of f32 in words."""
        words = vector_of(LANES // self.precision.values, "i32")
        if steps is None:
            return vector.bitcast(words, arith.truncf(vector_of(LANES, "bf16"), values))
        summed = math.fma(values, steps, splat(ROUND, "f32"))
        bits = arith.bitcast(vector_of(LANES, "i32"), summed)
        shifted = arith.addi(bits, splat(SHIFT, "i32"))
        return vector.bitcast(words, arith.trunci(vector_of(LANES, "i8"), shifted))


@dataclass(frozen=True)
class Dots:
    """One register tile: all its sums stay in registers.

    Attributes:
        precision: Precision of the words.
        a: Words of A's rows (m, words).
        b: Words of B's columns (words, n).
        c: Buffer of the tile's results (m, n), f32.
    """

    precision: Precision
    a: ir.Value
    b: ir.Value
    c: ir.Value

    def write(self) -> None:
        """All of it, at the insertion point."""
        (rows, columns), (words, _) = shape_of(self.c), shape_of(self.b)
        parts = [(start, min(LANES, columns - start)) for start in range(0, columns, LANES)]
        values = words - self.precision.extra
        starts = [splat(0, "f32")] * len(parts)
        if self.precision.extra:
            starts = [self.load_b(index(values + 1), part) for part in parts]
        loop = scf.ForOp(index(0), index(values), index(1), starts * rows)
        with ir.InsertionPoint(loop.body):
            scf.yield_(list(self.step(loop.induction_variable, rows, parts, list(loop.inner_iter_args))))
        scales = [self.as_numbers(self.load_b(index(values), part)) for part in parts] if self.precision.extra else []
        for row in range(rows):
            step = self.as_numbers(self.splat_a(row, index(values))) if scales else None
            for place, (first, count) in enumerate(parts):
                total = loop.results[row * len(parts) + place]
                if step is not None:
                    total = arith.mulf(arith.sitofp(vector_of(LANES, "f32"), total), arith.mulf(step, scales[place]))
                vector.store(first_of(total, count), self.c, [index(row), index(first)])

    def step(self, k: ir.Value, rows: int, parts: list[tuple[int, int]], sums: list[ir.Value]) -> Iterator[ir.Value]:
        """The sums with a word more."""
        of_b = [self.as_values(self.load_b(k, part)) for part in parts]
        for row in range(rows):
            of_a = self.as_values(self.splat_a(row, k))
            for place, words in enumerate(of_b):
                yield self.dot(sums[row * len(parts) + place], of_a, words)

    def load_b(self, k: ir.Value, part: tuple[int, int]) -> ir.Value:
        """Words of neighbouring columns."""
        first, count = part
        return widened(vector.load(vector_of(count, "i32"), self.b, [k, index(first)]))

    def splat_a(self, row: int, k: ir.Value) -> ir.Value:
        """One word of A in all lanes."""
        return vector.broadcast(vector_of(LANES, "i32"), memref.load(self.a, [index(row), k]))

    def as_numbers(self, words: ir.Value) -> ir.Value:
        """Words that hold numbers of f32."""
        return arith.bitcast(vector_of(LANES, "f32"), words)

    def as_values(self, words: ir.Value) -> ir.Value:
        """Words as the values they hold."""
        return vector.bitcast(ir.Type.parse(VALUES[self.precision.name]), words)

    def dot(self, sums: ir.Value, a: ir.Value, b: ir.Value) -> ir.Value:
        """The instruction."""
        name, kind = self.precision.name, ir.Type.parse(SUMS[self.precision.name])
        nothing = ir.DenseI32ArrayAttr.get([])
        made = ir.Operation.create(
            "llvm.call_intrinsic",
            results=[kind],
            operands=[sums, a, b],
            attributes={
                "intrin": ir.StringAttr.get(INTRINSICS[name]),
                "operandSegmentSizes": ir.DenseI32ArrayAttr.get([3, 0]),
                "op_bundle_sizes": nothing,
            },
        )
        return made.results[0]
