"""A block of a group's rows and columns: which part of every value belongs to it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from mlir import ir
from mlir.dialects import tensor

from autotune.compiler.ir.extents import static_shape
from autotune.compiler.ir.nests import projected
from autotune.compiler.tasks.softmax import Plan
from autotune.core.plugs.rewrites import Blocks


@dataclass
class Block:
    """Where a block of a group starts, and how large it is.

    Attributes:
        plan: The group.
        blocks: Block sizes that the group's loops step by.
        starts: First index along the leading dimensions, of which a block has one each, and of its rows.
        column: First column of the block; `None` outside of the loop over columns.
    """

    plan: Plan
    blocks: Blocks
    starts: list[ir.Value] = field(default_factory=list)
    column: ir.Value | None = None

    @property
    def lead(self) -> int:
        """Leading dimensions."""
        return self.plan.rows - 1

    def part(self, op: ir.Operation, loop: int) -> tuple[ir.Value | None, int]:
        """Where the block starts in a loop of an op, and how long it is there; `None` and 0 if it is all of it."""
        if loop < self.plan.rows:
            return self.starts[loop], self.blocks.rows if loop == self.lead else 1
        if loop == self.plan.columns.get(op):
            return self.column, self.blocks.columns
        return None, 0

    def extents(self, op: ir.Operation, amap: ir.AffineMap, value: ir.Value) -> tuple[list[ir.Value | None], list[int]]:
        """Where the block starts in each dimension of a value (`None`: where that does), and how long it is there."""
        parts = [self.part(op, loop) for loop in projected(amap)]
        sizes = [length or whole for (_, length), whole in zip(parts, static_shape(value), strict=True)]
        return [start for start, _ in parts], sizes

    def shape(self, op: ir.Operation, amap: ir.AffineMap, value: ir.Value) -> list[int]:
        """Sizes of a value's part, without leading dimensions."""
        sizes = self.extents(op, amap, value)[1]
        return [size for size, loop in zip(sizes, projected(amap), strict=True) if loop >= self.lead]

    def read(self, op: ir.Operation, amap: ir.AffineMap, value: ir.Value) -> ir.Value:
        """The part of an operand."""
        kind = ir.RankedTensorType.get(self.shape(op, amap, value), value.type.element_type)
        return tensor.extract_slice(kind, value, *places(*self.extents(op, amap, value)))

    def write(self, op: ir.Operation, amap: ir.AffineMap, part: ir.Value, value: ir.Value) -> ir.Value:
        """A value with its part replaced."""
        return tensor.insert_slice(part, value, *places(*self.extents(op, amap, value)))

    def inside(self, amap: ir.AffineMap) -> ir.AffineMap:
        """A map without the leading dimensions."""
        kept = [ir.AffineDimExpr.get(loop - self.lead) for loop in projected(amap) if loop >= self.lead]
        return ir.AffineMap.get(amap.n_dims - self.lead, 0, kept)


def places(
    starts: Sequence[ir.Value | None], sizes: Sequence[int]
) -> tuple[list[ir.Value], list[ir.Value], list[ir.Value], list[int], list[int], list[int]]:
    """Offsets, sizes and strides as a slice op takes them."""
    dynamic = ir.ShapedType.get_dynamic_stride_or_offset()
    given = [start for start in starts if start is not None]
    return given, [], [], [0 if start is None else dynamic for start in starts], list(sizes), [1] * len(sizes)
