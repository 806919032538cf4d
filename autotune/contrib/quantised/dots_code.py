"""Code for products of bytes in blocks, on buffers: marked ops multiply activations in 8 bits.

    for step: sums[n] += (u[n, step] . x[step] + start[step]) scale_x[step] scale_w[n, step]      16 lanes each

Activations are rounded before the outermost loop around the op. The instruction is AVX-512's ``vpdpbusd``; without it,
the same sums are written as multiplications.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce

from mlir import ir
from mlir.dialects import arith, math, memref, scf, vector

from autotune.compiler.ir.values import index
from autotune.compiler.passes.rounding import splat, vector_of
from autotune.contrib.quantised.block_operands import BlockOperands
from autotune.contrib.quantised.block_steps import LANES, BlockSteps
from autotune.contrib.quantised.loads import in_f32, load_first
from autotune.contrib.quantised.rounded_rows import dot, word_of_bytes
from autotune.contrib.quantised.stored_bytes import StoredBytes

NIBBLE = 0x0F0F0F0F
Sums = list[ir.Value]


@dataclass(frozen=True)
class DotProduct:
    """All rows by some columns.

    Attributes:
        operands: What is multiplied.
        words: Rounded rows of activations.
        tile: Rows whose sums are in registers at once.
        strands: Sums of each element, a step each.
        ahead: Bytes from what is read to what is fetched; 0 fetches nothing.
    """

    operands: BlockOperands
    words: ir.Value
    tile: int
    strands: int
    ahead: int

    @property
    def steps(self) -> BlockSteps:
        """How a row is multiplied."""
        return self.operands.steps

    @property
    def columns(self) -> int:
        """Columns of the tile."""
        return self.operands.columns

    def write(self) -> None:
        """All of it, at the insertion point."""
        stored = StoredBytes.open(self.operands)
        loop = scf.ForOp(index(0), index(self.operands.rows), index(self.tile))
        with ir.InsertionPoint(loop.body):
            rows = [arith.addi(loop.induction_variable, index(row)) for row in range(self.tile)]
            sums = self.sums(stored, rows)
            totals = [self.total(row, column, sums) for row, column in self.elements(rows)]
            for (row, column), total in zip(self.elements(rows), totals, strict=True):
                self.add(rows[row], column, total)
            scf.yield_([])

    def elements(self, rows: list[ir.Value]) -> Iterator[tuple[int, int]]:
        """Row and column of every element of a register tile."""
        return ((row, column) for row in range(len(rows)) for column in range(self.columns))

    def sums(self, stored: StoredBytes, rows: list[ir.Value]) -> Sums:
        """Sums of each element in 16 lanes."""
        steps, strands = self.steps, min(self.strands, max(1, self.steps.whole))
        count, looped = len(rows) * self.columns, self.steps.whole // strands * strands
        found = [splat(0, "f32")] * (count * strands)
        if looped:
            loop = scf.ForOp(index(0), index(looped), index(strands), found)
            with ir.InsertionPoint(loop.body):
                inside = list(loop.inner_iter_args)
                for strand in range(strands):
                    step = arith.addi(loop.induction_variable, index(strand))
                    part = slice(strand * count, (strand + 1) * count)
                    inside[part] = self.step(stored, rows, step, inside[part], steps.count)
                scf.yield_(inside)
            found = list(loop.results)
        for step in range(looped, steps.steps):
            part = slice((step - looped) % strands * count, ((step - looped) % strands + 1) * count)
            blocks = steps.count if step < steps.whole else steps.left
            found[part] = self.step(stored, rows, index(step), found[part], blocks)
        totals = [reduce(arith.addf, found[each::count]) for each in range(count)]
        return self.without_least(rows, totals) if steps.least else totals

    def step(self, stored: StoredBytes, rows: list[ir.Value], step: ir.Value, sums: Sums, blocks: int) -> Sums:
        """Sums with a step more, of so many blocks."""
        found: dict[tuple[int, int], ir.Value] = {}
        start = arith.muli(step, index(self.steps.words))
        for column in range(self.columns):
            weight = self.unsigned(stored.load(index(column), step, blocks))
            stored.fetch(index(column), step, self.ahead)
            first = arith.muli(step, index(self.steps.count))
            scale = self.scale(load_first(self.operands.scales[0], [index(column), first], blocks, self.steps.count))
            for row, x in enumerate(rows):
                given = [self.load_words(x, start, part) for part in range(self.steps.vectors)]
                total = self.load_words(x, start, self.steps.vectors) if self.steps.shift else splat(0, "i32")
                for ours, theirs in zip(weight, given, strict=True):
                    total = dot(total, ours, theirs)
                lanes = arith.bitcast(vector_of(LANES, "f32"), self.load_words(x, start, self.steps.vectors + 1))
                scaled = arith.mulf(arith.sitofp(vector_of(LANES, "f32"), total), lanes)
                found[row, column] = math.fma(scaled, scale, sums[row * self.columns + column])
        return [found[element] for element in self.elements(rows)]

    def unsigned(self, stored: ir.Value) -> list[ir.Value]:
        """64 bytes as vectors of whole numbers without a sign, words of four."""
        words, steps = vector.bitcast(vector_of(LANES, "i32"), stored), self.steps
        if steps.bits == 8:
            parts = [words]
        else:
            parts = [words, arith.shrui(words, splat(4, "i32"))]
            parts = [arith.andi(part, splat(NIBBLE, "i32")) for part in parts]
        if not steps.shift:
            return parts
        return [arith.xori(part, splat(word_of_bytes(steps.shift), "i32")) for part in parts]

    def scale(self, stored: ir.Value) -> ir.Value:
        """The scales of a step's blocks, each in the lanes of its sums."""
        lanes = self.steps.lane_blocks
        return vector.shuffle(in_f32(stored), in_f32(stored), lanes)

    def load_words(self, row: ir.Value, start: ir.Value, part: int) -> ir.Value:
        """A vector of words of a step."""
        return vector.load(vector_of(LANES, "i32"), self.words, [row, arith.addi(start, index(part * LANES))])

    def without_least(self, rows: list[ir.Value], sums: Sums) -> Sums:
        """Sums less the least number of each block times the sum of its activations."""
        blocks = self.steps.blocks
        whole = blocks // LANES * LANES
        zeros = [splat(0, "f32")] * len(sums)
        if whole:
            loop = scf.ForOp(index(0), index(whole), index(LANES), zeros)
            with ir.InsertionPoint(loop.body):
                scf.yield_(self.least(rows, loop.induction_variable, list(loop.inner_iter_args), LANES))
            zeros = list(loop.results)
        if blocks > whole:
            zeros = self.least(rows, index(whole), zeros, blocks - whole)
        return [arith.subf(total, below) for total, below in zip(sums, zeros, strict=True)]

    def least(self, rows: list[ir.Value], first: ir.Value, sums: Sums, count: int) -> Sums:
        """Sums with the least numbers of so many blocks more."""
        place = arith.addi(first, index(self.steps.steps * self.steps.words))
        columns = [
            in_f32(load_first(self.operands.scales[1], [index(column), first], count, LANES))
            for column in range(self.columns)
        ]
        given = [in_lanes(load_first(self.words, [row, place], count, LANES)) for row in rows]
        return [
            math.fma(given[row], columns[column], sums[row * self.columns + column])
            for row, column in self.elements(rows)
        ]

    def total(self, row: int, column: int, sums: Sums) -> ir.Value:
        """The sum of an element's lanes."""
        lanes = sums[row * self.columns + column]
        f32 = ir.F32Type.get()
        return vector.reduction(f32, vector.CombiningKind.ADD, lanes, fastmath=arith.FastMathFlags.reassoc)

    def add(self, row: ir.Value, column: int, total: ir.Value) -> None:
        """Add a sum to a result."""
        place = [*([row] if self.operands.has_rows else []), index(column)]
        memref.store(arith.addf(memref.load(self.operands.result, place), total), self.operands.result, place)


def in_lanes(words: ir.Value) -> ir.Value:
    """Words that hold numbers of f32."""
    return arith.bitcast(vector_of(LANES, "f32"), words)
