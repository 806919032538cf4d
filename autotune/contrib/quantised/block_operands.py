"""What a product with a weight in blocks multiplies, read from the op that `emit` wrote, on buffers."""

from dataclasses import dataclass

from mlir import ir

from autotune.contrib.quantised.block_steps import LANES, BlockSteps
from autotune.core.errors import CompileError

EVERY = {"arith.mulf", "arith.addf", "arith.sitofp", "linalg.yield"}
MAY = {"arith.extf", "arith.subf", "arith.constant"}
BY_KIND = {  # ops of a body, by bits and sign
    (8, True): set[str](),
    (4, True): {"arith.extsi", "arith.shli", "arith.shrsi"},
    (4, False): {"arith.extui", "arith.andi", "arith.shrui"},
}


@dataclass(frozen=True)
class BlockOperands:
    """What an op multiplies, on buffers; without rows, m is missing everywhere.

    Attributes:
        steps: How a row is multiplied.
        halves: Activations ``(m, blocks, 16)``, f32, for each half of a block.
        weights: Bytes ``(n, blocks, 16)``: of each half of a block, or of nibbles of both.
        scales: Scales and least numbers ``(n, blocks)``.
        result: Sums ``(m, n)``, f32, that are added to.
        has_rows: Whether there is m.
    """

    steps: BlockSteps
    halves: tuple[ir.Value, ...]
    weights: tuple[ir.Value, ...]
    scales: tuple[ir.Value, ...]
    result: ir.Value
    has_rows: bool

    @classmethod
    def of(cls, op: ir.Operation) -> "BlockOperands":
        """The operands of an op.

        Raises:
            CompileError: Stage ``transform``; it is no product with a weight in blocks.
        """
        *inputs, result = list(op.operands)
        kinds = [str(ir.MemRefType(each.type).element_type) for each in inputs]
        if "i8" not in kinds:
            raise CompileError("transform", f"a product in blocks must multiply bytes, its operands are {kinds}")
        first, count = kinds.index("i8"), kinds.count("i8")
        halves, scales = inputs[:first], inputs[first + count :]
        names = {each.operation.name for each in op.regions[0].blocks[0].operations}
        signed = "arith.andi" not in names
        bits = 8 if count == first and "arith.shrsi" not in names else 4
        shape = ir.MemRefType(inputs[first].type).shape
        needed = EVERY | BY_KIND[bits, signed]
        fits = needed <= names <= needed | MAY and first in (1, 2) and len(scales) in (1, 2) and shape[-1] == LANES
        if not fits or (bits == 4 and first == 1):
            raise CompileError("transform", f"a product in blocks must be one of those of qmatmul, it computes {names}")
        steps = BlockSteps(bits, first, signed, len(scales) == 2, shape[-2])
        has_rows = ir.MemRefType(halves[0].type).rank == 3
        weights = tuple(inputs[first : first + count])
        return cls(steps, tuple(halves), weights, tuple(scales), result, has_rows)

    @property
    def columns(self) -> int:
        """Columns of the tile."""
        return int(ir.MemRefType(self.weights[0].type).shape[0])

    @property
    def rows(self) -> int:
        """Rows of activations."""
        return int(ir.MemRefType(self.halves[0].type).shape[0]) if self.has_rows else 1
