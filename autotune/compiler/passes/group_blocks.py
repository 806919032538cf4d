"""Clone ops of a fusion group on a block of their iteration space: the same bodies, on slices of their operands.

Loops over leading dimensions, and over blocks of rows and columns, are built around such clones before a script
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

LOWEST = -3.4028234663852886e38  # lowest finite f32


class Block(ABC):
    """Start and size of a block of a group's iteration space."""

    @property
    @abstractmethod
    def lead(self) -> int:
        """Number of leading dimensions, along which a block has size 1."""

    @abstractmethod
    def part(self, op: ir.Operation, loop: int) -> tuple[ir.Value | None, int]:
        """Return start and size of the block in a loop of an op; `None` and 0 if it covers the whole loop."""

    def extents(self, op: ir.Operation, amap: ir.AffineMap, value: ir.Value) -> tuple[list[ir.Value | None], list[int]]:
        """Return start and size of the block in each dimension of a value; a start of `None` is 0."""
        parts = [self.part(op, loop) for loop in projected(amap)]
        sizes = [length or whole for (_, length), whole in zip(parts, static_shape(value), strict=True)]
        return [start for start, _ in parts], sizes

    def shape(self, op: ir.Operation, amap: ir.AffineMap, value: ir.Value) -> list[int]:
        """Return the shape of a value's slice, without leading dimensions."""
        sizes = self.extents(op, amap, value)[1]
        return [size for size, loop in zip(sizes, projected(amap), strict=True) if loop >= self.lead]

    def read(self, op: ir.Operation, amap: ir.AffineMap, value: ir.Value) -> ir.Value:
        """Extract the slice of an operand."""
        slice_type = ir.RankedTensorType.get(self.shape(op, amap, value), value.type.element_type)
        return tensor.extract_slice(slice_type, value, *slice_operands(*self.extents(op, amap, value)))

    def write(self, op: ir.Operation, amap: ir.AffineMap, part: ir.Value, value: ir.Value) -> ir.Value:
        """Insert a slice into a value."""
        return tensor.insert_slice(part, value, *slice_operands(*self.extents(op, amap, value)))

    def inside(self, amap: ir.AffineMap) -> ir.AffineMap:
        """Return an indexing map without the leading dimensions."""
        dims = [ir.AffineDimExpr.get(loop - self.lead) for loop in projected(amap) if loop >= self.lead]
        return ir.AffineMap.get(amap.n_dims - self.lead, 0, dims)


def slice_operands(
    starts: Sequence[ir.Value | None], sizes: Sequence[int]
) -> tuple[list[ir.Value], list[ir.Value], list[ir.Value], list[int], list[int], list[int]]:
    """Return dynamic and static offsets, sizes and strides as slice ops take them."""
    dynamic = ir.ShapedType.get_dynamic_stride_or_offset()
    dynamic_offsets = [start for start in starts if start is not None]
    return dynamic_offsets, [], [], [0 if start is None else dynamic for start in starts], list(sizes), [1] * len(sizes)


@dataclass
class Copies:
    """Builder of clones of a group's ops for one block.

    Attributes:
        block: Current block.
        tiles: Result of the clone, by result of the group's op.
    """

    block: Block
    tiles: dict[ir.Value, ir.Value] = field(default_factory=dict)

    def copy(self, op: ir.Operation, destination: ir.Value | None = None) -> ir.Value:
        """Clone an op of the group on the current block."""
        maps = indexing_maps(op)
        inputs = [self.operand(op, number, amap) for number, amap in enumerate(maps[:-1])]
        into = destination if destination is not None else self.destination(op)
        loops = range(self.block.lead, maps[0].n_dims)
        types = ["parallel" if loop in dimensions(maps[-1]) else "reduction" for loop in loops]
        self.tiles[op.results[0]] = self.generic(op, inputs, into, [self.block.inside(amap) for amap in maps], types)
        return self.tiles[op.results[0]]

    def operand(self, op: ir.Operation, number: int, amap: ir.AffineMap) -> ir.Value:
        """Return the tile or slice of an operand that the block reads."""
        value = op.operands[number]
        if value in self.tiles:
            return self.tiles[value]
        return self.block.read(op, amap, value) if isinstance(value.type, ir.RankedTensorType) else value

    def destination(self, op: ir.Operation, *, lowest: bool = False, into: ir.Value | None = None) -> ir.Value:
        """Build the destination of a clone: an empty tensor or a slice of `into`, filled like the op's own.

        With `lowest`, it is filled with the lowest finite number: with a maximum of -inf, a block of only -inf would
        become NaN.
        """
        element_type, amap = op.results[0].type.element_type, indexing_maps(op)[-1]
        if into is None:
            empty = tensor.empty(self.block.shape(op, amap, op.results[0]), element_type)
        else:
            empty = self.block.read(op, amap, into)
        fill = fill_of(op.operands[-1])
        if fill is None:
            return empty
        start = arith.constant(element_type, LOWEST) if lowest else fill.operands[0]
        return linalg.fill(start, outs=[empty])

    def generic(
        self,
        op: ir.Operation,
        inputs: Sequence[ir.Value],
        into: ir.Value,
        maps: Sequence[ir.AffineMap],
        kinds: Sequence[str],
    ) -> ir.Value:
        """Build a structured op with a clone of an op's body, in which linalg.index is offset by the block's start."""
        block = op.regions[0].blocks[0]

        def clone(*arguments: ir.Value) -> ir.Value:
            values = dict(zip(block.arguments, arguments, strict=True))
            for inner in body(op)[:-1]:
                values[inner.results[0]] = self.clone(op, inner, values)
            result = body(op)[-1].operands[0]
            return values.get(result, result)

        return generic(inputs, into, maps, kinds, clone)

    def clone(self, op: ir.Operation, inner: ir.Operation, values: Mapping[ir.Value, ir.Value]) -> ir.Value:
        """Clone a scalar op of a body, adjusting linalg.index."""
        loop, lead = loop_of_index(inner.results[0]), self.block.lead
        if loop is None:
            copy = inner.clone().operation
            for number, value in enumerate(inner.operands):
                copy.operands[number] = values.get(value, value)
            return copy.results[0]
        start, _ = self.block.part(op, loop)
        if loop < lead and start is not None:
            return start
        local_index = linalg.IndexOp(ir.IntegerAttr.get(ir.IntegerType.get_signless(64), loop - lead)).result
        return arith.addi(local_index, start) if start is not None else local_index
