"""Code for many rows by a weight in blocks, by tiles of bf16, on buffers: some columns are widened once for all rows.

    y[m, n] = sum over k of  bf16(x[m, k]) bf16(scale[n, k / block] q[n, k])

Sums of all of k stay in tiles, two of rows by two of columns, and are stored where they are wanted.
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

PAIR = 2  # tiles of a register tile, each way
LINE, FLOAT = 64, 4  # bytes


@dataclass(frozen=True)
class TiledResult:
    """Where sums go.

    Attributes:
        sums: Sums ``(m, n)``, f32.
        streams: Whether they are written past the caches, a truth value of the program; `None` where no schedule asks.
    """

    sums: ir.Value
    streams: ir.Value | None

    @classmethod
    def of(cls, sums: ir.Value, *, stream: bool) -> "TiledResult":
        """Read at the insertion point whether rows begin on cache lines, which a store past the caches wants."""
        strides, _ = ir.MemRefType(sums.type).get_strides_and_offset()
        if not stream or strides[0] % LANES:
            return cls(sums, None)
        base, offset = memref.extract_aligned_pointer_as_index(sums), memref.ExtractStridedMetadataOp(sums).offset
        base.owner.attributes[TILE] = ir.UnitAttr.get()  # nothing keeps hold of the memory
        first = arith.addi(base, arith.muli(offset, index(FLOAT)))
        within = arith.remui(first, index(LINE))
        return cls(sums, arith.cmpi(arith.CmpIPredicate.eq, within, index(0)))

    def finish(self) -> None:
        """Make what was written past the caches known to other threads."""
        if self.streams is not None:
            call_intrinsic("llvm.x86.sse.sfence", [])


@dataclass(frozen=True)
class ResultTile:
    """A tile of the result.

    Attributes:
        result: Buffer of the sums.
        offsets: Row and column that it begins at.
        height: Rows that are there.
        held: A tile that stands for one with fewer rows than others, or for one that is written past the caches.
    """

    result: TiledResult
    offsets: tuple[ir.Value, ir.Value]
    height: int
    held: ir.Value

    @property
    def is_held(self) -> bool:
        """Whether sums stand elsewhere before they are written."""
        return self.height < LANES or self.result.streams is not None

    def start(self) -> ir.Value:
        """A view of as many rows as others have, with what is in the result."""
        if self.height == LANES:
            return tile_of(self.result.sums, *self.offsets)

        def copy(row: ir.Value) -> None:
            values = vector.load(vector_of(LANES, "f32"), self.result.sums, self.line(row))
            vector.store(values, self.held, [row, index(0)])

        counted(self.height, copy)
        return tile_of(self.held, index(0), index(0))

    def end(self) -> ir.Value:
        """A view that sums are written to, before `finish`."""
        return tile_of(self.held, index(0), index(0)) if self.is_held else tile_of(self.result.sums, *self.offsets)

    def finish(self) -> None:
        """Write to the result what is held."""

        def copy(row: ir.Value, *, past: bool) -> None:
            values = vector.load(vector_of(LANES, "f32"), self.held, [row, index(0)])
            how = {"nontemporal": True, "alignment": LINE} if past else {}
            vector.store(values, self.result.sums, self.line(row), **how)

        if self.result.streams is None:
            counted(self.height if self.is_held else 0, partial(copy, past=False))
            return
        branch = scf.IfOp(self.result.streams, has_else=True)
        for block, past in ((branch.then_block, True), (branch.else_block, False)):
            with ir.InsertionPoint(block):
                counted(self.height, partial(copy, past=past))
                scf.yield_([])

    def line(self, row: ir.Value) -> list[ir.Value]:
        """Where a row of it begins."""
        return [arith.addi(self.offsets[0], row), self.offsets[1]]


@dataclass(frozen=True)
class DepthPiece:
    """Some tiles along k.

    Attributes:
        first: The first of them.
        end: The one behind the last.
        begins: Whether it is the first piece, a truth value of the program; `None` where there is one piece.
        ends: Whether it is the last, likewise.
    """

    first: ir.Value
    end: ir.Value
    begins: ir.Value | None
    ends: ir.Value | None


@dataclass(frozen=True)
class WidenedTiles:
    """All rows by some columns, a multiple of 16.

    All columns are widened of a piece of k of which L2 holds the activations. Two tiles of columns of a piece of that
    stay in L1 while activations of all rows stream by. Sums wait between pieces in a buffer of their own: rows of the
    result may lie a power of two of bytes apart, which caches hold few of.

    Attributes:
        operands: What is multiplied.
        x: Activations.
        unit: Whether the processor's unit computes it; else it is emulated.
        from_zero: Whether sums start from zero, a truth value of the program; `None` where they start from the result.
        lengths: Tiles along k of a piece for L2, and of a piece of that for L1, at most.
        stream: Whether results are written past the caches, where their rows begin on cache lines.
    """

    operands: BlockOperands
    x: RowWords
    unit: bool
    from_zero: ir.Value | None
    lengths: tuple[int, int]
    stream: bool

    def write(self) -> None:
        """All of it, at the insertion point."""
        depth, (longest, _) = self.x.depth_tiles, self.lengths
        panel = WidenedPanel.allocate(self.operands, depth, min(longest, depth))
        across = PAIR if self.operands.columns // LANES % PAIR == 0 else 1
        held = [[new_tile("f32") for _ in range(across)] for _ in range(PAIR)]
        result = TiledResult.of(self.operands.result, stream=self.stream)
        sums = RegisterTiles(self, panel, zero_tile("f32"), result, held, self.kept_sums())

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

    def kept_sums(self) -> ir.Value | None:
        """A buffer for sums between pieces, tiles of a tile of columns one after the other; `None` for one piece."""
        tiles = -(-self.operands.rows // LANES) * (self.operands.columns // LANES)
        kind = ir.MemRefType.get([tiles * LANES, LANES], ir.F32Type.get())
        return memref.alloc(kind, [], []) if self.x.depth_tiles > min(self.lengths) else None


@dataclass(frozen=True)
class RegisterTiles:
    """All rows by all columns of a panel, a tile or two each way at a time.

    Attributes:
        of: What they are part of.
        panel: The columns of the weight.
        zeros: A tile of zeros.
        result: Buffer of the sums.
        held: Tiles that stand for those of the result, by row and column.
        kept: Sums between pieces; `None` where there is one piece.
    """

    of: WidenedTiles
    panel: WidenedPanel
    zeros: ir.Value
    result: TiledResult
    held: list[list[ir.Value]]
    kept: ir.Value | None

    def write(self, first: ir.Value, end: ir.Value) -> None:
        """Products of the tiles along k that the panel holds, at the insertion point."""
        across = len(self.held[0])

        def write_columns(number: ir.Value) -> None:
            tile = arith.muli(number, index(across))
            columns = [arith.addi(tile, index(each)) for each in range(across)]
            self.in_pieces(first, end, lambda piece: self.write_piece(columns, piece, first))

        counted(self.of.operands.columns // LANES // across, write_columns)

    def in_pieces(self, first: ir.Value, end: ir.Value, write: Callable[[DepthPiece], None]) -> None:
        """Code for every piece of them that L1 is to hold."""
        depth, length = self.of.x.depth_tiles, min(self.of.lengths)
        if length >= depth:
            write(DepthPiece(first, end, None, None))
            return
        loop = scf.ForOp(first, end, index(length))
        with ir.InsertionPoint(loop.body):
            at = loop.induction_variable
            behind = arith.minui(arith.addi(at, index(length)), end)
            begins = arith.cmpi(arith.CmpIPredicate.eq, at, index(0))
            write(DepthPiece(at, behind, begins, arith.cmpi(arith.CmpIPredicate.eq, behind, index(depth))))
            scf.yield_([])

    def write_piece(self, columns: list[ir.Value], piece: DepthPiece, origin: ir.Value) -> None:
        """All rows by some columns; the panel begins at `origin`."""
        whole, left = divmod(self.of.operands.rows, LANES)

        def write(first: ir.Value, heights: list[int]) -> None:
            RowPair(self, columns, piece, origin, first, heights).write()

        counted(whole // PAIR, lambda pair: write(arith.muli(pair, index(PAIR)), [LANES] * PAIR))
        if rest := [*[LANES] * (whole % PAIR), *[left] * bool(left)]:
            write(index(whole // PAIR * PAIR), rest)


@dataclass(frozen=True)
class RowPair:
    """A register tile: one tile of rows or two, by as many of columns, of a piece of k.

    Attributes:
        of: What it is part of.
        columns: Tiles of columns.
        piece: Piece of k.
        origin: Tile along k that the panel begins at.
        first: First tile of rows.
        heights: Rows of each tile.
    """

    of: RegisterTiles
    columns: list[ir.Value]
    piece: DepthPiece
    origin: ir.Value
    first: ir.Value
    heights: list[int]

    def write(self) -> None:
        """All of it, at the insertion point."""
        of, by = self.of, Amx() if self.of.of.unit else Emulated("f32")
        rows = [arith.addi(self.first, index(number)) for number in range(len(self.heights))]
        found = [
            ResultTile(of.result, (arith.muli(row, index(LANES)), arith.muli(column, index(LANES))), height, held)
            for row, height, line in zip(rows, self.heights, of.held, strict=False)
            for column, held in zip(self.columns, line, strict=True)
        ]
        views = [each.start() for each in found]
        kept = [self.kept_tile(row, column) for row in rows for column in self.columns]
        ends = [chosen(self.piece.ends, each.end(), other) for each, other in zip(found, kept, strict=True)]
        for end in ends if of.result.streams is None else ():
            for row in range(LANES):
                fetch_for_writing(end, [index(row), index(0)])
        begins = self.piece.begins
        starts = [chosen(begins, self.start(view), other) for view, other in zip(views, kept, strict=True)]
        sums = self.sums(by, rows, [by.begin(each) for each in starts])
        for end, total in zip(ends, sums, strict=True):
            by.store(total, end)
        if self.piece.ends is None:
            self.finish(found)
        else:
            with ir.InsertionPoint(scf.IfOp(self.piece.ends).then_block):
                self.finish(found)
                scf.yield_([])

    def finish(self, tiles: list[ResultTile]) -> None:
        """Write to the result what stands elsewhere."""
        for each in tiles:
            each.finish()

    def kept_tile(self, row: ir.Value, column: ir.Value) -> ir.Value | None:
        """Where sums of a tile wait for the next piece."""
        if self.of.kept is None:
            return None
        tile = arith.addi(arith.muli(column, index(-(-self.of.of.operands.rows // LANES))), row)
        return tile_of(self.of.kept, arith.muli(tile, index(LANES)), index(0))

    def start(self, view: ir.Value) -> ir.Value:
        """What sums of a tile of the result begin with, a view."""
        return chosen(self.of.of.from_zero, tile_of(self.of.zeros, index(0), index(0)), view)

    def sums(self, by: TileUnit, rows: list[ir.Value], starts: list[ir.Value]) -> list[ir.Value]:
        """Tiles of sums, those of a tile of rows after the other."""
        x, panel = self.of.of.x, self.of.panel
        loop = scf.ForOp(self.piece.first, self.piece.end, index(1), starts if by.carries else [])
        with ir.InsertionPoint(loop.body):
            depth = loop.induction_variable
            found = list(loop.inner_iter_args) if by.carries else starts
            of_weight: dict[int, ir.Value] = {}
            for number, row in enumerate(rows):  # loads stand where they are needed first
                view = tile_of(x.words, arith.muli(row, index(LANES)), arith.muli(depth, index(LANES)))
                of_x = by.load(view, once=True)
                for which, tile in enumerate(self.columns):
                    if which not in of_weight:
                        line = panel.first_row(tile, arith.subi(depth, self.origin))
                        of_weight[which] = by.load(tile_of(panel.words, line, index(0)), once=False)
                    position = number * len(self.columns) + which
                    found[position] = by.dot("bf16", found[position], of_x, of_weight[which])
            scf.yield_(found if by.carries else [])
        return list(loop.results) if by.carries else starts


def chosen(which: ir.Value | None, view: ir.Value, other: ir.Value | None) -> ir.Value:
    """One of two views, by a truth value of the program; without one, or without the other view, whichever is left."""
    if which is None or other is None:
        return view if other is None else other
    kind = dynamic_strides(view)
    return arith.select(which, memref.cast(kind, view), memref.cast(kind, other))
