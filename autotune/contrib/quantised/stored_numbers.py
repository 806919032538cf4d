"""Loads of a block-quantized weight's scales and minimums as f32: stored directly, or as i8 multiples of a unit."""

from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, memref, vector

from autotune.compiler.ir.values import index
from autotune.compiler.passes.prefetch import TO_L1
from autotune.compiler.passes.rounding import vector_of
from autotune.contrib.quantised.loads import in_f32, load_first


@dataclass(frozen=True)
class StoredNumbers:
    """Scales or minimums of blocks.

    Attributes:
        numbers: Stored value per block, ``(n, blocks)``.
        units: Factor of the numbers of each group of blocks, ``(n, groups)``, or ``(n)`` if there is one group; `None`
            if the numbers are stored directly.
    """

    numbers: ir.Value
    units: ir.Value | None

    @property
    def blocks(self) -> int:
        """Number of blocks per row."""
        return int(ir.MemRefType(self.numbers.type).shape[1])

    @property
    def group(self) -> int:
        """Number of blocks that share a unit."""
        groups = 1 if self.units is None else (*ir.MemRefType(self.units.type).shape, 1)[1]
        return self.blocks // int(groups)

    def one(self, column: ir.Value, block: ir.Value) -> ir.Value:
        """Return the number of a block."""
        number = in_f32(memref.load(self.numbers, [column, block]))
        return number if self.units is None else arith.mulf(number, self.unit(self.units, column, block))

    def several(self, column: ir.Value, first: ir.Value, count: int, whole: int) -> ir.Value:
        """Return the numbers of `count` blocks from `first` on, a multiple of `whole`, zero-padded to `whole`."""
        numbers = in_f32(load_first(self.numbers, [column, first], count, whole))
        if self.units is None:
            return numbers
        lanes = [min(lane, count - 1) // self.group for lane in range(whole)]
        units = self.units_from(self.units, column, first, lanes[-1] + 1)
        units = vector.shuffle(units, units, lanes)
        return arith.mulf(numbers, units)

    def fetch(self, column: ir.Value, block: ir.Value, ahead: int) -> None:
        """Prefetch the number at a distance of `ahead` blocks."""
        if ahead:
            indices = [column, arith.addi(block, index(ahead))]
            memref.prefetch(self.numbers, indices, is_write=False, locality_hint=TO_L1, is_data_cache=True)

    def unit(self, units: ir.Value, column: ir.Value, block: ir.Value) -> ir.Value:
        """Return the unit of a block's group."""
        group = [] if ir.MemRefType(units.type).rank == 1 else [arith.divui(block, index(self.group))]
        return in_f32(memref.load(units, [column, *group]))

    def units_from(self, units: ir.Value, column: ir.Value, block: ir.Value, count: int) -> ir.Value:
        """Return the units of `count` groups, from that of a block on."""
        units_type = ir.MemRefType(units.type)
        groups = vector_of(count, str(units_type.element_type))
        if units_type.rank == 1:
            return in_f32(vector.broadcast(groups, memref.load(units, [column])))
        return in_f32(vector.load(groups, units, [column, arith.divui(block, index(self.group))]))
