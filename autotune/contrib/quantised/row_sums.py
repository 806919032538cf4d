"""Code for rows by some columns of a weight in blocks, on buffers: each element is summed in 16 lanes along a row.

    for step: sums[n] += what 64 bytes of column n and the activations that they meet give      16 lanes each

What a step gives is a subclass's to say: in whole numbers (`dots_code.py`) or in f32 (`float_code.py`).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce

from mlir import ir
from mlir.dialects import arith, math, memref, scf, vector

from autotune.compiler.ir.values import index
from autotune.compiler.passes.rounding import splat
from autotune.contrib.quantised.block_operands import BlockOperands
from autotune.contrib.quantised.block_steps import LANES, BlockSteps
from autotune.contrib.quantised.stored_bytes import StoredBytes

Sums = list[ir.Value]


@dataclass(frozen=True)
class RowSums(ABC):
    """All rows by some columns.

    Attributes:
        operands: What is multiplied.
        tile: Rows whose sums are in registers at once.
        strands: Sums of each element, a step each.
        ahead: Bytes from what is read to what is fetched; 0 fetches nothing.
    """

    operands: BlockOperands
    tile: int
    strands: int
    ahead: int

    @abstractmethod
    def step(self, stored: StoredBytes, rows: list[ir.Value], step: ir.Value, sums: Sums, blocks: int) -> Sums:
        """Sums with a step more, of so many blocks."""

    @abstractmethod
    def given_sums(self, row: ir.Value, first: ir.Value, count: int) -> ir.Value:
        """Sums of the activations of so many blocks of a row, 16 lanes; what is beyond is zero."""

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
        numbers = self.operands.scales[1]
        columns = [numbers.several(index(column), first, count, LANES) for column in range(self.columns)]
        given = [self.given_sums(row, first, count) for row in rows]
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
