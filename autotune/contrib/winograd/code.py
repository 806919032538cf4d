"""Lowering of marked Winograd convolutions, on buffers.

    V[u v, tile, c] = B^T d B                                        all tiles of a block
    for a panel of filters:
      M[u v, tile, f] = sum over c of V[u v, tile, c] U[u v, c, f]   one product per pair (u, v), in register tiles
      y = A^T M A

Channels and filters lie along vectors, so that transforms add whole vectors. Tiles that would exceed the image are
shifted to end with it: the overlap is computed twice, with the same result.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

from mlir import ir
from mlir.dialects import arith, math, memref, scf, vector

from autotune.compiler.ir.loops import counted
from autotune.compiler.ir.values import index
from autotune.compiler.passes.marked_loops import marked, marked_numbers
from autotune.compiler.passes.prefetch import TO_L2
from autotune.compiler.passes.rolled_loops import keep_rolled
from autotune.compiler.passes.rounding import splat, vector_of
from autotune.contrib.winograd.line_transforms import Line, LineTransforms
from autotune.contrib.winograd.marks import LANES, LINES, MARK, ROWS, WIDTH
from autotune.contrib.winograd.planes import ImageBlock, TileMatrices, times
from autotune.contrib.winograd.transform import Filtering
from autotune.core.errors import CompileError

OPERANDS = 4  # input, kernel, transformed kernel, output


def write_winograd(module: ir.Module) -> None:
    """Lower every marked op.

    Raises:
        CompileError: Stage ``transform``; a schedule left an op that is not a block of a single image.
    """
    for op in marked(module.operation, MARK):
        with ir.InsertionPoint(op), op.location:
            Convolution.of(op).write()
        op.erase()


@dataclass(frozen=True)
class Workspace:
    """Buffers between the steps for some rows of tiles.

    Attributes:
        inputs: Transformed inputs.
        sums: Products with a panel of filters.
        transforms: Transforms and their factors.
    """

    inputs: TileMatrices
    sums: TileMatrices
    transforms: LineTransforms


@dataclass(frozen=True)
class Convolution:
    """A block of a convolution of one image.

    Attributes:
        filtering: Tile size.
        x: Inputs of the block, including its halo.
        taps: Transformed filters ``(u, v, channels, filters)``.
        y: Outputs.
        rows: Tiles per register tile.
        width: Filters per panel.
        lines: Rows of tiles that are transformed together.
    """

    filtering: Filtering
    x: ImageBlock
    taps: ir.Value
    y: ImageBlock
    rows: int
    width: int
    lines: int

    @classmethod
    def of(cls, op: ir.Operation) -> "Convolution":
        """Analyse a marked op.

        Raises:
            CompileError: Stage ``transform``; the op is not the stand-in for a convolution, or lacks a mark.
        """
        if len(op.operands) != OPERANDS:
            raise CompileError("transform", f"a convolution by Winograd's transform must have {OPERANDS} operands")
        outputs, rows, lanes, width, lines = marked_numbers(op, MARK, ROWS, LANES, WIDTH, LINES)
        x, _, taps, y = op.operands
        return cls(Filtering(outputs), ImageBlock(x, lanes), taps, ImageBlock(y, lanes), rows, width, lines)

    @property
    def lanes(self) -> int:
        """Elements of a vector."""
        return self.x.lanes

    @property
    def tiles(self) -> tuple[int, int]:
        """Numbers of tiles along rows and columns."""
        rows, columns, _ = self.y.sizes
        return -(-rows // self.filtering.outputs), -(-columns // self.filtering.outputs)

    def write(self) -> None:
        """Emit the whole convolution at the insertion point."""
        down, across = self.tiles
        count, lines = self.filtering.inputs**2, min(self.lines, down)
        workspace = Workspace(
            TileMatrices.allocate(count, lines * across, self.x.vectors * self.lanes),
            TileMatrices.allocate(count, lines * across, self.width),
            LineTransforms.allocate(self.filtering),
        )
        whole, left = divmod(down, lines)
        counted(whole, lambda part: self.write_lines(times(part, lines), lines, workspace))
        if left:
            self.write_lines(index(whole * lines), left, workspace)

    def write_lines(self, start: ir.Value, lines: int, workspace: Workspace) -> None:
        """Compute `lines` rows of tiles, starting at row `start`."""
        self.for_tiles(start, lines, partial(self.write_inputs, workspace))

        def panel(number: ir.Value) -> None:
            first = times(number, self.width)
            self.multiply(lines * self.tiles[1], workspace, first)
            self.for_tiles(start, lines, partial(self.write_outputs, workspace, first))

        counted(-(-self.y.sizes[-1] // self.width), panel)

    def for_tiles(self, start: ir.Value, lines: int, write: Callable[[ir.Value, ir.Value, ir.Value], None]) -> None:
        """Emit code for every tile of some rows; `write` takes its index among them, and its first row and column."""
        (_, across), size = self.tiles, self.filtering.outputs
        rows, columns, _ = self.y.sizes

        def line(row: ir.Value) -> None:
            top = arith.minui(times(arith.addi(start, row), size), index(rows - size))

            def tile(column: ir.Value) -> None:
                left = arith.minui(times(column, size), index(columns - size))
                write(arith.addi(times(row, across), column), top, left)

            counted(across, tile)

        counted(lines, line)

    def write_inputs(self, workspace: Workspace, tile: ir.Value, top: ir.Value, left: ir.Value) -> None:
        """Store B^T d B of a tile, for all channels."""
        side = range(self.filtering.inputs)
        rows, columns = ([arith.addi(first, index(each)) for each in side] for first in (top, left))

        def write(channel: ir.Value, mask: ir.Value | None) -> None:
            down = [
                workspace.transforms.inputs([self.x.load(row, column, channel, mask) for row in rows])
                for column in columns
            ]
            for u, line in enumerate(transposed(down)):
                for v, value in enumerate(workspace.transforms.inputs(line)):
                    pair = index(u * self.filtering.inputs + v)
                    vector.store(value, workspace.inputs.buffer, workspace.inputs.indices(pair, tile, channel))

        self.x.for_vectors(index(0), self.x.vectors, write)

    def multiply(self, tiles: int, workspace: Workspace, first: ir.Value) -> None:
        """Multiply `tiles` tiles with a panel of filters."""
        whole, left = divmod(tiles, self.rows)

        def pair(number: ir.Value) -> None:
            tile = TileProducts(self, workspace, number, first)
            counted(whole, lambda which: tile.write(times(which, self.rows), self.rows))
            if left:
                tile.write(index(whole * self.rows), left)

        counted(self.filtering.inputs**2, pair)

    def write_outputs(
        self, workspace: Workspace, first: ir.Value, tile: ir.Value, top: ir.Value, left: ir.Value
    ) -> None:
        """Store A^T M A of a tile, for a panel of filters."""
        side, outputs = range(self.filtering.inputs), range(self.filtering.outputs)

        def write(filter_: ir.Value, mask: ir.Value | None) -> None:
            column, down = arith.subi(filter_, first), []
            for v in side:
                indices = [workspace.sums.indices(index(u * len(side) + v), tile, column) for u in side]
                loaded = [vector.load(vector_of(self.lanes, "f32"), workspace.sums.buffer, at) for at in indices]
                down.append(workspace.transforms.outputs(loaded))
            for row, line in zip(outputs, transposed(down), strict=True):
                for column_, value in zip(outputs, workspace.transforms.outputs(line), strict=True):
                    position = (arith.addi(top, index(row)), arith.addi(left, index(column_)))
                    self.y.store(value, *position, filter_, mask)

        self.y.for_vectors(first, self.width // self.lanes, write)


@dataclass(frozen=True)
class TileProducts:
    """Products of some tiles with a panel of filters, for one pair (u, v).

    Attributes:
        convolution: Convolution that they belong to.
        workspace: Transformed inputs, and the destination of the products.
        pair: Index of the pair.
        first: First filter of the panel.
    """

    convolution: Convolution
    workspace: Workspace
    pair: ir.Value
    first: ir.Value

    def write(self, tile: ir.Value, rows: int) -> None:
        """Emit the products of `rows` tiles, starting at tile `tile`, at the insertion point."""
        lanes, side = self.convolution.lanes, self.convolution.filtering.inputs
        current_pair = self.indices(self.pair)
        next_pair = self.indices(arith.minui(arith.addi(self.pair, index(1)), index(side * side - 1)))
        lines = [arith.addi(tile, index(row)) for row in range(rows)]
        columns = [lanes * part for part in range(self.convolution.width // lanes)]
        filters = [arith.addi(self.first, index(column)) for column in columns]
        f32_vector = vector_of(lanes, "f32")
        starts = [splat(0, "f32", lanes)] * (rows * len(columns))
        loop = scf.ForOp(index(0), index(self.convolution.x.sizes[-1]), index(1), starts)
        keep_rolled(loop.operation)
        with ir.InsertionPoint(loop.body):
            channel, totals = loop.induction_variable, list(loop.inner_iter_args)
            taps = [
                vector.load(f32_vector, self.convolution.taps, [*current_pair, channel, filter_]) for filter_ in filters
            ]
            for filter_ in filters:  # the next pair's, which hardware prefetchers do not predict
                indices = [*next_pair, channel, filter_]
                memref.prefetch(self.convolution.taps, indices, is_write=False, locality_hint=TO_L2, is_data_cache=True)
            new_totals = []
            for row, line in enumerate(lines):
                element = memref.load(
                    self.workspace.inputs.buffer, self.workspace.inputs.indices(self.pair, line, channel)
                )
                spread = vector.broadcast(f32_vector, element)
                new_totals += [math.fma(spread, tap, totals[row * len(taps) + n]) for n, tap in enumerate(taps)]
            scf.yield_(new_totals)
        for (line, column), total in zip(product(lines, columns), loop.results, strict=True):
            vector.store(total, self.workspace.sums.buffer, self.workspace.sums.indices(self.pair, line, index(column)))

    def indices(self, pair: ir.Value) -> list[ir.Value]:
        """Return the indices (u, v) of a pair."""
        side = index(self.convolution.filtering.inputs)
        return [arith.divui(pair, side), arith.remui(pair, side)]


def transposed(square: Sequence[Line]) -> list[Line]:
    """Transpose a square of vectors."""
    return [list(line) for line in zip(*square, strict=True)]
