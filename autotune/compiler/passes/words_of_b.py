"""Round B and pack it in words at run time, on buffers: panels of 16 columns, one after the other.

For B (k, n), as many rows as a word has values are interleaved. For B (n, k), neighbours in a row already form words,
and 16 rows are transposed. With two values per word:

    W[w, j : j + 16] = pairs(B[2 w, j : j + 16], B[2 w + 1, j : j + 16])
    W[w : w + 16, j : j + 16] = transpose(B[j : j + 16, 2 w : 2 w + 32])

Values of i8 are packed without rounding, followed by column sums that compensate the number added to values of A.

A panel is as wide as a vector, for any register tile, so that rows of a matrix unit's tile are contiguous.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, memref, scf, vector

from autotune.compiler.ir.loops import in_pieces
from autotune.compiler.ir.values import index, maker
from autotune.compiler.passes.panel_loads import Loads
from autotune.compiler.passes.rounding import (
    LANES,
    call_intrinsic,
    shape_of,
    splat,
    split_values,
    vector_of,
    widened,
)
from autotune.core.errors import CompileError
from autotune.core.precision import Precision

VIEWS = ("memref.subview", "memref.cast")
WORDS_A_STEP = 8  # words interleaved per iteration, for all columns
SUM_OF_DOTS = "llvm.x86.avx512.vpdpbusd.512"


@dataclass(frozen=True)
class WordsOfB:
    """Code generator that packs the columns of B, f32 or i8, in words; excess columns of the last panel are zero.

    Attributes:
        precision: Precision of the words.
        source: Memref of B (k, n), or (n, k).
        words: Target buffer (words, n), to be passed to `lay_in_panels` afterwards.
        transposed: Whether B is (n, k).
    """

    precision: Precision
    source: ir.Value
    words: ir.Value
    transposed: bool

    def write(self) -> None:
        """Build the code at the insertion point."""
        shape = shape_of(self.source)
        columns, k = shape if self.transposed else shape[::-1]
        if self.transposed:
            in_pieces(columns, LANES, lambda first, count: self.transpose_panel(first, count, k))
        else:
            self.interleave_rows(columns, k)
        if self.precision.shift:
            in_pieces(columns, LANES, lambda first, _: self.sum_columns(first, self.precision.part_words(k)))

    def interleave_rows(self, columns: int, k: int) -> None:
        """Pack B (k, n), a few words at a time for all columns, so that rows are read contiguously."""
        step, words = self.precision.values * WORDS_A_STEP, self.precision.part_words(k)
        whole = k // step * WORDS_A_STEP
        if whole:
            loop = scf.ForOp(index(0), index(whole), index(WORDS_A_STEP))
            with ir.InsertionPoint(loop.body):
                self.interleave_panels(loop.induction_variable, WORDS_A_STEP, columns, step)
                scf.yield_([])
        for first in range(whole, words, WORDS_A_STEP):
            values = max(0, min(k - self.precision.values * first, step))
            self.interleave_panels(index(first), min(WORDS_A_STEP, words - first), columns, values)

    def interleave_panels(self, first: ir.Value, words: int, columns: int, values: int) -> None:
        """Pack `words` words of all columns from `values` rows; missing rows are zero."""
        in_pieces(columns, LANES, lambda column, count: self.interleave(first, words, (column, count), values))

    def interleave(self, first: ir.Value, words: int, panel: tuple[ir.Value, int], values: int) -> None:
        """Pack words of one panel, given by its first column and its number of columns."""
        (column, count), size = panel, self.precision.values
        row = arith.muli(first, index(size))
        for number in range(words):
            offsets = [size * number + which for which in range(size)]
            rows = [
                self.load(arith.addi(row, index(offset)), column, count, LANES)
                if offset < values
                else splat(0, self.element)
                for offset in offsets
            ]
            for part, together in enumerate(zip(*map(self.split, rows), strict=True)):
                joined = vector.bitcast(vector_of(LANES, "i32"), interleaved(together))
                self.store(joined, arith.addi(first, index(number)), part, column)

    def transpose_panel(self, first: ir.Value, columns: int, k: int) -> None:
        """Pack a panel of up to 16 columns of B (n, k)."""
        step = self.precision.values * LANES
        in_pieces(k, step, lambda value, values: self.transpose(value, values, first, columns))
        self.fill_up(-(-k // self.precision.values), self.precision.part_words(k), first, columns)

    def transpose(self, value: ir.Value, values: int, first: ir.Value, columns: int) -> None:
        """Pack up to 16 words of every column of a panel by a transposition."""
        rows = [self.neighbours(arith.addi(first, index(number)), value, values) for number in range(columns)]
        word = arith.divui(value, index(self.precision.values))
        for part in range(self.precision.parts):
            padding = [splat(0, "i32")] * (LANES - columns)
            for number, line in enumerate(transposed([*(row[part] for row in rows), *padding])):
                if number < -(-values // self.precision.values):
                    self.store(line, arith.addi(word, index(number)), part, first)

    def neighbours(self, row: ir.Value, value: ir.Value, values: int) -> list[ir.Value]:
        """Load neighbours in a row as 16 words, one vector per part, padded with zeros."""
        words = vector_of(LANES, "i32")
        if self.precision.exact:
            return [vector.bitcast(words, self.load(row, value, values, LANES * self.precision.values))]
        halves = []
        for start in range(0, self.precision.values * LANES, LANES):
            count = min(LANES, values - start)
            first = arith.addi(value, index(start))
            halves.append(self.split(self.load(row, first, count) if count > 0 else splat(0, self.element)))
        return [
            vector.bitcast(words, vector.shuffle(*both, list(range(2 * LANES)))) for both in zip(*halves, strict=True)
        ]

    def sum_columns(self, first: ir.Value, words: int) -> None:
        """Store, after the words of 16 columns, their sums times minus the number that is added to values of A."""
        words_type = vector_of(LANES, "i32")
        bytes_type = vector_of(count := LANES * self.precision.values, "i8")
        shifts = splat(self.precision.shift, "i8", count)
        loop = scf.ForOp(index(0), index(words), index(1), [splat(0, "i32")])
        with ir.InsertionPoint(loop.body):
            of_b = vector.bitcast(bytes_type, vector.load(words_type, self.words, [loop.induction_variable, first]))
            scf.yield_(call_intrinsic(SUM_OF_DOTS, [words_type], loop.inner_iter_args[0], shifts, of_b))
        self.store(arith.subi(splat(0, "i32"), loop.results[0]), index(words), 0, first)

    def fill_up(self, begin: int, end: int, first: ir.Value, columns: int) -> None:
        """Store zeros in words of a part beyond its values."""
        for word in range(begin, end):
            for part in range(self.precision.parts):
                for start in range(0, columns, LANES):
                    self.store(splat(0, "i32"), index(word), part, arith.addi(first, index(start)))

    @property
    def element(self) -> str:
        """Element type of B."""
        return self.precision.element if self.precision.exact else "f32"

    def split(self, values: ir.Value) -> list[ir.Value]:
        """Split a vector of B into the parts of the precision; i8 has one."""
        return [values] if self.precision.exact else split_values(values, self.precision.parts)

    def load(self, row: ir.Value, column: ir.Value, count: int, size: int = LANES) -> ir.Value:
        """Load `count` neighbours, padded with zeros to `size` elements."""
        return widened(vector.load(vector_of(count, self.element), self.source, [row, column]), size)

    def store(self, words: ir.Value, word: ir.Value, part: int, column: ir.Value) -> None:
        """Store a row of a panel."""
        count = shape_of(self.words)[0] // self.precision.parts
        row = arith.addi(word, index(part * count)) if part else word
        vector.store(words, self.words, [row, column])


def interleaved(rows: Sequence[ir.Value]) -> ir.Value:
    """Interleave the elements of vectors, whose number is a power of two."""
    if len(rows) == 1:
        return rows[0]
    return vector.interleave(interleaved(rows[::2]), interleaved(rows[1::2]))


def transposed(rows: list[ir.Value]) -> list[ir.Value]:
    """Transpose 16 vectors of 16 words: each step exchanges off-diagonal blocks, of sizes 1, 2, 4 and 8."""
    size = 1
    while size < LANES:
        rows = [exchanged(rows, number, size) for number in range(LANES)]
        size *= 2
    return rows


def exchanged(rows: list[ir.Value], number: int, size: int) -> ir.Value:
    """Return row `number` after an exchange of the off-diagonal blocks of every 2 x 2 group of blocks."""
    # Rows `upper` and `lower` form a 2 x 2 group of blocks; lanes of the second operand of the shuffle start at LANES.
    upper = number & ~size
    lower = upper | size
    mask = [lane & ~size | (LANES if lane & size else 0) for lane in range(LANES)]
    if number & size:
        mask = [at + size for at in mask]
    return vector.shuffle(rows[upper], rows[lower], mask)


def lay_in_panels(packed: Iterable[ir.Value]) -> None:
    """Change the layout of buffers of words (words, n), which `WordsOfB` writes, to panels as wide as a vector.

    Args:
        packed: Buffers, or views of them.

    Raises:
        CompileError: Stage ``transform``; a buffer is not an intermediate, or has unsupported uses.
    """
    for buffer in dict.fromkeys(map(root_of, packed)):
        made_by = maker(buffer)
        if made_by is None or made_by.name != "memref.alloc":
            raise CompileError("transform", "words of B that a call packs must be an intermediate, they are not")
        *lead, words, columns = shape_of(buffer)
        panel_type = ir.MemRefType.get(
            [*lead, -(-columns // LANES), words, LANES], ir.MemRefType(buffer.type).element_type
        )
        with ir.InsertionPoint(made_by), made_by.location:
            panels = memref.alloc(panel_type, [], [])
        Loads(LANES, panels).redirect(buffer, len(lead) + 2, lambda indices: indices)
        made_by.erase()


def root_of(view: ir.Value) -> ir.Value:
    """Return the buffer behind a chain of views."""
    while (made_by := maker(view)) is not None and made_by.name in VIEWS:
        view = made_by.operands[0]
    return view
