"""Lower products of many rows with a block-quantized weight to bf16 tiles, on buffers, widening columns once.

    y[m, n] = sum over k of  bf16(x[m, k]) bf16(scale[n, k / block] q[n, k])

Sums over the whole of k stay in tiles, two by two in rows and columns, and are then stored to the result.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from mlir import ir
from mlir.dialects import arith, memref, scf, vector

from autotune.compiler.ir.loops import counted
from autotune.compiler.ir.values import index
from autotune.compiler.passes.rounding import call_intrinsic, vector_of
from autotune.compiler.passes.tiles import Amx, Emulated, TileUnit, dynamic_strides, new_tile, tile_of, zero_tile
from autotune.contrib.quantised.block_operands import BlockOperands
from autotune.contrib.quantised.block_steps import LANES
from autotune.contrib.quantised.loads import fetch_for_writing
from autotune.contrib.quantised.widened_words import RowWords, WidenedPanel
from autotune.core.scripts.marks import TILE

PAIR = 2  # tiles per register tile in each direction
LINE, FLOAT = 64, 4  # bytes


@dataclass(frozen=True)
class TiledResult:
    """Destination of the sums.

    Attributes:
        sums: Sums ``(m, n)``, f32.
        streams: Whether to use non-temporal stores, an i1 value of the program; `None` if the schedule does not ask for
            it.
    """

    sums: ir.Value
    streams: ir.Value | None

    @classmethod
    def of(cls, sums: ir.Value, *, stream: bool) -> "TiledResult":
        """Emit the check that rows are aligned to cache lines, as non-temporal stores require."""
        strides, _ = ir.MemRefType(sums.type).get_strides_and_offset()
        if not stream or strides[0] % LANES:
            return cls(sums, None)
        base, offset = memref.extract_aligned_pointer_as_index(sums), memref.ExtractStridedMetadataOp(sums).offset
        base.owner.attributes[TILE] = ir.UnitAttr.get()  # marks that the pointer does not escape
        first = arith.addi(base, arith.muli(offset, index(FLOAT)))
        misalignment = arith.remui(first, index(LINE))
        return cls(sums, arith.cmpi(arith.CmpIPredicate.eq, misalignment, index(0)))

    def finish(self) -> None:
        """Emit the fence that makes non-temporal stores visible to other threads."""
        if self.streams is not None:
            call_intrinsic("llvm.x86.sse.sfence", [])


@dataclass(frozen=True)
class ResultTile:
    """A tile of the result.

    Attributes:
        result: Buffer of the sums.
        offsets: Row and column of its first element.
        height: Number of valid rows.
        scratch: Temporary tile, used if the tile is not full or if it is stored non-temporally.
    """

    result: TiledResult
    offsets: tuple[ir.Value, ir.Value]
    height: int
    scratch: ir.Value

    @property
    def uses_scratch(self) -> bool:
        """Whether sums are stored to the temporary tile first."""
        return self.height < LANES or self.result.streams is not None

    def start(self) -> ir.Value:
        """Return a full-height view of the tile's current contents, copied to the temporary tile if it is not full."""
        if self.height == LANES:
            return tile_of(self.result.sums, *self.offsets)

        def copy(row: ir.Value) -> None:
            values = vector.load(vector_of(LANES, "f32"), self.result.sums, self.line(row))
            vector.store(values, self.scratch, [row, index(0)])

        counted(self.height, copy)
        return tile_of(self.scratch, index(0), index(0))

    def end(self) -> ir.Value:
        """Return the view that sums are stored to before `finish`."""
        return (
            tile_of(self.scratch, index(0), index(0)) if self.uses_scratch else tile_of(self.result.sums, *self.offsets)
        )

    def finish(self) -> None:
        """Copy the temporary tile to the result, if it is used."""

        def copy(row: ir.Value, *, past: bool) -> None:
            values = vector.load(vector_of(LANES, "f32"), self.scratch, [row, index(0)])
            attributes = {"nontemporal": True, "alignment": LINE} if past else {}
            vector.store(values, self.result.sums, self.line(row), **attributes)

        if self.result.streams is None:
            counted(self.height if self.uses_scratch else 0, partial(copy, past=False))
            return
        branch = scf.IfOp(self.result.streams, has_else=True)
        for block, past in ((branch.then_block, True), (branch.else_block, False)):
            with ir.InsertionPoint(block):
                counted(self.height, partial(copy, past=past))
                scf.yield_([])

    def line(self, row: ir.Value) -> list[ir.Value]:
        """Return the indices of the first element of a row."""
        return [arith.addi(self.offsets[0], row), self.offsets[1]]


@dataclass(frozen=True)
class DepthPiece:
    """A range of tiles along k.

    Attributes:
        first: First tile.
        end: End of the range, exclusive.
        begins: Whether it is the first piece, an i1 value of the program; `None` if there is a single piece.
        ends: Whether it is the last piece, likewise.
    """

    first: ir.Value
    end: ir.Value
    begins: ir.Value | None
    ends: ir.Value | None


@dataclass(frozen=True)
class WidenedTiles:
    """Product of all rows with a tile of columns, a multiple of 16.

    All columns are widened for a piece of k whose activations fit L2. Two tiles of columns of a smaller piece stay in
    L1 while the activations of all rows stream by. Between pieces, sums are kept in a separate buffer: rows of the
    result may have a stride of a power of two, of which caches hold only few lines.

    Attributes:
        operands: Operands of the product.
        x: Activations.
        unit: Whether to use the processor's matrix unit; otherwise it is emulated.
        from_zero: Whether sums start from zero, an i1 value of the program; `None` if they start from the result.
        lengths: Maximum length in tiles along k of a piece for L2, and of a piece for L1.
        stream: Whether to use non-temporal stores where rows of the result are aligned to cache lines.
    """

    operands: BlockOperands
    x: RowWords
    unit: bool
    from_zero: ir.Value | None
    lengths: tuple[int, int]
    stream: bool

    def write(self) -> None:
        """Emit the whole product at the insertion point."""
        depth, (longest, _) = self.x.depth_tiles, self.lengths
        panel = WidenedPanel.allocate(self.operands, depth, min(longest, depth))
        across = PAIR if self.operands.columns // LANES % PAIR == 0 else 1
        temporaries = [[new_tile("f32") for _ in range(across)] for _ in range(PAIR)]
        result = TiledResult.of(self.operands.result, stream=self.stream)
        sums = RegisterTiles(self, panel, zero_tile("f32"), result, temporaries, self.allocate_partial_sums())

        def write_piece(first: ir.Value, end: ir.Value) -> None:
            panel.write(first, end)
            sums.write(first, end)

        if longest >= depth:
            write_piece(index(0), index(depth))
        else:
            loop = scf.ForOp(index(0), index(depth), index(longest))
            with ir.InsertionPoint(loop.body):
                first = loop.induction_variable
                write_piece(first, arith.minui(arith.addi(first, index(longest)), index(depth)))
                scf.yield_([])
        result.finish()

    def allocate_partial_sums(self) -> ir.Value | None:
        """Allocate the buffer for sums between pieces, ordered by column tiles; `None` if there is a single piece."""
        tiles = -(-self.operands.rows // LANES) * (self.operands.columns // LANES)
        sums_type = ir.MemRefType.get([tiles * LANES, LANES], ir.F32Type.get())
        return memref.alloc(sums_type, [], []) if self.x.depth_tiles > min(self.lengths) else None


@dataclass(frozen=True)
class RegisterTiles:
    """Products of all rows with all columns of a panel, one register tile at a time.

    Attributes:
        of: Product that they belong to.
        panel: Widened columns of the weight.
        zeros: A tile of zeros.
        result: Destination of the sums.
        scratch: Temporary tiles of the result, by row and column.
        partial_sums: Buffer for sums between pieces; `None` if there is a single piece.
    """

    of: WidenedTiles
    panel: WidenedPanel
    zeros: ir.Value
    result: TiledResult
    scratch: list[list[ir.Value]]
    partial_sums: ir.Value | None

    def write(self, first: ir.Value, end: ir.Value) -> None:
        """Emit the products of the tiles along k that the panel holds, at the insertion point."""
        across = len(self.scratch[0])

        def write_columns(number: ir.Value) -> None:
            tile = arith.muli(number, index(across))
            columns = [arith.addi(tile, index(each)) for each in range(across)]
            self.in_pieces(first, end, lambda piece: self.write_piece(columns, piece, first))

        counted(self.of.operands.columns // LANES // across, write_columns)

    def in_pieces(self, first: ir.Value, end: ir.Value, write: Callable[[DepthPiece], None]) -> None:
        """Emit code for every piece of the panel that L1 holds."""
        depth, length = self.of.x.depth_tiles, min(self.of.lengths)
        if length >= depth:
            write(DepthPiece(first, end, None, None))
            return
        loop = scf.ForOp(first, end, index(length))
        with ir.InsertionPoint(loop.body):
            at = loop.induction_variable
            piece_end = arith.minui(arith.addi(at, index(length)), end)
            begins = arith.cmpi(arith.CmpIPredicate.eq, at, index(0))
            write(DepthPiece(at, piece_end, begins, arith.cmpi(arith.CmpIPredicate.eq, piece_end, index(depth))))
            scf.yield_([])

    def write_piece(self, columns: list[ir.Value], piece: DepthPiece, origin: ir.Value) -> None:
        """Multiply all rows by some columns; the panel begins at tile `origin` along k."""
        whole, left = divmod(self.of.operands.rows, LANES)

        def write(first: ir.Value, heights: list[int]) -> None:
            RowPair(self, columns, piece, origin, first, heights).write()

        counted(whole // PAIR, lambda pair: write(arith.muli(pair, index(PAIR)), [LANES] * PAIR))
        if rest := [*[LANES] * (whole % PAIR), *[left] * bool(left)]:
            write(index(whole // PAIR * PAIR), rest)


@dataclass(frozen=True)
class RowPair:
    """A register tile: one or two tiles of rows by as many tiles of columns, for a piece of k.

    Attributes:
        of: Products that it belongs to.
        columns: Tiles of columns.
        piece: Piece of k.
        origin: Tile along k that the panel begins at.
        first: First tile of rows.
        heights: Number of valid rows of each tile.
    """

    of: RegisterTiles
    columns: list[ir.Value]
    piece: DepthPiece
    origin: ir.Value
    first: ir.Value
    heights: list[int]

    def write(self) -> None:
        """Emit the products at the insertion point."""
        of, matrix_unit = self.of, Amx() if self.of.of.unit else Emulated("f32")
        rows = [arith.addi(self.first, index(number)) for number in range(len(self.heights))]
        tiles = [
            ResultTile(of.result, (arith.muli(row, index(LANES)), arith.muli(column, index(LANES))), height, temporary)
            for row, height, line in zip(rows, self.heights, of.scratch, strict=False)
            for column, temporary in zip(self.columns, line, strict=True)
        ]
        views = [tile.start() for tile in tiles]
        partial_sums = [self.partial_sums_of(row, column) for row in rows for column in self.columns]
        ends = [chosen(self.piece.ends, tile.end(), partial) for tile, partial in zip(tiles, partial_sums, strict=True)]
        for end in ends if of.result.streams is None else ():
            for row in range(LANES):
                fetch_for_writing(end, [index(row), index(0)])
        begins = self.piece.begins
        starts = [chosen(begins, self.start(view), partial) for view, partial in zip(views, partial_sums, strict=True)]
        sums = self.sums(matrix_unit, rows, [matrix_unit.begin(start) for start in starts])
        for end, total in zip(ends, sums, strict=True):
            matrix_unit.store(total, end)
        if self.piece.ends is None:
            self.finish(tiles)
        else:
            with ir.InsertionPoint(scf.IfOp(self.piece.ends).then_block):
                self.finish(tiles)
                scf.yield_([])

    def finish(self, tiles: list[ResultTile]) -> None:
        """Copy temporary tiles to the result."""
        for tile in tiles:
            tile.finish()

    def partial_sums_of(self, row: ir.Value, column: ir.Value) -> ir.Value | None:
        """Return the view of a tile's sums between pieces; `None` if there is a single piece."""
        if self.of.partial_sums is None:
            return None
        tile = arith.addi(arith.muli(column, index(-(-self.of.of.operands.rows // LANES))), row)
        return tile_of(self.of.partial_sums, arith.muli(tile, index(LANES)), index(0))

    def start(self, view: ir.Value) -> ir.Value:
        """Return the view of the initial sums of a tile."""
        return chosen(self.of.of.from_zero, tile_of(self.of.zeros, index(0), index(0)), view)

    def sums(self, by: TileUnit, rows: list[ir.Value], starts: list[ir.Value]) -> list[ir.Value]:
        """Return the tiles of sums after a piece of k, in row-major order."""
        x, panel = self.of.of.x, self.of.panel
        loop = scf.ForOp(self.piece.first, self.piece.end, index(1), starts if by.carries else [])
        with ir.InsertionPoint(loop.body):
            depth = loop.induction_variable
            sums = list(loop.inner_iter_args) if by.carries else starts
            of_weight: dict[int, ir.Value] = {}
            for number, row in enumerate(rows):  # loads are emitted just before their first use
                view = tile_of(x.words, arith.muli(row, index(LANES)), arith.muli(depth, index(LANES)))
                of_x = by.load(view, once=True)
                for which, tile in enumerate(self.columns):
                    if which not in of_weight:
                        line = panel.first_row(tile, arith.subi(depth, self.origin))
                        of_weight[which] = by.load(tile_of(panel.words, line, index(0)), once=False)
                    position = number * len(self.columns) + which
                    sums[position] = by.dot("bf16", sums[position], of_x, of_weight[which])
            scf.yield_(sums if by.carries else [])
        return list(loop.results) if by.carries else starts


def chosen(which: ir.Value | None, view: ir.Value, other: ir.Value | None) -> ir.Value:
    """Select one of two views by an i1 value of the program; without a condition or a second view, return the other."""
    if which is None or other is None:
        return view if other is None else other
    view_type = dynamic_strides(view)
    return arith.select(which, memref.cast(view_type, view), memref.cast(view_type, other))
