"""Operands of the Winograd lowering: blocks of images, and matrices of transformed tiles."""

from collections.abc import Callable
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, memref, vector

from autotune.compiler.ir.loops import counted
from autotune.compiler.ir.values import index
from autotune.compiler.passes.rounding import shape_of, splat, vector_of
from autotune.core.errors import CompileError

PLANE = 3  # dimensions: rows, columns, channels
LINE = 16  # elements per cache line


def times(value: ir.Value, factor: int) -> ir.Value:
    """Multiply an index by a constant."""
    return arith.muli(value, index(factor))


@dataclass(frozen=True)
class ImageBlock:
    """A buffer whose last three dimensions are a channels-last block of an image; the leading ones have size 1.

    Attributes:
        buffer: The buffer.
        lanes: Elements of a vector.
    """

    buffer: ir.Value
    lanes: int

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Numbers of rows, columns and channels.

        Raises:
            CompileError: The block has several images.
        """
        *lead, rows, columns, channels = shape_of(self.buffer)
        if any(size != 1 for size in lead):
            raise CompileError("transform", f"a block must be of one image, its sizes are {shape_of(self.buffer)}")
        return rows, columns, channels

    @property
    def vectors(self) -> int:
        """Vectors of channels per pixel, including a partial one."""
        return -(-self.sizes[-1] // self.lanes)

    def indices(self, row: ir.Value, column: ir.Value, channel: ir.Value) -> list[ir.Value]:
        """Return the indices of an element."""
        return [*[index(0)] * (len(shape_of(self.buffer)) - PLANE), row, column, channel]

    def load(self, row: ir.Value, column: ir.Value, channel: ir.Value, mask: ir.Value | None) -> ir.Value:
        """Load a vector, zero-padded beyond the channels."""
        indices, vector_type = self.indices(row, column, channel), vector_of(self.lanes, "f32")
        if mask is None:
            return vector.load(vector_type, self.buffer, indices)
        return vector.maskedload(vector_type, self.buffer, indices, mask, splat(0, "f32", self.lanes))

    def store(self, value: ir.Value, row: ir.Value, column: ir.Value, channel: ir.Value, mask: ir.Value | None) -> None:
        """Store the valid lanes of a vector."""
        indices = self.indices(row, column, channel)
        if mask is None:
            vector.store(value, self.buffer, indices)
        else:
            vector.maskedstore(self.buffer, indices, mask, value)

    def for_vectors(self, first: ir.Value, count: int, write: Callable[[ir.Value, ir.Value | None], None]) -> None:
        """Emit code for `count` vectors of channels; `write` takes the channel, and a mask where one is needed."""
        ragged = self.sizes[-1] % (count * self.lanes) != 0

        def step(number: ir.Value) -> None:
            channel = arith.addi(first, times(number, self.lanes))
            mask = None
            if ragged:
                left = arith.subi(index(self.sizes[-1]), channel)
                mask = vector.create_mask(vector_of(self.lanes, "i1"), [left])
            write(channel, mask)

        counted(count, step)


@dataclass(frozen=True)
class TileMatrices:
    """One matrix per pair (u, v), of tiles by channels, with a stride of an odd number of cache lines.

    With other strides, the writes of a tile would compete for a few sets of a cache.

    Attributes:
        buffer: Elements ``(pairs, elements of a matrix, padded)``.
        columns: Columns of a matrix.
    """

    buffer: ir.Value
    columns: int

    @classmethod
    def allocate(cls, pairs: int, tiles: int, columns: int) -> "TileMatrices":
        """Allocate the buffer at the insertion point."""
        lines = -(-tiles * columns // LINE) | 1
        buffer_type = ir.MemRefType.get([pairs, lines * LINE], ir.F32Type.get())
        return cls(memref.alloc(buffer_type, [], []), columns)

    def indices(self, pair: ir.Value, tile: ir.Value, column: ir.Value) -> list[ir.Value]:
        """Return the indices of an element."""
        return [pair, arith.addi(times(tile, self.columns), column)]
