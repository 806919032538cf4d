"""Lowering of one register tile of a convolution of words to dot products, with accumulators in registers.

Sums of int16 stay in 32 bits as long as they cannot overflow, and are then accumulated in f32.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod

from mlir import ir
from mlir.dialects import arith, math, memref, scf, vector

from autotune.compiler.ir.loops import counted
from autotune.compiler.ir.values import index
from autotune.compiler.passes.dots import INTRINSICS
from autotune.compiler.passes.rounding import LANES, call_intrinsic, shape_of, splat, vector_of
from autotune.contrib.narrow_windows.loops import WindowLoops
from autotune.core.precision import Precision

Sums = list[ir.Value]  # one vector per row and vector of the panel, row by row
Steps = dict[int, ir.Value]  # by loop


@dataclass(frozen=True)
class WordArrays:
    """Buffers and loops of a convolution of words.

    Attributes:
        precision: Precision of the words.
        loops: Loops that index its buffers.
        x: Words of inputs (.., words).
        kernel: Words of the kernel (.., words, filters).
        y: Results (.., filters), f32, or i32 if exact.
    """

    precision: Precision
    loops: WindowLoops
    x: ir.Value
    kernel: ir.Value
    y: ir.Value

    @cached_property
    def sizes(self) -> dict[int, int]:
        """Trip count of every loop; that of channels counts words of values."""
        pairs = zip((*self.loops.of_kernel, *self.loops.of_y), (*shape_of(self.kernel), *shape_of(self.y)), strict=True)
        channel = self.loops.of_kernel[-2]
        return {loop: size - self.precision.extra * (loop == channel) for loop, size in pairs}

    @property
    def row(self) -> int:
        """Loop over the rows of a register tile."""
        return self.loops.rows[-1]

    @property
    def words(self) -> int:
        """Words of channels per tap."""
        return self.sizes[self.loops.of_kernel[-2]]

    @property
    def taps(self) -> int:
        """Number of taps."""
        return prod(self.sizes[loop] for loop in self.loops.taps)

    def of_tap(self, begin: Steps, tap: ir.Value) -> Steps:
        """Return the step of every loop but that of channels, for a tap."""
        steps = dict(begin)
        for loop in reversed(self.loops.taps):
            size = index(self.sizes[loop])
            steps[loop], tap = arith.remui(tap, size), arith.divui(tap, size)
        return steps

    def of_x(self, at: Steps, row: int = 0) -> list[ir.Value]:
        """Return the indices of an input position, without the channel, `row` rows after the given step."""
        indices = []
        for terms in self.loops.of_x[:-1]:
            position = index(0)
            for loop, factor in terms:
                step = at[loop]
                if loop == self.row and row:
                    step = arith.addi(step, index(row))
                position = arith.addi(position, arith.muli(step, index(factor)))
            indices.append(position)
        return indices

    def of_y(self, at: Steps, row: int = 0, lane: int = 0) -> list[ir.Value]:
        """Return the indices of a result, `row` rows and `lane` filters after the given step."""
        offsets = {self.row: row, self.loops.of_y[-1]: lane}
        return [arith.addi(at[loop], index(offsets.get(loop, 0))) for loop in self.loops.of_y]


@dataclass(frozen=True)
class RegisterTileSums:
    """One register tile.

    Attributes:
        arrays: Buffers of the convolution.
        at: Step of every parallel loop at the beginning of the tile.
        rows: Number of rows.
        filters: Number of filters, at most those of a panel.
    """

    arrays: WordArrays
    at: Steps
    rows: int
    filters: int

    @property
    def vectors(self) -> int:
        """Vectors per row, including a partial one."""
        return -(-self.filters // LANES)

    def write(self) -> None:
        """Emit the whole tile at the insertion point."""
        chunk = self.arrays.precision.chunk
        if not chunk or self.arrays.taps * self.arrays.words <= chunk:
            self.store(self.sum_taps(index(0), index(self.arrays.taps)), added=False)
            return
        for row, part in product(range(self.rows), range(self.vectors)):
            self.store_vector(splat(0, "f32"), row, part)
        if self.arrays.words > chunk:
            counted(self.arrays.taps, self.add_tap)
            return
        together = chunk // self.arrays.words

        def group(number: ir.Value) -> None:
            first = arith.muli(number, index(together))
            last = arith.minui(arith.addi(first, index(together)), index(self.arrays.taps))
            self.store(self.sum_taps(first, last), added=True)

        counted(-(-self.arrays.taps // together), group)

    def add_tap(self, tap: ir.Value) -> None:
        """Accumulate the products of a tap that has more words than a chunk."""
        chunk = index(self.arrays.precision.chunk)
        loop = scf.ForOp(index(0), index(self.arrays.words), chunk)
        with ir.InsertionPoint(loop.body):
            first = loop.induction_variable
            last = arith.minui(arith.addi(first, chunk), index(self.arrays.words))
            self.store(self.sum_words(tap, first, last, self.zeros), added=True)
            scf.yield_([])

    def sum_taps(self, first: ir.Value, last: ir.Value) -> Sums:
        """Return the sums over a range of taps."""
        loop = scf.ForOp(first, last, index(1), self.zeros)
        with ir.InsertionPoint(loop.body):
            all_words = index(0), index(self.arrays.words)
            scf.yield_(self.sum_words(loop.induction_variable, *all_words, list(loop.inner_iter_args)))
        return list(loop.results)

    def sum_words(self, tap: ir.Value, first: ir.Value, last: ir.Value, sums: Sums) -> Sums:
        """Return the sums plus the products of a range of words of a tap."""
        at = self.arrays.of_tap(self.at, tap)
        inputs = [self.arrays.of_x(at, row) for row in range(self.rows)]
        if self.arrays.precision.shift:  # subtract what the offset of the inputs adds, one number per filter
            corrections = [self.load_kernel(at, index(self.arrays.words), part) for part in range(self.vectors)]
            sums = list(map(arith.addi, sums, corrections * self.rows))
        loop = scf.ForOp(first, last, index(1), sums)
        with ir.InsertionPoint(loop.body):
            word, new_sums = loop.induction_variable, []
            taps = [self.as_values(self.load_kernel(at, word, part)) for part in range(self.vectors)]
            for row, indices in enumerate(inputs):
                input_words = vector.broadcast(vector_of(LANES, "i32"), memref.load(self.arrays.x, [*indices, word]))
                for part, of_kernel in enumerate(taps):
                    accumulator = loop.inner_iter_args[row * self.vectors + part]
                    new_sums.append(self.dot(accumulator, self.as_values(input_words), of_kernel))
            scf.yield_(new_sums)
        return list(loop.results)

    def store(self, totals: Sums, *, added: bool) -> None:
        """Convert sums to results and store them, or add them to the stored ones."""
        precision, zero = self.arrays.precision, self.arrays.of_tap(self.at, index(0))
        scales: list[ir.Value] = []
        if precision.is_scaled:
            scale_word = index(self.arrays.words)
            of_x = arith.bitcast(ir.F32Type.get(), memref.load(self.arrays.x, [*self.arrays.of_x(zero), scale_word]))
            spread = vector.broadcast(vector_of(LANES, "f32"), of_x)
            for part in range(self.vectors):
                of_kernel = arith.bitcast(vector_of(LANES, "f32"), self.load_kernel(zero, scale_word, part))
                scales.append(arith.mulf(spread, of_kernel))
        for (row, part), total in zip(product(range(self.rows), range(self.vectors)), totals, strict=True):
            result = total
            if scales:
                result = arith.sitofp(vector_of(LANES, "f32"), result)
                result = (
                    math.fma(result, scales[part], self.load_vector(row, part))
                    if added
                    else arith.mulf(result, scales[part])
                )
            self.store_vector(result, row, part)

    @property
    def zeros(self) -> Sums:
        """Initial sums."""
        zero = splat(0, self.arrays.precision.sums)
        return [zero] * (self.rows * self.vectors)

    def load_kernel(self, at: Steps, word: ir.Value, part: int) -> ir.Value:
        """Load words of `LANES` adjacent filters."""
        *taps, _, lane = self.arrays.loops.of_kernel
        indices = [*(at[loop] for loop in taps), word, arith.addi(at[lane], index(part * LANES))]
        return vector.load(vector_of(LANES, "i32"), self.arrays.kernel, indices)

    def of_y(self, row: int, part: int) -> list[ir.Value]:
        """Return the indices of a vector of results."""
        return self.arrays.of_y(self.at, row, part * LANES)

    def mask(self, part: int) -> ir.Value | None:
        """Return the mask of the valid filters of a vector; `None` if all are valid."""
        valid = self.filters - part * LANES
        return None if valid >= LANES else vector.constant_mask(vector_of(LANES, "i1"), [valid])

    def load_vector(self, row: int, part: int) -> ir.Value:
        """Load a vector of results."""
        mask, vector_type = self.mask(part), vector_of(LANES, "f32")
        if mask is None:
            return vector.load(vector_type, self.arrays.y, self.of_y(row, part))
        return vector.maskedload(vector_type, self.arrays.y, self.of_y(row, part), mask, splat(0, "f32"))

    def store_vector(self, value: ir.Value, row: int, part: int) -> None:
        """Store the valid lanes of a vector of results."""
        mask = self.mask(part)
        if mask is None:
            vector.store(value, self.arrays.y, self.of_y(row, part))
        else:
            vector.maskedstore(self.arrays.y, self.of_y(row, part), mask, value)

    def as_values(self, words: ir.Value) -> ir.Value:
        """Bitcast words to the values they hold."""
        precision = self.arrays.precision
        return vector.bitcast(vector_of(LANES * precision.values, precision.element), words)

    def dot(self, sums: ir.Value, a: ir.Value, b: ir.Value) -> ir.Value:
        """Emit the dot product instruction."""
        return call_intrinsic(INTRINSICS[self.arrays.precision.element], [sums.type], sums, a, b)[0]
