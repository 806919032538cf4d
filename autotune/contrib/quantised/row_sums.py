"""Code for rows by some columns of a weight in blocks, on buffers: each element is summed in 16 lanes along a row.

    for step: sums[n] += what 64 bytes of column n and the activations that they meet give      16 lanes each

What a step gives is a subclass's to say: in whole numbers (`dots_code.py`) or in f32 (`float_code.py`).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import product

from mlir import ir
from mlir.dialects import arith, math, memref, scf, vector

from autotune.compiler.ir.values import index
from autotune.compiler.passes.rolled_loops import keep_rolled
from autotune.compiler.passes.rounding import splat
from autotune.contrib.quantised.block_operands import BlockOperands
from autotune.contrib.quantised.block_steps import LANES, BlockSteps
from autotune.contrib.quantised.loops import RowStep
from autotune.contrib.quantised.stored_bytes import StoredBytes

Sums = list[ir.Value]


@dataclass(frozen=True)
class StepPart:
    """What is there of a step.

    Attributes:
        blocks: Number of its blocks.
        scales: Scales of the blocks, in the lanes of their sums; a vector a column.
    """

    blocks: int
    scales: list[ir.Value]


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
    def step(self, stored: StoredBytes, rows: list[ir.Value], step: RowStep, sums: Sums, part: StepPart) -> Sums:
        """Sums with a step more."""

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

    @property
    def blocks_ahead(self) -> int:
        """Blocks from what is read to what is fetched."""
        return self.ahead // self.steps.block_bytes

    def write(self) -> None:
        """All of it, at the insertion point."""
        stored = StoredBytes.open(self.operands)
        loop = scf.ForOp(index(0), index(self.operands.rows), index(self.tile))
        with ir.InsertionPoint(loop.body):
            rows = [arith.addi(loop.induction_variable, index(row)) for row in range(self.tile)]
            sums = self.sums(stored, rows)
            for (row, column), lanes in zip(self.elements(rows), sums, strict=True):
                self.add(rows[row], column, lanes)
            scf.yield_([])

    def elements(self, rows: list[ir.Value]) -> Iterator[tuple[int, int]]:
        """Row and column of every element of a register tile."""
        return ((row, column) for row in range(len(rows)) for column in range(self.columns))

    def sums(self, stored: StoredBytes, rows: list[ir.Value]) -> Sums:
        """Sums of each element in 16 lanes."""
        steps, strands = self.steps, min(self.strands, max(1, self.steps.whole))
        count, looped = len(rows) * self.columns, self.steps.whole // strands * strands
        found = [splat(0, "f32")] * (count * strands)
        if steps.least:  # first, as nothing waits for it there
            found[:count] = self.without_least(rows)
        if looped:
            loop = scf.ForOp(index(0), index(looped), index(strands), found)
            keep_rolled(loop.operation)  # so that what it fetches is spread over its steps
            with ir.InsertionPoint(loop.body):
                inside = list(loop.inner_iter_args)
                scales = self.scales(RowStep(loop.induction_variable), strands, strands * steps.count)
                for strand in range(strands):
                    part = slice(strand * count, (strand + 1) * count)
                    step = RowStep(loop.induction_variable, strand)
                    inside[part] = self.step(stored, rows, step, inside[part], StepPart(steps.count, scales[strand]))
                scf.yield_(inside)
            found = list(loop.results)
        for number in range(looped, steps.steps):
            part = slice((number - looped) % strands * count, ((number - looped) % strands + 1) * count)
            step, blocks = RowStep(index(number)), steps.count if number < steps.whole else steps.left
            (scales,) = self.scales(step, 1, blocks)
            found[part] = self.step(stored, rows, step, found[part], StepPart(blocks, scales))
        return [reduce(arith.addf, found[each::count]) for each in range(count)]

    def scales(self, step: RowStep, steps: int, blocks: int) -> list[list[ir.Value]]:
        """Scales of so many blocks from a step on, of each step and column in the lanes of its sums.

        Those of several steps are read at once, as many as a vector has.
        """
        count, source = self.steps.count, self.operands.scales[0]
        found: list[list[ir.Value]] = [[] for _ in range(steps)]
        at_once = max(1, LANES // count)
        for column, first in product(range(self.columns), range(0, steps, at_once)):
            some = found[first : first + at_once]
            at, whole = RowStep(step.start, step.beyond + first).times(count), len(some) * count
            numbers = source.several(index(column), at, min(blocks, whole), whole)
            source.fetch(index(column), at, self.blocks_ahead)
            for number, scales in enumerate(some):
                lanes = [number * count + block for block in self.steps.lane_blocks]
                scales.append(vector.shuffle(numbers, numbers, lanes))
        return found

    def without_least(self, rows: list[ir.Value]) -> Sums:
        """Sums of the least number of each block times the sum of its activations, negative."""
        blocks = self.steps.blocks
        whole = blocks // LANES * LANES
        found = [splat(0, "f32")] * (len(rows) * self.columns)
        if whole:
            loop = scf.ForOp(index(0), index(whole), index(LANES), found)
            with ir.InsertionPoint(loop.body):
                scf.yield_(self.less_least(rows, loop.induction_variable, list(loop.inner_iter_args), LANES))
            found = list(loop.results)
        return self.less_least(rows, index(whole), found, blocks - whole) if blocks > whole else found

    def less_least(self, rows: list[ir.Value], first: ir.Value, sums: Sums, count: int) -> Sums:
        """Sums less the least numbers of so many blocks more."""
        numbers = self.operands.scales[1]
        columns = [numbers.several(index(column), first, count, LANES) for column in range(self.columns)]
        for column in range(self.columns):
            numbers.fetch(index(column), first, self.blocks_ahead)
        given = [arith.negf(self.given_sums(row, first, count)) for row in rows]
        return [
            math.fma(given[row], columns[column], sums[row * self.columns + column])
            for row, column in self.elements(rows)
        ]

    def add(self, row: ir.Value, column: int, lanes: ir.Value) -> None:
        """Add the lanes of an element to the result."""
        indices = [*([row] if self.operands.has_rows else []), index(column)]
        before, reassociated = memref.load(self.operands.result, indices), arith.FastMathFlags.reassoc
        total = vector.reduction(before.type, vector.CombiningKind.ADD, lanes, acc=before, fastmath=reassociated)
        memref.store(total, self.operands.result, indices)
