"""What the code of a convolution reads and writes: blocks of images, and matrices of transformed tiles."""

from collections.abc import Callable
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, memref, vector

from autotune.compiler.ir.loops import counted
from autotune.compiler.ir.values import index
from autotune.compiler.passes.rounding import shape_of, splat, vector_of
from autotune.core.errors import CompileError

PLANE = 3  # dimensions: rows, columns, channels
LINE = 16  # elements of a cache line


def times(value: ir.Value, factor: int) -> ir.Value:
    """A multiple of an index."""
    return arith.muli(value, index(factor))


@dataclass(frozen=True)
class ImageBlock:
    """A buffer whose last three dimensions are a block of a plane with channels last; those before are of one step.

    Attributes:
        buffer: The buffer.
        lanes: Elements of a vector.
    """

    buffer: ir.Value
    lanes: int

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Rows, columns, channels.

        Raises:
            CompileError: There are several images.
        """
        *lead, rows, columns, channels = shape_of(self.buffer)
        if any(size != 1 for size in lead):
            raise CompileError("transform", f"a block must be of one image, its sizes are {shape_of(self.buffer)}")
        return rows, columns, channels

    @property
    def vectors(self) -> int:
        """Vectors of the channels of a position, the last maybe filled in part."""
        return -(-self.sizes[-1] // self.lanes)

    def indices(self, row: ir.Value, column: ir.Value, channel: ir.Value) -> list[ir.Value]:
        """Indices of an element."""
        return [*[index(0)] * (len(shape_of(self.buffer)) - PLANE), row, column, channel]

    def load(self, row: ir.Value, column: ir.Value, channel: ir.Value, mask: ir.Value | None) -> ir.Value:
        """A vector; zeros beyond the channels."""
        indices, kind = self.indices(row, column, channel), vector_of(self.lanes, "f32")
        if mask is None:
            return vector.load(kind, self.buffer, indices)
        return vector.maskedload(kind, self.buffer, indices, mask, splat(0, "f32", self.lanes))

    def store(self, value: ir.Value, row: ir.Value, column: ir.Value, channel: ir.Value, mask: ir.Value | None) -> None:
        """Write a vector, as far as there are channels."""
        indices = self.indices(row, column, channel)
        if mask is None:
            vector.store(value, self.buffer, indices)
        else:
            vector.maskedstore(self.buffer, indices, mask, value)

    def for_vectors(self, first: ir.Value, count: int, write: Callable[[ir.Value, ir.Value | None], None]) -> None:
        """Code for some vectors of channels from one on: `write` is given the channel, and a mask where needed."""
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
    """A matrix for each pair (u, v), with tiles as rows and channels as columns, an odd number of cache lines apart.

    Else all that a tile writes would share a few sets of a cache.

    Attributes:
        buffer: Elements ``(pairs, elements of a matrix and more)``.
        columns: Columns of a matrix.
    """

    buffer: ir.Value
    columns: int

    @classmethod
    def allocate(cls, pairs: int, tiles: int, columns: int) -> "TileMatrices":
        """A buffer, at the insertion point."""
        lines = -(-tiles * columns // LINE) | 1
        kind = ir.MemRefType.get([pairs, lines * LINE], ir.F32Type.get())
        return cls(memref.alloc(kind, [], []), columns)

    def indices(self, pair: ir.Value, tile: ir.Value, column: ir.Value) -> list[ir.Value]:
        """Indices of an element."""
        return [pair, arith.addi(times(tile, self.columns), column)]
