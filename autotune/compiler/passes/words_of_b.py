"""B as words of rounded values, packed in a call, on buffers: parts of 16 columns, one after the other.

Of B (k, n) two rows are interleaved, of B (n, k) neighbours of a row are words already, and 16 rows are transposed:

    W[w, j : j + 16] = pairs(B[2 w, j : j + 16], B[2 w + 1, j : j + 16])
    W[w : w + 16, j : j + 16] = transpose(B[j : j + 16, 2 w : 2 w + 32])

A panel is as wide as a vector, whatever register tile reads it: rows of a tile of a matrix unit follow each other.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, memref, scf, vector

from autotune.compiler.ir.values import index, maker
from autotune.compiler.passes.panel_loads import Loads
from autotune.compiler.passes.rounding import LANES, shape_of, splat, split_values, vector_of, widened
from autotune.core.errors import CompileError
from autotune.core.precision import Precision

VIEWS = ("memref.subview", "memref.cast")
WORDS_A_STEP = 8  # of rows that are interleaved, for all columns
PAIR = 2  # values of a word


@dataclass(frozen=True)
class WordsOfB:
    """The columns of B, f32, as words of bf16; those that the last panel has too many are zero.

    Attributes:
        precision: Precision of the words.
        source: B (k, n), or (n, k).
        words: The words (words, n): a buffer that `lay_in_panels` is given next.
        turned: Whether B is (n, k).
    """

    precision: Precision
    source: ir.Value
    words: ir.Value
    turned: bool

    def write(self) -> None:
        """All of it, at the insertion point."""
        shape = shape_of(self.source)
        columns, k = shape if self.turned else shape[::-1]
        if not self.turned:
            self.interleave_rows(columns, k)
            return
        whole = columns // LANES * LANES
        if whole:
            loop = scf.ForOp(index(0), index(whole), index(LANES))
            with ir.InsertionPoint(loop.body):
                self.transpose_panel(loop.induction_variable, LANES, k)
                scf.yield_([])
        if whole < columns:
            self.transpose_panel(index(whole), columns - whole, k)

    def interleave_rows(self, columns: int, k: int) -> None:
        """Words of B (k, n), a few at a time for all columns: rows are read as they lie, and words written likewise."""
        whole, words = k // (PAIR * WORDS_A_STEP) * WORDS_A_STEP, self.precision.part_words(k)
        if whole:
            loop = scf.ForOp(index(0), index(whole), index(WORDS_A_STEP))
            with ir.InsertionPoint(loop.body):
                self.interleave_panels(loop.induction_variable, WORDS_A_STEP, columns, PAIR * WORDS_A_STEP)
                scf.yield_([])
        for first in range(whole, words, WORDS_A_STEP):
            values = max(0, min(k - PAIR * first, PAIR * WORDS_A_STEP))
            self.interleave_panels(index(first), min(WORDS_A_STEP, words - first), columns, values)

    def interleave_panels(self, first: ir.Value, words: int, columns: int, values: int) -> None:
        """Some words of all columns, of so many rows from a word's on; zeros where there are no more."""
        whole = columns // LANES * LANES
        if whole:
            loop = scf.ForOp(index(0), index(whole), index(LANES))
            with ir.InsertionPoint(loop.body):
                self.interleave(first, words, (loop.induction_variable, LANES), values)
                scf.yield_([])
        if whole < columns:
            self.interleave(first, words, (index(whole), columns - whole), values)

    def interleave(self, first: ir.Value, words: int, panel: tuple[ir.Value, int], values: int) -> None:
        """The same of one panel, given by its first column and their number."""
        column, count = panel
        row = arith.muli(first, index(PAIR))
        for number in range(words):
            places = [PAIR * number + which for which in range(PAIR)]
            rows = [
                self.load(arith.addi(row, index(place)), column, count) if place < values else splat(0, "f32")
                for place in places
            ]
            parts = [split_values(each, self.precision.parts) for each in rows]
            for part, both in enumerate(zip(*parts, strict=True)):
                pairs = vector.bitcast(vector_of(LANES, "i32"), vector.interleave(*both))
                self.store(pairs, arith.addi(first, index(number)), part, column)

    def transpose_panel(self, first: ir.Value, columns: int, k: int) -> None:
        """Words of 16 columns, or of the last few, of B (n, k)."""
        step = PAIR * LANES
        whole, words = k // step * step, self.precision.part_words(k)
        if whole:
            loop = scf.ForOp(index(0), index(whole), index(step))
            with ir.InsertionPoint(loop.body):
                self.transpose(loop.induction_variable, step, first, columns)
                scf.yield_([])
        if whole < k:
            self.transpose(index(whole), k - whole, first, columns)
        self.fill_up(-(-k // PAIR), words, first, columns)

    def transpose(self, value: ir.Value, values: int, first: ir.Value, columns: int) -> None:
        """Words of 32 neighbours, or of the last few, of every column."""
        rows: list[list[ir.Value]] = []
        for number in range(columns):
            row = arith.addi(first, index(number))
            halves = []
            for start in range(0, PAIR * LANES, LANES):
                count = min(LANES, values - start)
                found = self.load(row, arith.addi(value, index(start)), count) if count > 0 else splat(0, "f32")
                halves.append(split_values(found, self.precision.parts))
            rows.append([self.joined(*both) for both in zip(*halves, strict=True)])
        word = arith.divui(value, index(PAIR))
        for part in range(self.precision.parts):
            zeros = [splat(0, "i32")] * (LANES - columns)
            for number, line in enumerate(transposed([*(row[part] for row in rows), *zeros])):
                if number < -(-values // PAIR):
                    self.store(line, arith.addi(word, index(number)), part, first)

    def joined(self, low: ir.Value, high: ir.Value) -> ir.Value:
        """Words of 32 neighbours."""
        both = vector.shuffle(low, high, list(range(2 * LANES)))
        return vector.bitcast(vector_of(LANES, "i32"), both)

    def fill_up(self, begin: int, end: int, first: ir.Value, columns: int) -> None:
        """Zeros where a part has more words than values."""
        for word in range(begin, end):
            for part in range(self.precision.parts):
                for start in range(0, columns, LANES):
                    self.store(splat(0, "i32"), index(word), part, arith.addi(first, index(start)))

    def load(self, row: ir.Value, column: ir.Value, count: int) -> ir.Value:
        """Neighbours in memory, filled up with zeros."""
        return widened(vector.load(vector_of(count, "f32"), self.source, [row, column]))

    def store(self, words: ir.Value, word: ir.Value, part: int, column: ir.Value) -> None:
        """Write a whole row of a panel."""
        count = shape_of(self.words)[0] // self.precision.parts
        place = arith.addi(word, index(part * count)) if part else word
        vector.store(words, self.words, [place, column])


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
    place = [lane & ~size | (LANES if lane & size else 0) for lane in range(LANES)]
    if number & size:
        place = [at + size for at in place]
    return vector.shuffle(rows[upper], rows[lower], place)


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
