"""Reading a weight in blocks, 64 bytes of a row at a time."""

from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, memref, vector

from autotune.compiler.ir.values import index, maker, splat_of, static_slice
from autotune.compiler.passes.prefetch import TO_L1
from autotune.compiler.passes.rounding import vector_of
from autotune.contrib.quantised.block_operands import BlockOperands
from autotune.contrib.quantised.block_steps import BYTES, QUARTER
from autotune.contrib.quantised.loads import load_first
from autotune.contrib.quantised.loops import RowStep


@dataclass(frozen=True)
class StoredBytes:
    """The bytes of some columns.

    Attributes:
        operands: What they are part of.
        flat: All bytes in one dimension; `None` where the halves of a block lie apart, as in a task alone.
        offset: Offset in it where the first column begins.
        stride: Bytes from a column to the next.
    """

    operands: BlockOperands
    flat: ir.Value | None
    offset: ir.Value
    stride: ir.Value

    @classmethod
    def open(cls, operands: BlockOperands) -> "StoredBytes":
        """Read what is needed of the weight's buffer, at the insertion point."""
        first = operands.stored[0]
        kind = ir.MemRefType(first.type)
        found = memref.extract_strided_metadata(first)
        base, offset, stride = found[0], found[1], found[2 + kind.rank]
        if not are_side_by_side(operands.stored):
            return cls(operands, None, offset, stride)
        dynamic = ir.ShapedType.get_dynamic_size()
        flat_kind = ir.MemRefType.get([dynamic], kind.element_type)
        whole = arith.addi(offset, arith.muli(stride, index(operands.columns)))
        flat = memref.reinterpret_cast(flat_kind, base, [], [whole], [], [0], [dynamic], [1])
        return cls(operands, flat, offset, stride)

    def load(self, column: ir.Value, step: RowStep, blocks: int) -> ir.Value:
        """The 64 bytes of a step; of one with fewer blocks, zeros behind them."""
        steps = self.operands.steps
        if self.flat is not None:
            return load_first(self.flat, [self.first_byte(column, step)], blocks * steps.block_bytes, BYTES)
        first, kind, parts = step.times(steps.count), vector_of(QUARTER, "i8"), []
        for block in range(blocks):
            indices = [column, arith.addi(first, index(block)), index(0)]
            parts += [vector.load(kind, half, indices) for half in self.operands.weights]
        parts += [splat_of(kind, 0)] * (BYTES // QUARTER - len(parts))
        pairs = [vector.shuffle(*parts[at : at + 2], list(range(2 * QUARTER))) for at in (0, 2)]
        return vector.shuffle(*pairs, list(range(BYTES)))

    def fetch(self, column: ir.Value, step: RowStep, ahead: int) -> None:
        """Fetch what lies so many bytes behind a step."""
        if ahead and self.flat is not None:
            offset = arith.addi(self.first_byte(column, step), index(ahead))
            memref.prefetch(self.flat, [offset], is_write=False, locality_hint=TO_L1, is_data_cache=True)

    def first_byte(self, column: ir.Value, step: RowStep) -> ir.Value:
        """First byte of a step."""
        start = arith.addi(self.offset, arith.muli(self.stride, column))
        return arith.addi(start, step.times(BYTES))


def are_side_by_side(weights: tuple[ir.Value, ...]) -> bool:
    """Whether a block's bytes lie in one piece: there is one operand, or two are the halves of one buffer."""
    return len(weights) == 1 or are_halves(*weights)


def are_halves(first: ir.Value, second: ir.Value) -> bool:
    """Whether two buffers are the first and the second half of the blocks of one, or cut alike out of such."""
    makers = [maker(each) for each in (first, second)]
    cuts = [each for each in makers if each is not None and each.name == "memref.subview"]
    if len(cuts) != len(makers):
        return False
    (source, *moving), (other, *alike) = (list(cut.operands) for cut in cuts)
    (at, *same), (beside, *too) = (static_slice(cut) for cut in cuts)
    if moving != alike or same != too:
        return False
    if source == other:
        return at[:-2] == beside[:-2] and (at[-2:], beside[-2:]) == ([0, 0], [1, 0])
    return at == beside and are_halves(source, other)
