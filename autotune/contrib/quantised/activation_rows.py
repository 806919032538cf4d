"""Base of the passes that reorder or round activations, one step of a block-quantized weight at a time."""

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
    """Activations in the layout that a product reads.

    Attributes:
        steps: Layout of the steps of a row.
        halves: Activations, ``(m, blocks, 16)`` for each half of a block, or without m.
        buffer: Destination buffer, with one row per row of activations.
    """

    steps: BlockSteps
    halves: Sequence[ir.Value]
    buffer: ir.Value

    @abstractmethod
    def step(self, row: ir.Value, step: ir.Value, blocks: int) -> None:
        """Write the elements of a step of `blocks` blocks, zero-padded."""

    def write(self) -> None:
        """Emit the writing of all rows at the insertion point."""
        layout = self.steps

        def write_row(row: ir.Value) -> None:
            counted(layout.whole, lambda step: self.step(row, step, layout.count))
            if layout.left:
                self.step(row, index(layout.whole), layout.left)

        counted(ir.MemRefType(self.buffer.type).shape[0], write_row)

    def load_blocks(self, row: ir.Value, step: ir.Value, blocks: int) -> tuple[list[ir.Value], list[list[ir.Value]]]:
        """Return the indices of the blocks of a step, and their elements, one vector per half."""
        first = arith.muli(step, index(self.steps.count))
        indices = [arith.addi(first, index(block)) for block in range(blocks)]
        return indices, [[self.load(half, row, block) for half in self.halves] for block in indices]

    def load(self, half: ir.Value, row: ir.Value, block: ir.Value) -> ir.Value:
        """Load the elements of a half of a block."""
        rank = ir.MemRefType(half.type).rank
        return vector.load(vector_of(QUARTER, "f32"), half, [*([row] if rank == 3 else []), block, index(0)])
