"""B as words of rounded values, packed in a call, on buffers: parts of 16 columns, one after the other.

Of B (k, n) as many rows as a word has values are interleaved, of B (n, k) neighbours of a row are words already, and 16
rows are transposed; here of two values:

    W[w, j : j + 16] = pairs(B[2 w, j : j + 16], B[2 w + 1, j : j + 16])
    W[w : w + 16, j : j + 16] = transpose(B[j : j + 16, 2 w : 2 w + 32])

Bytes are packed as they are; behind them come the sums of columns that a number added to values of A asks for.

A panel is as wide as a vector, whatever register tile reads it: rows of a tile of a matrix unit follow each other.
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
WORDS_A_STEP = 8  # of rows that are interleaved, for all columns
SUM_OF_DOTS = "llvm.x86.avx512.vpdpbusd.512"


@dataclass(frozen=True)
class WordsOfB:
    """The columns of B as words, f32 of bf16, bytes of bytes; those that the last panel has too many are zero.

    Attributes:
        precision: Precision of the words.
        source: B (k, n), or (n, k).
        words: The words (words, n): a buffer that `lay_in_panels` is given next.
        transposed: Whether B is (n, k).
    """

    precision: Precision
    source: ir.Value
    words: ir.Value
    transposed: bool

    def write(self) -> None:
        """All of it, at the insertion point."""
        shape = shape_of(self.source)
        columns, k = shape if self.transposed else shape[::-1]
        if self.transposed:
            in_pieces(columns, LANES, lambda first, count: self.transpose_panel(first, count, k))
        else:
            self.interleave_rows(columns, k)
        if self.precision.shift:
            in_pieces(columns, LANES, lambda first, _: self.sum_columns(first, self.precision.part_words(k)))

    def interleave_rows(self, columns: int, k: int) -> None:
        """Words of B (k, n), a few at a time for all columns: rows are read as they lie, and words written likewise."""
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
        """Some words of all columns, of so many rows from a word's on; zeros where there are no more."""
        in_pieces(columns, LANES, lambda column, count: self.interleave(first, words, (column, count), values))

    def interleave(self, first: ir.Value, words: int, panel: tuple[ir.Value, int], values: int) -> None:
        """The same of one panel, given by its first column and their number."""
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
        """Words of 16 columns, or of the last few, of B (n, k)."""
        step = self.precision.values * LANES
        in_pieces(k, step, lambda value, values: self.transpose(value, values, first, columns))
        self.fill_up(-(-k // self.precision.values), self.precision.part_words(k), first, columns)

    def transpose(self, value: ir.Value, values: int, first: ir.Value, columns: int) -> None:
        """Words of neighbours, 16 or the last few, of every column."""
        rows = [self.neighbours(arith.addi(first, index(number)), value, values) for number in range(columns)]
        word = arith.divui(value, index(self.precision.values))
        for part in range(self.precision.parts):
            nothing = [splat(0, "i32")] * (LANES - columns)
            for number, line in enumerate(transposed([*(row[part] for row in rows), *nothing])):
                if number < -(-values // self.precision.values):
                    self.store(line, arith.addi(word, index(number)), part, first)

    def neighbours(self, row: ir.Value, value: ir.Value, values: int) -> list[ir.Value]:
        """16 words of neighbours in a row, a vector a part; zeros where there are no more."""
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
        """Behind the words of 16 columns, their sums times the number that is added to values of A, less than 0."""
        kind = vector_of(LANES, "i32")
        bytes_of = vector_of(count := LANES * self.precision.values, "i8")
        shifts = splat(self.precision.shift, "i8", count)
        loop = scf.ForOp(index(0), index(words), index(1), [splat(0, "i32")])
        with ir.InsertionPoint(loop.body):
            of_b = vector.bitcast(bytes_of, vector.load(kind, self.words, [loop.induction_variable, first]))
            scf.yield_(call_intrinsic(SUM_OF_DOTS, [kind], loop.inner_iter_args[0], shifts, of_b))
        self.store(arith.subi(splat(0, "i32"), loop.results[0]), index(words), 0, first)

    def fill_up(self, begin: int, end: int, first: ir.Value, columns: int) -> None:
        """Zeros where a part has more words than values."""
        for word in range(begin, end):
            for part in range(self.precision.parts):
                for start in range(0, columns, LANES):
                    self.store(splat(0, "i32"), index(word), part, arith.addi(first, index(start)))

    @property
    def element(self) -> str:
        """Type of what B holds."""
        return self.precision.element if self.precision.exact else "f32"

    def split(self, values: ir.Value) -> list[ir.Value]:
        """The parts of a vector of B's values; bytes are one."""
        return [values] if self.precision.exact else split_values(values, self.precision.parts)

    def load(self, row: ir.Value, column: ir.Value, count: int, size: int = LANES) -> ir.Value:
        """Neighbours in memory, filled up with zeros to a size."""
        return widened(vector.load(vector_of(count, self.element), self.source, [row, column]), size)

    def store(self, words: ir.Value, word: ir.Value, part: int, column: ir.Value) -> None:
        """Write a whole row of a panel."""
        count = shape_of(self.words)[0] // self.precision.parts
        row = arith.addi(word, index(part * count)) if part else word
        vector.store(words, self.words, [row, column])


def interleaved(rows: Sequence[ir.Value]) -> ir.Value:
    """First elements of all rows, then second ones, and so on, of two rows or a power of it."""
    if len(rows) == 1:
        return rows[0]
    return vector.interleave(interleaved(rows[::2]), interleaved(rows[1::2]))


def transposed(rows: list[ir.Value]) -> list[ir.Value]:
    """The columns of 16 vectors of 16 words: in every step pairs of vectors exchange halves of ever larger blocks."""
    size = 1
    while size < LANES:
        rows = [exchanged(rows, number, size) for number in range(LANES)]
        size *= 2
    return rows


def exchanged(rows: list[ir.Value], number: int, size: int) -> ir.Value:
    """A row of 2 x 2 blocks of some size, with those off the diagonal exchanged."""
    upper = number & ~size
    lower = upper | size
    mask = [lane & ~size | (LANES if lane & size else 0) for lane in range(LANES)]
    if number & size:
        mask = [at + size for at in mask]
    return vector.shuffle(rows[upper], rows[lower], mask)


def lay_in_panels(packed: Iterable[ir.Value]) -> None:
    """Let buffers of words (words, n), to which `WordsOfB` writes, lie in panels as wide as a vector.

    Args:
        packed: The buffers, or views of them.

    Raises:
        CompileError: Stage ``transform``; such a buffer is no intermediate, or something else reads it.
    """
    for whole in dict.fromkeys(map(root_of, packed)):
        made_by = maker(whole)
        if made_by is None or made_by.name != "memref.alloc":
            raise CompileError("transform", "words of B that a call packs must be an intermediate, they are not")
        *lead, words, columns = shape_of(whole)
        kind = ir.MemRefType.get([*lead, -(-columns // LANES), words, LANES], ir.MemRefType(whole.type).element_type)
        with ir.InsertionPoint(made_by), made_by.location:
            panels = memref.alloc(kind, [], [])
        Loads(LANES, panels).redirect(whole, len(lead) + 2, lambda indices: indices)
        made_by.erase()


def root_of(view: ir.Value) -> ir.Value:
    """The buffer that a view is of."""
    while (made_by := maker(view)) is not None and made_by.name in VIEWS:
        view = made_by.operands[0]
    return view
