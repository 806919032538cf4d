"""Code for products of words by a matrix unit, on buffers: register tiles that are tiles of AMX, eight at most.

    for k in steps of 16:  C[i : i + 16, j : j + 16] += A[i : i + 16, k : k + 16] * B[k : k + 16, j : j + 16]

A tile is 16 rows of 16 words. Its four operations have two lowerings: instructions, by intrinsics that LLVM gives their
registers (``tileloadd``, ``tdpbf16ps``, ``tdpbssd``, ``tilestored``), and loops over vectors that give the same bits.

Every tile is whole, so that all have one shape: LLVM configures the unit once a function. Rows that are left over are
copied into a tile in L1 before each product; columns that are left over are there in B, whose panels are whole, and
what is computed of them is not stored.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, func, llvm, math, memref, scf, vector

from autotune.compiler.ir.loops import counted
from autotune.compiler.ir.module import symbol
from autotune.compiler.ir.values import index
from autotune.compiler.passes.marked_loops import mark_hidden
from autotune.compiler.passes.rounding import LANES, call_intrinsic, first_of, shape_of, splat, vector_of, widened
from autotune.core.host.matrix_unit import ROWS
from autotune.core.precision import Precision
from autotune.core.scripts.marks import TILE

WORD = 4  # bytes
FUNCTION = "__autotune_tile"  # begin of the names of functions that emulate the unit
DOTS = {"bf16": "llvm.x86.tdpbf16ps.internal", "i8": "llvm.x86.tdpbssd.internal"}  # by the type of a value
EXPONENT, SIGN, UPPER = 0x7F800000, -0x80000000, -0x10000  # bits of an f32, and those of the second bf16 of a word
SMALLEST = 2.0**-126  # of the numbers that the unit does not take for zero


def tile_of(source: ir.Value, row: ir.Value, column: ir.Value) -> ir.Value:
    """A tile of a buffer of two dimensions, as a view."""
    return view_of(source, [row, column], [ROWS, LANES], [1, 1])


def view_of(source: ir.Value, offsets: Sequence[ir.Value], sizes: Sequence[int], steps: Sequence[int]) -> ir.Value:
    """A tile of a buffer as a view of two dimensions: those along which it has more than one element."""
    kind, dynamic = ir.MemRefType(source.type), ir.ShapedType.get_dynamic_stride_or_offset()
    strides, _ = kind.get_strides_and_offset()
    kept = [dim for dim in range(len(sizes)) if sizes[dim] > 1]
    layout = ir.StridedLayoutAttr.get(dynamic, [strides[dim] * steps[dim] for dim in kept])
    view = ir.MemRefType.get([sizes[dim] for dim in kept], kind.element_type, layout, kind.memory_space)
    nowhere = [dynamic] * len(sizes)
    return memref.SubViewOp(view, source, list(offsets), [], [], nowhere, list(sizes), list(steps)).result


def new_tile(element: str) -> ir.Value:
    """A buffer of a tile, of 16 rows of 16 elements."""
    return memref.alloc(ir.MemRefType.get([ROWS, LANES], ir.Type.parse(element)), [], [])


def zero_tile(element: str) -> ir.Value:
    """The same, of zeros."""
    tile = new_tile(element)
    counted(ROWS, lambda row: vector.store(splat(0, element), tile, [row, index(0)]))
    return tile


@dataclass(frozen=True)
class Amx:
    """Tiles in the registers of AMX.

    Attributes:
        carries: Whether a tile of C is a new value after every product, so that loops carry it.
    """

    carries: bool = True

    def zero(self) -> ir.Value:
        """``tilezero``: a tile of C."""
        return call_intrinsic("llvm.x86.tilezero.internal", [self.kind], *self.shape(2))[0]

    def begin(self, view: ir.Value) -> ir.Value:
        """``tileloadd``: a tile of C, of what lies at a view."""
        return self.load(view, once=False)

    def load(self, view: ir.Value, *, once: bool) -> ir.Value:
        """``tileloadd``, or ``tileloaddt1`` of a tile of words that is read once, and should leave others in L1."""
        name = f"llvm.x86.tileloadd{'t1' * once}64.internal"
        return call_intrinsic(name, [self.kind], *self.shape(2), *address(view))[0]

    def dot(self, element: str, c: ir.Value, a: ir.Value, b: ir.Value) -> ir.Value:
        """``tdpbf16ps`` or ``tdpbssd``."""
        return call_intrinsic(DOTS[element], [self.kind], *self.shape(3), c, a, b)[0]

    def store(self, c: ir.Value, view: ir.Value) -> None:
        """``tilestored``."""
        call_intrinsic("llvm.x86.tilestored64.internal", [], *self.shape(2), *address(view), c)

    @property
    def kind(self) -> ir.Type:
        """Type of a tile."""
        return ir.Type.parse("!llvm.x86_amx")

    def shape(self, count: int) -> Iterator[ir.Value]:
        """Rows of a tile and bytes of a row, these once or twice: the unit wants constants."""
        short = ir.IntegerType.get_signless(16)
        for size in (ROWS, LANES * WORD, LANES * WORD)[:count]:
            yield arith.constant(short, ir.IntegerAttr.get(short, size))


def address(view: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Where a view begins, and bytes from one of its rows to the next."""
    long, metadata = ir.IntegerType.get_signless(64), memref.ExtractStridedMetadataOp(view)
    offset, stride = metadata.offset, metadata.strides[0]
    first = memref.extract_aligned_pointer_as_index(view)
    first.owner.attributes[TILE] = ir.UnitAttr.get()
    start = arith.index_cast(long, arith.addi(first, arith.muli(offset, index(WORD))))
    pointer = llvm.inttoptr(ir.Type.parse("!llvm.ptr"), start)
    return pointer, arith.index_cast(long, arith.muli(stride, index(WORD)))


@dataclass(frozen=True)
class Emulated:
    """Tiles in memory: a tile of A or B is where it lies, and one of C a buffer of its own."""

    element: str
    carries: bool = False

    def zero(self) -> ir.Value:
        """A buffer of zeros."""
        return zero_tile(self.element)

    def begin(self, view: ir.Value) -> ir.Value:
        """A buffer with a copy."""
        tile = new_tile(self.element)
        self.store(view, tile)
        return tile

    def load(self, view: ir.Value, *, once: bool) -> ir.Value:
        """The view."""
        return view

    def dot(self, element: str, c: ir.Value, a: ir.Value, b: ir.Value) -> ir.Value:
        """A call of a function that adds to C: one a module, since LLVM would unroll its loops wherever they stand."""
        views = [memref.cast(dynamic_strides(operand), operand) for operand in (a, b)]
        kinds = [c.type, *(view.type for view in views)]
        name, whole = f"{FUNCTION}_{element}", module_around(c)
        if name not in {symbol(op) for op in whole.body.operations}:
            with ir.InsertionPoint(whole.body):
                self.write_function(name, kinds, element)
        func.CallOp([], name, [c, *views]).operation.attributes[TILE] = ir.UnitAttr.get()
        return c

    def write_function(self, name: str, kinds: list[ir.Type], element: str) -> None:
        """Loops over rows of A and its words, in the order that the unit sums in."""
        function = func.FuncOp(name, (kinds, []), visibility="private")
        function.attributes["passthrough"] = ir.ArrayAttr.get([ir.StringAttr.get("noinline")])
        with ir.InsertionPoint(function.add_entry_block()):
            c, a, b = function.arguments
            step = self.integers if element == "i8" else self.floats

            def write(row: ir.Value) -> None:
                old = vector.load(vector_of(LANES, self.element), c, [row, index(0)])
                vector.store(step(row, old, a, b), c, [row, index(0)])

            counted(ROWS, write)
            func.ReturnOp([])

    def words(self, row: ir.Value, k: ir.Value, a: ir.Value, b: ir.Value) -> tuple[ir.Value, ir.Value]:
        """A word of A in all lanes, and the words of B that it meets."""
        kind = vector_of(LANES, "i32")
        return vector.broadcast(kind, memref.load(a, [row, k])), vector.load(kind, b, [k, index(0)])

    def integers(self, row: ir.Value, old: ir.Value, a: ir.Value, b: ir.Value) -> ir.Value:
        """A row of sums of products of int8, both with a sign."""
        loop = scf.ForOp(index(0), index(LANES), index(1), [old])
        with ir.InsertionPoint(loop.body):
            total = loop.inner_iter_args[0]
            words = self.words(row, loop.induction_variable, a, b)
            for shift in (24, 16, 8, 0):
                x, y = (arith.shrsi(arith.shli(word, splat(shift, "i32")), splat(24, "i32")) for word in words)
                total = arith.addi(total, arith.muli(x, y))
            scf.yield_([total])
        return loop.results[0]

    def floats(self, row: ir.Value, old: ir.Value, a: ir.Value, b: ir.Value) -> ir.Value:
        """A row of sums of products of bf16: those of first values, those of second ones, their sum, and then C.

        The unit takes numbers below the smallest normal one for zero, and rounds to nearest whatever the mode.
        """
        zero = splat(0, "f32")
        loop = scf.ForOp(index(0), index(LANES), index(1), [zero, zero])
        with ir.InsertionPoint(loop.body):
            words = self.words(row, loop.induction_variable, a, b)
            first = [flushed_bits(arith.shli(word, splat(16, "i32"))) for word in words]
            second = [flushed_bits(arith.andi(word, splat(UPPER, "i32"))) for word in words]
            sums = [
                flushed(math.fma(*of_both, total))
                for of_both, total in zip((first, second), loop.inner_iter_args, strict=True)
            ]
            scf.yield_(sums)
        return flushed(arith.addf(old, flushed(arith.addf(*loop.results))))

    def store(self, c: ir.Value, view: ir.Value) -> None:
        """A copy."""

        def copy(row: ir.Value) -> None:
            indices = [row, index(0)]
            vector.store(vector.load(vector_of(LANES, self.element), c, indices), view, indices)

        counted(ROWS, copy)


# What multiplies tiles: a tile of A or B is whatever `load` gives, one of C whatever `zero` does.
TileUnit = Amx | Emulated


def dynamic_strides(view: ir.Value) -> ir.MemRefType:
    """A view's type with a dynamic offset and row stride."""
    kind, unknown = ir.MemRefType(view.type), ir.ShapedType.get_dynamic_stride_or_offset()
    layout = ir.StridedLayoutAttr.get(unknown, [unknown, 1])
    return ir.MemRefType.get(list(kind.shape), kind.element_type, layout, kind.memory_space)


def module_around(value: ir.Value) -> ir.Module:
    """The module that a value is in."""
    op = value.owner.operation
    while op.name != "builtin.module":
        op = op.parent.operation
    return op.opview


def flushed_bits(bits: ir.Value) -> ir.Value:
    """Numbers of f32, given as bits; those below the smallest normal one as zeros of their sign."""
    exponent = arith.andi(bits, splat(EXPONENT, "i32"))
    small = arith.cmpi(arith.CmpIPredicate.eq, exponent, splat(0, "i32"))
    kept = arith.select(small, arith.andi(bits, splat(SIGN, "i32")), bits)
    return arith.bitcast(vector_of(LANES, "f32"), kept)


def flushed(values: ir.Value) -> ir.Value:
    """Numbers of f32 as `flushed_bits` has them."""
    return flushed_bits(arith.bitcast(vector_of(LANES, "i32"), values))


Load = Callable[[int, ir.Value], ir.Value]  # of a tile's first row or column, and its first word


@dataclass(frozen=True)
class TileLoop:
    """The loop over words of a register tile, a tile of them at a time.

    Attributes:
        by: What multiplies.
        precision: Precision of the words.
        words: Words of a part.
        starts: First row and column of every tile of C.
        hidden: Whether a causal mask hides the last of A's columns, which may be left out.
    """

    by: TileUnit
    precision: Precision
    words: int
    starts: Sequence[tuple[int, int]]
    hidden: bool = False

    def write(self, begin: list[ir.Value], load_a: Load, load_b: Load) -> list[ir.Value]:
        """Tiles of C with all products more, at the insertion point.

        Args:
            begin: Tiles of C before.
            load_a: Loads a tile of A, by its first row and word.
            load_b: Loads a tile of B, by its first column and word.
        """
        loop = scf.ForOp(index(0), index(self.words), index(ROWS), begin if self.by.carries else [])
        mark_hidden(loop, self.precision.values, is_hidden=self.hidden)
        with ir.InsertionPoint(loop.body):
            sums = list(loop.inner_iter_args) if self.by.carries else [*begin]
            of_a: dict[int, ir.Value] = {}
            of_b: dict[int, ir.Value] = {}
            before = (-1, -1)  # of products that follow each other one operand is the same, and stays loaded
            for parts in self.precision.products:
                k_of_a, k_of_b = (arith.addi(loop.induction_variable, index(part * self.words)) for part in parts)
                of_a, of_b = of_a if parts[0] == before[0] else {}, of_b if parts[1] == before[1] else {}
                before = parts
                for number, (row, column) in enumerate(self.starts):  # loads stand where they are needed first
                    if row not in of_a:
                        of_a[row] = load_a(row, k_of_a)
                    if column not in of_b:
                        of_b[column] = load_b(column, k_of_b)
                    sums[number] = self.by.dot(self.precision.element, sums[number], of_a[row], of_b[column])
            scf.yield_(sums if self.by.carries else [])
        return list(loop.results) if self.by.carries else begin


@dataclass(frozen=True)
class TileProduct:
    """One register tile: all its sums stay in tiles.

    Attributes:
        precision: Precision of the words.
        a: Words of A's rows (m, words).
        b: Words of B's columns (words, n), which may be loaded from beyond n up to whole tiles.
        c: Buffer of the tile's results (m, n), f32, or i32 where they are exact.
        unit: Whether the processor's unit computes it; else it is emulated.
        hidden: Whether a causal mask hides the last of A's columns, which may be left out.
    """

    precision: Precision
    a: ir.Value
    b: ir.Value
    c: ir.Value
    unit: bool
    hidden: bool

    def write(self) -> None:
        """All of it, at the insertion point."""
        rows, columns = shape_of(self.c)
        starts = [(row, column) for row in range(0, rows, ROWS) for column in range(0, columns, LANES)]
        by = Amx() if self.unit else Emulated(self.precision.sums)
        left = rows % ROWS
        rest = zero_tile("i32") if left else None  # rows that it has too many stay zero
        zeros = [by.zero() for _ in starts]
        words = (shape_of(self.b)[0] - self.precision.extra) // self.precision.parts
        a_streams, b_streams = self.streams()

        def load_a(row: int, k: ir.Value) -> ir.Value:
            return by.load(self.tile_of_a(row, k, rest, left), once=a_streams)

        def load_b(column: int, k: ir.Value) -> ir.Value:
            return by.load(self.tile_of_b(k, column), once=b_streams)

        sums = TileLoop(by, self.precision, words, starts, self.hidden).write(zeros, load_a, load_b)
        for (row, column), c in zip(starts, sums, strict=True):
            self.store(by, c, row, column)

    def streams(self) -> tuple[bool, bool]:
        """Whether A is another one in every step of the innermost loop around, and whether B is; never both.

        The panel that stays the same is to stay in L1, which the other one would drive it out of.
        """
        around = loop_around()
        if around is None:
            return False, False
        a_moves, b_moves = (moves_with(operand, around) for operand in (self.a, self.b))
        return a_moves and not b_moves, b_moves and not a_moves

    def tile_of_a(self, row: int, k: ir.Value, rest: ir.Value | None, left: int) -> ir.Value:
        """Words of A; of rows that are left over, a copy."""
        if rest is None or row + ROWS <= shape_of(self.a)[0]:
            return tile_of(self.a, index(row), k)

        def copy(number: ir.Value) -> None:
            line = vector.load(vector_of(LANES, "i32"), self.a, [arith.addi(number, index(row)), k])
            vector.store(line, rest, [number, index(0)])

        counted(left, copy)
        return tile_of(rest, index(0), index(0))

    def tile_of_b(self, k: ir.Value, column: int) -> ir.Value:
        """Words of B, all columns of a tile: `panel_loads.py` finds them in panels."""
        view = tile_of(self.b, k, index(column))
        view.owner.attributes[TILE] = ir.UnitAttr.get()
        return view

    def store(self, by: TileUnit, c: ir.Value, row: int, column: int) -> None:
        """Write a tile of sums, as far as C has rows and columns."""
        rows, columns = shape_of(self.c)
        if not self.precision.is_scaled and row + ROWS <= rows and column + LANES <= columns:
            by.store(c, tile_of(self.c, index(row), index(column)))
            return
        held = new_tile(self.precision.sums)
        by.store(c, tile_of(held, index(0), index(0)))
        count, values = min(LANES, columns - column), shape_of(self.b)[0] - self.precision.extra
        scale = self.load_scale(index(values), column, count) if self.precision.is_scaled else None

        def write(number: ir.Value) -> None:
            total = vector.load(vector_of(LANES, self.precision.sums), held, [number, index(0)])
            at = arith.addi(number, index(row))
            if scale is not None:
                of_row = vector.broadcast(vector_of(LANES, "i32"), memref.load(self.a, [at, index(values)]))
                step = arith.mulf(arith.bitcast(vector_of(LANES, "f32"), of_row), scale)
                total = arith.mulf(arith.sitofp(vector_of(LANES, "f32"), total), step)
            vector.store(first_of(total, count), self.c, [at, index(column)])

        counted(min(ROWS, rows - row), write)

    def load_scale(self, row: ir.Value, column: int, count: int) -> ir.Value:
        """The scales of a tile's columns."""
        words = widened(vector.load(vector_of(count, "i32"), self.b, [row, index(column)]))
        return arith.bitcast(vector_of(LANES, "f32"), words)


def loop_around() -> scf.ForOp | None:
    """The innermost loop that the insertion point's block is the body of; none if it stands in no loop."""
    owner = ir.InsertionPoint.current.block.owner
    return owner.opview if owner.name == "scf.for" else None


def moves_with(value: ir.Value, loop: scf.ForOp) -> bool:
    """Whether a value is computed from the counter of a loop."""
    if value == loop.induction_variable:
        return True
    made_by = value.owner
    if isinstance(made_by, ir.Block) or made_by.operation.block != loop.body:
        return False
    return any(moves_with(operand, loop) for operand in made_by.operation.operands)
