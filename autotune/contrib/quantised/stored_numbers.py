"""Reading scales and least numbers of a weight in blocks in f32: numbers of their own, or bytes that count a unit."""

from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, memref, vector

from autotune.compiler.ir.values import index
from autotune.compiler.passes.prefetch import TO_L1
from autotune.compiler.passes.rounding import vector_of
from autotune.contrib.quantised.loads import in_f32, load_first


@dataclass(frozen=True)
class StoredNumbers:
    """Numbers of blocks.

    Attributes:
        numbers: What is stored for each block, ``(n, blocks)``.
        units: What those of each group of blocks are counted in, ``(n, groups)``, or ``(n)`` where there is one group;
            `None` where they are numbers themselves.
    """

    numbers: ir.Value
    units: ir.Value | None

    @property
    def blocks(self) -> int:
        """Blocks of a row."""
        return int(ir.MemRefType(self.numbers.type).shape[1])

    @property
    def group(self) -> int:
        """Blocks that share a unit."""
        groups = 1 if self.units is None else (*ir.MemRefType(self.units.type).shape, 1)[1]
        return self.blocks // int(groups)

    def one(self, column: ir.Value, block: ir.Value) -> ir.Value:
        """The number of a block."""
        found = in_f32(memref.load(self.numbers, [column, block]))
        return found if self.units is None else arith.mulf(found, self.unit(self.units, column, block))

    def several(self, column: ir.Value, first: ir.Value, count: int, whole: int) -> ir.Value:
        """Numbers of so many blocks, from one on that is a multiple of `whole`; what is beyond is zero."""
        found = in_f32(load_first(self.numbers, [column, first], count, whole))
        if self.units is None:
            return found
        lanes = [min(lane, count - 1) // self.group for lane in range(whole)]
        units = self.units_from(self.units, column, first, lanes[-1] + 1)
        units = vector.shuffle(units, units, lanes)
        return arith.mulf(found, units)

    def fetch(self, column: ir.Value, block: ir.Value, ahead: int) -> None:
        """Fetch what lies so many blocks behind one."""
        if ahead:
            indices = [column, arith.addi(block, index(ahead))]
            memref.prefetch(self.numbers, indices, is_write=False, locality_hint=TO_L1, is_data_cache=True)

    def unit(self, units: ir.Value, column: ir.Value, block: ir.Value) -> ir.Value:
        """The unit of a block's group."""
        group = [] if ir.MemRefType(units.type).rank == 1 else [arith.divui(block, index(self.group))]
        return in_f32(memref.load(units, [column, *group]))

    def units_from(self, units: ir.Value, column: ir.Value, block: ir.Value, count: int) -> ir.Value:
        """Units of so many groups, from that of a block on."""
        kind = ir.MemRefType(units.type)
        groups = vector_of(count, str(kind.element_type))
        if kind.rank == 1:
            return in_f32(vector.broadcast(groups, memref.load(units, [column])))
        return in_f32(vector.load(groups, units, [column, arith.divui(block, index(self.group))]))
