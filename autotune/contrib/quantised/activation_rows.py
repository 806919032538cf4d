"""Rows of activations that are written in another order, or rounded, a step of a weight in blocks at a time."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, vector

from autotune.compiler.ir.loops import counted
from autotune.compiler.ir.values import index
from autotune.compiler.passes.rounding import vector_of
from autotune.contrib.quantised.block_steps import QUARTER, BlockSteps


@dataclass(frozen=True)
class ActivationRows(ABC):
    """Rows, as a product reads them.

    Attributes:
        steps: How a row is multiplied.
        halves: Activations, ``(m, blocks, 16)`` for each half of a block, or without m.
        buffer: Buffer that they go to, a row a row.
    """

    steps: BlockSteps
    halves: Sequence[ir.Value]
    buffer: ir.Value

    @abstractmethod
    def step(self, row: ir.Value, step: ir.Value, blocks: int) -> None:
        """What belongs to a step, of so many blocks; what is beyond is zero."""

    def write(self) -> None:
        """All of it, at the insertion point."""
        layout = self.steps

        def write_row(row: ir.Value) -> None:
            counted(layout.whole, lambda step: self.step(row, step, layout.count))
            if layout.left:
                self.step(row, index(layout.whole), layout.left)

        counted(ir.MemRefType(self.buffer.type).shape[0], write_row)

    def load_blocks(self, row: ir.Value, step: ir.Value, blocks: int) -> tuple[list[ir.Value], list[list[ir.Value]]]:
        """Indices of the blocks of a step, and their elements, a vector each half."""
        first = arith.muli(step, index(self.steps.count))
        indices = [arith.addi(first, index(block)) for block in range(blocks)]
        return indices, [[self.load(half, row, block) for half in self.halves] for block in indices]

    def load(self, half: ir.Value, row: ir.Value, block: ir.Value) -> ir.Value:
        """The elements of a block's half."""
        rank = ir.MemRefType(half.type).rank
        return vector.load(vector_of(QUARTER, "f32"), half, [*([row] if rank == 3 else []), block, index(0)])
