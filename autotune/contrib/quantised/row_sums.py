"""Lower products of rows with columns of a block-quantized weight on buffers, with 16 partial sums per element.

    for step: sums[n] += contribution of 64 bytes of column n and the matching activations      16 lanes each

A subclass defines that contribution: in integers (`dots_code.py`) or in f32 (`float_code.py`).
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
    """Blocks and scales of one step.

    Attributes:
        blocks: Number of blocks in the step.
        scales: Scales of the blocks, broadcast to the lanes of their sums; one vector per column.
    """

    blocks: int
    scales: list[ir.Value]


@dataclass(frozen=True)
class RowSums(ABC):
    """Product of all rows with a tile of columns.

    Attributes:
        operands: Operands of the product.
        tile: Rows whose sums are in registers at the same time.
        strands: Number of accumulators per element, which take the steps in turn.
        ahead: Prefetch distance in bytes; 0 disables prefetching.
    """

    operands: BlockOperands
    tile: int
    strands: int
    ahead: int

    @abstractmethod
    def step(self, stored: StoredBytes, rows: list[ir.Value], step: RowStep, sums: Sums, part: StepPart) -> Sums:
        """Return the sums after one more step."""

    @abstractmethod
    def activation_sums(self, row: ir.Value, first: ir.Value, count: int) -> ir.Value:
        """Return the sums of the activations of `count` blocks of a row in 16 lanes, zero-padded."""

    @property
    def steps(self) -> BlockSteps:
        """Layout of the steps of a row."""
        return self.operands.steps

    @property
    def columns(self) -> int:
        """Columns of the tile."""
        return self.operands.columns

    @property
    def blocks_ahead(self) -> int:
        """Prefetch distance in blocks."""
        return self.ahead // self.steps.block_bytes

    def write(self) -> None:
        """Emit the whole product at the insertion point."""
        stored = StoredBytes.open(self.operands)
        loop = scf.ForOp(index(0), index(self.operands.rows), index(self.tile))
        with ir.InsertionPoint(loop.body):
            rows = [arith.addi(loop.induction_variable, index(row)) for row in range(self.tile)]
            sums = self.sums(stored, rows)
            for (row, column), lanes in zip(self.elements(rows), sums, strict=True):
                self.add(rows[row], column, lanes)
            scf.yield_([])

    def elements(self, rows: list[ir.Value]) -> Iterator[tuple[int, int]]:
        """Yield the row and column of every element of a register tile."""
        return ((row, column) for row in range(len(rows)) for column in range(self.columns))

    def sums(self, stored: StoredBytes, rows: list[ir.Value]) -> Sums:
        """Return the 16-lane sum of each element."""
        steps, strands = self.steps, min(self.strands, max(1, self.steps.whole))
        count, looped = len(rows) * self.columns, self.steps.whole // strands * strands
        sums = [splat(0, "f32")] * (count * strands)
        if steps.least:  # first, where no later operation waits for the result
            sums[:count] = self.without_least(rows)
        if looped:
            loop = scf.ForOp(index(0), index(looped), index(strands), sums)
            keep_rolled(loop.operation)  # so that prefetches are spread over its iterations
            with ir.InsertionPoint(loop.body):
                carried = list(loop.inner_iter_args)
                scales = self.scales(RowStep(loop.induction_variable), strands, strands * steps.count)
                for strand in range(strands):
                    part = slice(strand * count, (strand + 1) * count)
                    step = RowStep(loop.induction_variable, strand)
                    carried[part] = self.step(stored, rows, step, carried[part], StepPart(steps.count, scales[strand]))
                scf.yield_(carried)
            sums = list(loop.results)
        for number in range(looped, steps.steps):
            part = slice((number - looped) % strands * count, ((number - looped) % strands + 1) * count)
            step, blocks = RowStep(index(number)), steps.count if number < steps.whole else steps.left
            (scales,) = self.scales(step, 1, blocks)
            sums[part] = self.step(stored, rows, step, sums[part], StepPart(blocks, scales))
        return [reduce(arith.addf, sums[element::count]) for element in range(count)]

    def scales(self, step: RowStep, steps: int, blocks: int) -> list[list[ir.Value]]:
        """Return the scales of `blocks` blocks from a step on: per step and column, in the lanes of its sums.

        The scales of several steps are loaded together, as many as fill a vector.
        """
        count, source = self.steps.count, self.operands.scales[0]
        scales_of_steps: list[list[ir.Value]] = [[] for _ in range(steps)]
        at_once = max(1, LANES // count)
        for column, first in product(range(self.columns), range(0, steps, at_once)):
            steps_read = scales_of_steps[first : first + at_once]
            at, whole = RowStep(step.start, step.beyond + first).times(count), len(steps_read) * count
            numbers = source.several(index(column), at, min(blocks, whole), whole)
            source.fetch(index(column), at, self.blocks_ahead)
            for number, scales in enumerate(steps_read):
                lanes = [number * count + block for block in self.steps.lane_blocks]
                scales.append(vector.shuffle(numbers, numbers, lanes))
        return scales_of_steps

    def without_least(self, rows: list[ir.Value]) -> Sums:
        """Return minus the sum over blocks of the minimum of each block times the sum of its activations."""
        blocks = self.steps.blocks
        whole = blocks // LANES * LANES
        sums = [splat(0, "f32")] * (len(rows) * self.columns)
        if whole:
            loop = scf.ForOp(index(0), index(whole), index(LANES), sums)
            with ir.InsertionPoint(loop.body):
                scf.yield_(self.less_least(rows, loop.induction_variable, list(loop.inner_iter_args), LANES))
            sums = list(loop.results)
        return self.less_least(rows, index(whole), sums, blocks - whole) if blocks > whole else sums

    def less_least(self, rows: list[ir.Value], first: ir.Value, sums: Sums, count: int) -> Sums:
        """Subtract from the sums the minimum of `count` more blocks times the sums of their activations."""
        numbers = self.operands.scales[1]
        columns = [numbers.several(index(column), first, count, LANES) for column in range(self.columns)]
        for column in range(self.columns):
            numbers.fetch(index(column), first, self.blocks_ahead)
        negated_sums = [arith.negf(self.activation_sums(row, first, count)) for row in rows]
        return [
            math.fma(negated_sums[row], columns[column], sums[row * self.columns + column])
            for row, column in self.elements(rows)
        ]

    def add(self, row: ir.Value, column: int, lanes: ir.Value) -> None:
        """Reduce the lanes of an element and add the total to the result."""
        indices = [*([row] if self.operands.has_rows else []), index(column)]
        before, reassociated = memref.load(self.operands.result, indices), arith.FastMathFlags.reassoc
        total = vector.reduction(before.type, vector.CombiningKind.ADD, lanes, acc=before, fastmath=reassociated)
        memref.store(total, self.operands.result, indices)
