"""Lower products of packed words to a matrix unit, on buffers: register tiles of at most eight AMX tiles.

    for k in steps of 16:  C[i : i + 16, j : j + 16] += A[i : i + 16, k : k + 16] * B[k : k + 16, j : j + 16]

A tile is 16 rows of 16 words. Its four operations have two lowerings: AMX intrinsics, for which LLVM allocates tile
registers (``tileloadd``, ``tdpbf16ps``, ``tdpbssd``, ``tilestored``), and vector loops with bitwise identical results.

All tiles have the full size, so that LLVM configures the unit once per function. Remaining rows of A are copied into a
zero-padded tile in L1 before each product. Panels of B are padded to full tiles, and excess columns of results are not
stored.
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
FUNCTION = "__autotune_tile"  # prefix of the names of functions that emulate the unit
DOTS = {"bf16": "llvm.x86.tdpbf16ps.internal", "i8": "llvm.x86.tdpbssd.internal"}  # by element type
EXPONENT, SIGN, UPPER = 0x7F800000, -0x80000000, -0x10000  # masks: exponent and sign of f32, upper bf16


def tile_of(source: ir.Value, row: ir.Value, column: ir.Value) -> ir.Value:
    """Build a subview of one tile of a two-dimensional memref."""
    return view_of(source, [row, column], [ROWS, LANES], [1, 1])


def view_of(source: ir.Value, offsets: Sequence[ir.Value], sizes: Sequence[int], steps: Sequence[int]) -> ir.Value:
    """Build a subview without unit dimensions; offsets and layout are dynamic."""
    source_type, dynamic = ir.MemRefType(source.type), ir.ShapedType.get_dynamic_stride_or_offset()
    strides, _ = source_type.get_strides_and_offset()
    kept = [dim for dim in range(len(sizes)) if sizes[dim] > 1]
    layout = ir.StridedLayoutAttr.get(dynamic, [strides[dim] * steps[dim] for dim in kept])
    view_type = ir.MemRefType.get(
        [sizes[dim] for dim in kept], source_type.element_type, layout, source_type.memory_space
    )
    dynamic_offsets = [dynamic] * len(sizes)
    return memref.SubViewOp(view_type, source, list(offsets), [], [], dynamic_offsets, list(sizes), list(steps)).result


def new_tile(element: str) -> ir.Value:
    """Allocate a buffer for a tile, of 16 rows of 16 elements."""
    return memref.alloc(ir.MemRefType.get([ROWS, LANES], ir.Type.parse(element)), [], [])


def zero_tile(element: str) -> ir.Value:
    """Allocate a buffer for a tile, filled with zeros."""
    tile = new_tile(element)
    counted(ROWS, lambda row: vector.store(splat(0, element), tile, [row, index(0)]))
    return tile


@dataclass(frozen=True)
class Amx:
    """Tile operations on AMX registers.

    Attributes:
        carries: Whether products return the tile of C as a new value, which loops must carry.
    """

    carries: bool = True

    def zero(self) -> ir.Value:
        """Build ``tilezero``."""
        return call_intrinsic("llvm.x86.tilezero.internal", [self.kind], *self.shape(2))[0]

    def begin(self, view: ir.Value) -> ir.Value:
        """Build ``tileloadd`` of a tile of C."""
        return self.load(view, once=False)

    def load(self, view: ir.Value, *, once: bool) -> ir.Value:
        """Build ``tileloadd``, or ``tileloaddt1`` for a tile that is read once and should not evict others from L1."""
        name = f"llvm.x86.tileloadd{'t1' * once}64.internal"
        return call_intrinsic(name, [self.kind], *self.shape(2), *address(view))[0]

    def dot(self, element: str, c: ir.Value, a: ir.Value, b: ir.Value) -> ir.Value:
        """Build ``tdpbf16ps`` or ``tdpbssd``."""
        return call_intrinsic(DOTS[element], [self.kind], *self.shape(3), c, a, b)[0]

    def store(self, c: ir.Value, view: ir.Value) -> None:
        """Build ``tilestored``."""
        call_intrinsic("llvm.x86.tilestored64.internal", [], *self.shape(2), *address(view), c)

    @property
    def kind(self) -> ir.Type:
        """Type of a tile register."""
        return ir.Type.parse("!llvm.x86_amx")

    def shape(self, count: int) -> Iterator[ir.Value]:
        """Yield the first `count` of: rows of a tile, bytes of a row, bytes of a row; the intrinsics take constants."""
        i16 = ir.IntegerType.get_signless(16)
        for size in (ROWS, LANES * WORD, LANES * WORD)[:count]:
            yield arith.constant(i16, ir.IntegerAttr.get(i16, size))


def address(view: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Build the address of a view, and its row stride in bytes."""
    i64, metadata = ir.IntegerType.get_signless(64), memref.ExtractStridedMetadataOp(view)
    offset, stride = metadata.offset, metadata.strides[0]
    first = memref.extract_aligned_pointer_as_index(view)
    first.owner.attributes[TILE] = ir.UnitAttr.get()
    start = arith.index_cast(i64, arith.addi(first, arith.muli(offset, index(WORD))))
    pointer = llvm.inttoptr(ir.Type.parse("!llvm.ptr"), start)
    return pointer, arith.index_cast(i64, arith.muli(stride, index(WORD)))


@dataclass(frozen=True)
class Emulated:
    """Emulated tile operations in memory: a tile of A or B is a view of its operand, one of C a buffer."""

    element: str
    carries: bool = False

    def zero(self) -> ir.Value:
        """Allocate a buffer of zeros."""
        return zero_tile(self.element)

    def begin(self, view: ir.Value) -> ir.Value:
        """Allocate a buffer with a copy of a view."""
        tile = new_tile(self.element)
        self.store(view, tile)
        return tile

    def load(self, view: ir.Value, *, once: bool) -> ir.Value:
        """Return the view."""
        return view

    def dot(self, element: str, c: ir.Value, a: ir.Value, b: ir.Value) -> ir.Value:
        """Call a function that accumulates into C, one per module: LLVM would unroll its loops wherever inlined."""
        views = [memref.cast(dynamic_strides(operand), operand) for operand in (a, b)]
        argument_types = [c.type, *(view.type for view in views)]
        name, module = f"{FUNCTION}_{element}", module_around(c)
        if name not in {symbol(op) for op in module.body.operations}:
            with ir.InsertionPoint(module.body):
                self.write_function(name, argument_types, element)
        func.CallOp([], name, [c, *views]).operation.attributes[TILE] = ir.UnitAttr.get()
        return c

    def write_function(self, name: str, kinds: list[ir.Type], element: str) -> None:
        """Build the function: loops over rows of A and their words, in the order of summation of the unit."""
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
        """Load a word of A, broadcast to all lanes, and the row of words of B that it is multiplied by."""
        vector_type = vector_of(LANES, "i32")
        return vector.broadcast(vector_type, memref.load(a, [row, k])), vector.load(vector_type, b, [k, index(0)])

    def integers(self, row: ir.Value, old: ir.Value, a: ir.Value, b: ir.Value) -> ir.Value:
        """Accumulate a row of products of signed int8."""
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
        """Accumulate a row of products of bf16: lower halves and upper halves separately, then their sum, then C.

        The unit flushes denormals to zero, and rounds to nearest in any rounding mode.
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
        """Copy a tile of C to a view."""

        def copy(row: ir.Value) -> None:
            indices = [row, index(0)]
            vector.store(vector.load(vector_of(LANES, self.element), c, indices), view, indices)

        counted(ROWS, copy)


# Implementations of tile operations; tiles of A and B come from `load`, tiles of C from `zero` or `begin`.
TileUnit = Amx | Emulated


def dynamic_strides(view: ir.Value) -> ir.MemRefType:
    """Return the type of a view with a dynamic offset and row stride."""
    view_type, dynamic = ir.MemRefType(view.type), ir.ShapedType.get_dynamic_stride_or_offset()
    layout = ir.StridedLayoutAttr.get(dynamic, [dynamic, 1])
    return ir.MemRefType.get(list(view_type.shape), view_type.element_type, layout, view_type.memory_space)


def module_around(value: ir.Value) -> ir.Module:
    """Return the module that contains a value."""
    op = value.owner.operation
    while op.name != "builtin.module":
        op = op.parent.operation
    return op.opview


def flushed_bits(bits: ir.Value) -> ir.Value:
    """Bitcast to f32, flushing denormals to zeros of the same sign."""
    exponent = arith.andi(bits, splat(EXPONENT, "i32"))
    small = arith.cmpi(arith.CmpIPredicate.eq, exponent, splat(0, "i32"))
    normal = arith.select(small, arith.andi(bits, splat(SIGN, "i32")), bits)
    return arith.bitcast(vector_of(LANES, "f32"), normal)


def flushed(values: ir.Value) -> ir.Value:
    """Flush denormals of an f32 vector to zeros of the same sign."""
    return flushed_bits(arith.bitcast(vector_of(LANES, "i32"), values))


Load = Callable[[int, ir.Value], ir.Value]  # loads a tile, given its first row or column, and its first word


@dataclass(frozen=True)
class TileLoop:
    """Reduction loop of a register tile, with a step of one tile of words.

    Attributes:
        by: Implementation of tile operations.
        precision: Precision of the words.
        words: Words of a part.
        starts: First row and column of every tile of C.
        hidden: Whether a causal mask hides the last of A's columns, so that they may be skipped.
    """

    by: TileUnit
    precision: Precision
    words: int
    starts: Sequence[tuple[int, int]]
    hidden: bool = False

    def write(self, begin: list[ir.Value], load_a: Load, load_b: Load) -> list[ir.Value]:
        """Build the loop at the insertion point; return the tiles of C after all products.

        Args:
            begin: Initial tiles of C.
            load_a: Builder of the load of a tile of A, by its first row and word.
            load_b: Builder of the load of a tile of B, by its first column and word.
        """
        loop = scf.ForOp(index(0), index(self.words), index(ROWS), begin if self.by.carries else [])
        mark_hidden(loop, self.precision.values, is_hidden=self.hidden)
        with ir.InsertionPoint(loop.body):
            sums = list(loop.inner_iter_args) if self.by.carries else [*begin]
            of_a: dict[int, ir.Value] = {}
            of_b: dict[int, ir.Value] = {}
            before = (-1, -1)  # consecutive products share an operand, whose tiles stay loaded
            for parts in self.precision.products:
                k_of_a, k_of_b = (arith.addi(loop.induction_variable, index(part * self.words)) for part in parts)
                of_a, of_b = of_a if parts[0] == before[0] else {}, of_b if parts[1] == before[1] else {}
                before = parts
                for number, (row, column) in enumerate(self.starts):  # loads are placed at their first use
                    if row not in of_a:
                        of_a[row] = load_a(row, k_of_a)
                    if column not in of_b:
                        of_b[column] = load_b(column, k_of_b)
                    sums[number] = self.by.dot(self.precision.element, sums[number], of_a[row], of_b[column])
            scf.yield_(sums if self.by.carries else [])
        return list(loop.results) if self.by.carries else begin


@dataclass(frozen=True)
class TileProduct:
    """Code generator of one register tile, whose accumulators are all in tile registers.

    Attributes:
        precision: Precision of the words.
        a: Words of A's rows (m, words).
        b: Words of B's columns (words, n), readable beyond n up to full tiles.
        c: Buffer of the tile's results (m, n), f32, or i32 if they are exact.
        unit: Whether to use the matrix unit; otherwise, it is emulated.
        hidden: Whether a causal mask hides the last of A's columns, so that they may be skipped.
    """

    precision: Precision
    a: ir.Value
    b: ir.Value
    c: ir.Value
    unit: bool
    hidden: bool

    def write(self) -> None:
        """Build the code of the tile at the insertion point."""
        rows, columns = shape_of(self.c)
        starts = [(row, column) for row in range(0, rows, ROWS) for column in range(0, columns, LANES)]
        by = Amx() if self.unit else Emulated(self.precision.sums)
        remaining_rows = rows % ROWS
        rest = zero_tile("i32") if remaining_rows else None  # its excess rows stay zero
        zeros = [by.zero() for _ in starts]
        words = (shape_of(self.b)[0] - self.precision.extra) // self.precision.parts
        a_streams, b_streams = self.streams()

        def load_a(row: int, k: ir.Value) -> ir.Value:
            return by.load(self.tile_of_a(row, k, rest, remaining_rows), once=a_streams)

        def load_b(column: int, k: ir.Value) -> ir.Value:
            return by.load(self.tile_of_b(k, column), once=b_streams)

        sums = TileLoop(by, self.precision, words, starts, self.hidden).write(zeros, load_a, load_b)
        for (row, column), c in zip(starts, sums, strict=True):
            self.store(by, c, row, column)

    def streams(self) -> tuple[bool, bool]:
        """Return whether only A, and whether only B, changes with the enclosing loop.

        The operand that changes is loaded with a streaming hint, so that it does not evict the other one from L1.
        """
        loop = loop_around()
        if loop is None:
            return False, False
        a_moves, b_moves = (moves_with(operand, loop) for operand in (self.a, self.b))
        return a_moves and not b_moves, b_moves and not a_moves

    def tile_of_a(self, row: int, k: ir.Value, rest: ir.Value | None, left: int) -> ir.Value:
        """Return a view of a tile of A; the last rows, if fewer than a tile, are copied to a padded buffer."""
        if rest is None or row + ROWS <= shape_of(self.a)[0]:
            return tile_of(self.a, index(row), k)

        def copy(number: ir.Value) -> None:
            line = vector.load(vector_of(LANES, "i32"), self.a, [arith.addi(number, index(row)), k])
            vector.store(line, rest, [number, index(0)])

        counted(left, copy)
        return tile_of(rest, index(0), index(0))

    def tile_of_b(self, k: ir.Value, column: int) -> ir.Value:
        """Return a view of a tile of B, which `panel_loads.py` redirects to panels."""
        view = tile_of(self.b, k, index(column))
        view.owner.attributes[TILE] = ir.UnitAttr.get()
        return view

    def store(self, by: TileUnit, c: ir.Value, row: int, column: int) -> None:
        """Store a tile of C, scaled if the precision requires it; excess rows and columns are dropped."""
        rows, columns = shape_of(self.c)
        if not self.precision.is_scaled and row + ROWS <= rows and column + LANES <= columns:
            by.store(c, tile_of(self.c, index(row), index(column)))
            return
        out_tile = new_tile(self.precision.sums)
        by.store(c, tile_of(out_tile, index(0), index(0)))
        count, values = min(LANES, columns - column), shape_of(self.b)[0] - self.precision.extra
        scale = self.load_scale(index(values), column, count) if self.precision.is_scaled else None

        def write(number: ir.Value) -> None:
            total = vector.load(vector_of(LANES, self.precision.sums), out_tile, [number, index(0)])
            at = arith.addi(number, index(row))
            if scale is not None:
                of_row = vector.broadcast(vector_of(LANES, "i32"), memref.load(self.a, [at, index(values)]))
                step = arith.mulf(arith.bitcast(vector_of(LANES, "f32"), of_row), scale)
                total = arith.mulf(arith.sitofp(vector_of(LANES, "f32"), total), step)
            vector.store(first_of(total, count), self.c, [at, index(column)])

        counted(min(ROWS, rows - row), write)

    def load_scale(self, row: ir.Value, column: int, count: int) -> ir.Value:
        """Load the scales of a tile's columns."""
        words = widened(vector.load(vector_of(count, "i32"), self.b, [row, index(column)]))
        return arith.bitcast(vector_of(LANES, "f32"), words)


def loop_around() -> scf.ForOp | None:
    """Return the scf.for whose body contains the insertion point directly; `None` if there is none."""
    owner = ir.InsertionPoint.current.block.owner
    return owner.opview if owner.name == "scf.for" else None


def moves_with(value: ir.Value, loop: scf.ForOp) -> bool:
    """Return whether a value depends on the induction variable of a loop."""
    if value == loop.induction_variable:
        return True
    made_by = value.owner
    if isinstance(made_by, ir.Block) or made_by.operation.block != loop.body:
        return False
    return any(moves_with(operand, loop) for operand in made_by.operation.operands)
