"""What a product with a weight in blocks multiplies, read from the op that `emit` wrote, on buffers."""

from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, memref

from autotune.compiler.ir.values import index
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
        weight: Bytes ``(n, blocks, 16)``: the first of each block, which lies in one piece.
        scales: Scales and least numbers ``(n, blocks)``.
        result: Sums ``(m, n)``, f32, that are added to.
        has_rows: Whether there is m.
    """

    steps: BlockSteps
    halves: tuple[ir.Value, ...]
    weight: ir.Value
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
        if not fits or bits == 4 and first == 1:
            raise CompileError("transform", f"a product in blocks must be one of those of qmatmul, it computes {names}")
        steps = BlockSteps(bits, first, signed, len(scales) == 2, shape[-2])
        has_rows = ir.MemRefType(halves[0].type).rank == 3
        return cls(steps, tuple(halves), inputs[first], tuple(scales), result, has_rows)

    @property
    def columns(self) -> int:
        """Columns of the tile."""
        return int(ir.MemRefType(self.weight.type).shape[0])

    @property
    def rows(self) -> int:
        """Rows of activations."""
        return int(ir.MemRefType(self.halves[0].type).shape[0]) if self.has_rows else 1

    def flat_weight(self) -> tuple[ir.Value, ir.Value, ir.Value]:
        """The bytes of the weight in a row, where those of the first column begin, and how far columns are apart."""
        kind = ir.MemRefType(self.weight.type)
        found = memref.extract_strided_metadata(self.weight)
        base, offset, stride = found[0], found[1], found[2 + kind.rank]
        dynamic = ir.ShapedType.get_dynamic_size()
        flat_kind = ir.MemRefType.get([dynamic], kind.element_type)
        whole = arith.addi(offset, arith.muli(stride, index(self.columns)))
        flat = memref.reinterpret_cast(flat_kind, base, [], [whole], [], [0], [dynamic], [1])
        return flat, offset, stride
