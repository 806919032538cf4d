"""Ops of a group on a part of their loops: the same bodies, on slices of what they read.

Loops over leading dimensions, and over blocks of rows and columns, are written around such copies before a script
(`online_softmax.py`, `matrices.py`).
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mlir import ir
from mlir.dialects import arith, linalg, tensor

from autotune.compiler.ir.extents import static_shape
from autotune.compiler.ir.nests import dimensions, indexing_maps, projected
from autotune.compiler.ir.values import fill_of, loop_of_index
from autotune.compiler.normalise.emit import generic
from autotune.compiler.tasks.causal import body

LOWEST = -3.4028234663852886e38  # of f32


class Block(ABC):
    """Where a part of a group starts, and how large it is."""

    @property
    @abstractmethod
    def lead(self) -> int:
        """Leading dimensions, of which a part has one each."""

    @abstractmethod
    def part(self, op: ir.Operation, loop: int) -> tuple[ir.Value | None, int]:
        """Where the block starts in a loop of an op, and how long it is there; `None` and 0 if it is all of it."""

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
        return tensor.extract_slice(kind, value, *slice_operands(*self.extents(op, amap, value)))

    def write(self, op: ir.Operation, amap: ir.AffineMap, part: ir.Value, value: ir.Value) -> ir.Value:
        """A value with its part replaced."""
        return tensor.insert_slice(part, value, *slice_operands(*self.extents(op, amap, value)))

    def inside(self, amap: ir.AffineMap) -> ir.AffineMap:
        """A map without the leading dimensions."""
        kept = [ir.AffineDimExpr.get(loop - self.lead) for loop in projected(amap) if loop >= self.lead]
        return ir.AffineMap.get(amap.n_dims - self.lead, 0, kept)


def slice_operands(
    starts: Sequence[ir.Value | None], sizes: Sequence[int]
) -> tuple[list[ir.Value], list[ir.Value], list[ir.Value], list[int], list[int], list[int]]:
    """Offsets, sizes and strides as a slice op takes them."""
    dynamic = ir.ShapedType.get_dynamic_stride_or_offset()
    given = [start for start in starts if start is not None]
    return given, [], [], [0 if start is None else dynamic for start in starts], list(sizes), [1] * len(sizes)


@dataclass
class Copies:
    """Writes ops of a group for one block.

    Attributes:
        block: The block at hand.
        tiles: Tiles that the group's ops so far give for the block.
    """

    block: Block
    tiles: dict[ir.Value, ir.Value] = field(default_factory=dict)

    def copy(self, op: ir.Operation, destination: ir.Value | None = None) -> ir.Value:
        """An op of the group on the block at hand."""
        maps = indexing_maps(op)
        inputs = [self.operand(op, number, amap) for number, amap in enumerate(maps[:-1])]
        into = destination if destination is not None else self.destination(op)
        loops = range(self.block.lead, maps[0].n_dims)
        kinds = ["parallel" if loop in dimensions(maps[-1]) else "reduction" for loop in loops]
        self.tiles[op.results[0]] = self.generic(op, inputs, into, [self.block.inside(amap) for amap in maps], kinds)
        return self.tiles[op.results[0]]

    def operand(self, op: ir.Operation, number: int, amap: ir.AffineMap) -> ir.Value:
        """What the block reads of an operand."""
        value = op.operands[number]
        if value in self.tiles:
            return self.tiles[value]
        return self.block.read(op, amap, value) if isinstance(value.type, ir.RankedTensorType) else value

    def destination(self, op: ir.Operation, *, lowest: bool = False, into: ir.Value | None = None) -> ir.Value:
        """A destination for what the block gives, a new one or what lies in a whole, filled as the op's own is.

        With `lowest` by the lowest finite number: under a maximum of -inf, a block that is -inf all over would be NaN.
        """
        kind, amap = op.results[0].type.element_type, indexing_maps(op)[-1]
        if into is None:
            empty = tensor.empty(self.block.shape(op, amap, op.results[0]), kind)
        else:
            empty = self.block.read(op, amap, into)
        fill = fill_of(op.operands[-1])
        if fill is None:
            return empty
        start = arith.constant(kind, LOWEST) if lowest else fill.operands[0]
        return linalg.fill(start, outs=[empty])

    def generic(
        self,
        op: ir.Operation,
        inputs: Sequence[ir.Value],
        into: ir.Value,
        maps: Sequence[ir.AffineMap],
        kinds: Sequence[str],
    ) -> ir.Value:
        """A structured op with the body of another; loop indices in it count from where the block starts."""
        block = op.regions[0].blocks[0]

        def clone(*arguments: ir.Value) -> ir.Value:
            values = dict(zip(block.arguments, arguments, strict=True))
            for inner in body(op)[:-1]:
                values[inner.results[0]] = self.clone(op, inner, values)
            result = body(op)[-1].operands[0]
            return values.get(result, result)

        return generic(inputs, into, maps, kinds, clone)

    def clone(self, op: ir.Operation, inner: ir.Operation, values: Mapping[ir.Value, ir.Value]) -> ir.Value:
        """A scalar op of a body, in a block."""
        loop, lead = loop_of_index(inner.results[0]), self.block.lead
        if loop is None:
            copy = inner.clone().operation
            for number, value in enumerate(inner.operands):
                copy.operands[number] = values.get(value, value)
            return copy.results[0]
        start, _ = self.block.part(op, loop)
        if loop < lead and start is not None:
            return start
        here = linalg.IndexOp(ir.IntegerAttr.get(ir.IntegerType.get_signless(64), loop - lead)).result
        return arith.addi(here, start) if start is not None else here
