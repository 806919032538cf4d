"""Loads of a block-quantized weight, 64 bytes of a row at a time."""

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
    """Bytes of a tile of columns.

    Attributes:
        operands: Operands of the product.
        flat: All bytes as a 1-D memref; `None` if the halves of a block are separate buffers, as in a task of its own.
        offset: Offset of the first column in it.
        stride: Bytes between columns.
    """

    operands: BlockOperands
    flat: ir.Value | None
    offset: ir.Value
    stride: ir.Value

    @classmethod
    def open(cls, operands: BlockOperands) -> "StoredBytes":
        """Create from the weight's buffers, emitting their metadata at the insertion point."""
        first = operands.stored[0]
        weight_type = ir.MemRefType(first.type)
        metadata = memref.extract_strided_metadata(first)
        base, offset, stride = metadata[0], metadata[1], metadata[2 + weight_type.rank]
        if not are_side_by_side(operands.stored):
            return cls(operands, None, offset, stride)
        dynamic = ir.ShapedType.get_dynamic_size()
        flat_type = ir.MemRefType.get([dynamic], weight_type.element_type)
        whole = arith.addi(offset, arith.muli(stride, index(operands.columns)))
        flat = memref.reinterpret_cast(flat_type, base, [], [whole], [], [0], [dynamic], [1])
        return cls(operands, flat, offset, stride)

    def load(self, column: ir.Value, step: RowStep, blocks: int) -> ir.Value:
        """Load the 64 bytes of a step, zero-padded if it has fewer blocks."""
        steps = self.operands.steps
        if self.flat is not None:
            return load_first(self.flat, [self.first_byte(column, step)], blocks * steps.block_bytes, BYTES)
        first, part_type, parts = step.times(steps.count), vector_of(QUARTER, "i8"), []
        for block in range(blocks):
            indices = [column, arith.addi(first, index(block)), index(0)]
            parts += [vector.load(part_type, half, indices) for half in self.operands.weights]
        parts += [splat_of(part_type, 0)] * (BYTES // QUARTER - len(parts))
        pairs = [vector.shuffle(*parts[at : at + 2], list(range(2 * QUARTER))) for at in (0, 2)]
        return vector.shuffle(*pairs, list(range(BYTES)))

    def fetch(self, column: ir.Value, step: RowStep, ahead: int) -> None:
        """Prefetch the bytes at a distance of `ahead` bytes from a step."""
        if ahead and self.flat is not None:
            offset = arith.addi(self.first_byte(column, step), index(ahead))
            memref.prefetch(self.flat, [offset], is_write=False, locality_hint=TO_L1, is_data_cache=True)

    def first_byte(self, column: ir.Value, step: RowStep) -> ir.Value:
        """Return the offset of the first byte of a step."""
        start = arith.addi(self.offset, arith.muli(self.stride, column))
        return arith.addi(start, step.times(BYTES))


def are_side_by_side(weights: tuple[ir.Value, ...]) -> bool:
    """Return whether a block is contiguous: there is a single operand, or two are the halves of one buffer."""
    return len(weights) == 1 or are_halves(*weights)


def are_halves(first: ir.Value, second: ir.Value) -> bool:
    """Return whether two buffers are the first and second half of the blocks of one buffer, or equal slices of such."""
    producers = [maker(each) for each in (first, second)]
    subviews = [each for each in producers if each is not None and each.name == "memref.subview"]
    if len(subviews) != len(producers):
        return False
    (source, *moving), (other_source, *alike) = (list(cut.operands) for cut in subviews)
    (at, *same), (other_at, *too) = (static_slice(cut) for cut in subviews)
    if moving != alike or same != too:
        return False
    if source == other_source:
        return at[:-2] == other_at[:-2] and (at[-2:], other_at[-2:]) == ([0, 0], [1, 0])
    return at == other_at and are_halves(source, other_source)
