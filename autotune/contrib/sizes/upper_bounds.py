"""Dynamic upper bounds for loops along an open dimension, so that a program of a fixed size serves smaller ones.

A program is compiled as any other until its loops operate on buffers. A loop is along the dimension if its induction
variable, added to those of enclosing loops, is an index along it: in an argument, or in a buffer that is written at the
same indices. The upper bounds of such loops become what remains of a size that the caller sets before a call:

    for i in 0 to 512 step 128 { for j in 0 to 128             step 8 { .. A[i + j] .. } }
    for i in 0 to n   step 128 { for j in 0 to min(128, n - i) step 8 { .. A[i + j] .. } }

That size is a multiple of the steps of all loops that reduce along the dimension, so that they reduce only elements
computed for the same size. A parallel loop whose step does not divide it computes a little more, which nothing reads.
"""

from collections.abc import Iterator, Mapping
from math import lcm

from mlir import ir
from mlir.dialects import arith, memref

from autotune.compiler.ir.module import context, parse
from autotune.compiler.ir.values import index, maker
from autotune.compiler.passes.marked_loops import parents
from autotune.contrib.sizes.positions import ArrayAccess, Position, accesses, is_plain, loop_of, step_of
from autotune.core.errors import CompileError

MARK = "sizes.open"  # attribute of a module, see `marked`
CELL, SETTER = "__autotune_extent", "__autotune_set_extent"
Starts = Mapping[int, int]  # index of the open dimension in each argument, by argument number


class OpenLoops:
    """The loops of a function along an open dimension.

    Args:
        function: Bufferized function.
        starts: Index of the open dimension in each argument, by argument number.

    Raises:
        CompileError: Stage ``transform``; the function reads along the dimension beyond what these loops bound.
    """

    def __init__(self, function: ir.OpView, starts: Starts) -> None:
        self._block = function.regions[0].blocks[0]
        self._accesses = list(accesses(self._block))
        self._depths = {counter: at for each in self._accesses for at, counter in enumerate(each.loops)}
        self._origins = {(self._block.arguments[number], dim): Position() for number, dim in starts.items()}
        self._before: dict[ir.Value, Position] = {}  # offset of each induction variable along the dimension
        self._least: dict[tuple[ir.Value, int, frozenset[ir.Value]], int] = {}
        for each, dim, position in self._known_positions():
            key = each.root, dim, position.counters
            self._least[key] = min(position.number, self._least.get(key, position.number))
        while self._follow():
            pass
        self._check_reads()
        self._check_writes()

    @property
    def grain(self) -> int:
        """Divisor that sizes must have."""
        exact = {counter for counter in self._before if list(loop_of(counter).results)}
        for each in self._accesses:
            enclosing = self._enclosing(each)
            if each.looks_up:  # uncomputed elements may be invalid indices
                exact.update(enclosing)
            if each.writes:  # repeated writes to one element accumulate
                exact.update(
                    enclosing - {counter for position in each.positions if position for counter in position.counters}
                )
        return lcm(*map(step_of, exact), *(origin.per for origin in self._origins.values()))

    def shorten(self) -> None:
        """Rewrite the upper bounds of the loops to end at the size stored in `CELL`."""
        with ir.InsertionPoint.at_block_begin(self._block):
            cell = memref.get_global(ir.MemRefType.get([1], ir.IndexType.get()), CELL)
            size = memref.load(cell, [index(0)])
        for counter, before in self._before.items():
            loop = loop_of(counter)
            with ir.InsertionPoint(loop), loop.location:
                remaining = size
                for each in sorted(before.counters, key=self._depths.__getitem__):
                    remaining = arith.subi(remaining, each)
                remaining = arith.maxsi(arith.subi(remaining, index(before.number)), index(0))
                loop.operands[1] = arith.minsi(loop.operands[1], remaining)

    def _known_positions(self) -> Iterator[tuple[ArrayAccess, int, Position]]:
        """Yield accesses with each dimension whose position is known."""
        for each in self._accesses:
            for dim, position in enumerate(each.positions):
                if position is not None:
                    yield each, dim, position

    def _follow(self) -> bool:
        """Propagate positions between induction variables and buffers; return whether anything new was found."""
        known_before = len(self._origins), len(self._before)
        for each, dim, position in self._known_positions():
            key = each.root, dim
            if (origin := self._origins.get(key)) is not None:
                if position.counters and position.per != origin.per:
                    raise unshortened(f"{each.root.type} is in blocks of {origin.per} and {position.per}")
                self._take(origin + position)
            elif position.counters:
                inner = max(position.counters, key=self._depths.__getitem__)
                before = self._before.get(inner)
                if before is not None and position.counters <= before.counters | {inner}:
                    outer = (before.counters | {inner}) - position.counters
                    number = before.number - self._least[(*key, position.counters)]
                    self._origins[key] = Position(outer, number, position.per)
        return known_before != (len(self._origins), len(self._before))

    def _take(self, total: Position) -> None:
        """Record a position along the dimension.

        Raises:
            CompileError: Stage ``transform``; a loop has two different offsets, or does not start at zero.
        """
        for counter in total.counters:
            outer = frozenset(each for each in total.counters if self._depths[each] < self._depths[counter])
            recorded = self._before.get(counter)
            if (recorded is not None and recorded.counters != outer) or not is_plain(counter):
                raise unshortened("a loop along it counts in two ways")
            if recorded is None or total.number < recorded.number:
                self._before[counter] = Position(outer, total.number)

    def _check_reads(self) -> None:
        """Check that every read along the dimension is bounded by a loop, so that it cannot reach uncomputed elements.

        Raises:
            CompileError: Stage ``transform``; a read is not bounded.
        """
        inputs = set(self._block.arguments) - {each.root for each in self._accesses if each.writes}
        for each in self._accesses:
            for dim, position in enumerate(each.positions):
                if (each.root, dim) not in self._origins or not each.reads or each.root in inputs:
                    continue
                if position is None or not self._ends(self._origins[each.root, dim] + position, position):
                    raise unshortened(f"{each.op.name} reads more of {each.root.type} than a step of it")

    def _check_writes(self) -> None:
        """Check that every write by a loop along the dimension has a known position along it.

        Raises:
            CompileError: Stage ``transform``; the position of a write is unknown.
        """
        for each in self._accesses:
            for counter in self._enclosing(each) if each.writes else ():
                along = [dim for dim, at in enumerate(each.positions) if at is not None and counter in at.counters]
                is_known = any((each.root, dim) in self._origins for dim in along)
                if not is_known and (along or None in each.positions):
                    raise unshortened(f"{each.op.name} writes {each.root.type} in another order")

    def _enclosing(self, each: ArrayAccess) -> set[ir.Value]:
        """Return the induction variables of loops along the dimension around an access, not around its allocation."""
        producer = maker(each.root)
        own = list(parents(producer)) if producer is not None else []
        return {counter for counter in each.loops if counter in self._before and loop_of(counter) not in own}

    def _ends(self, total: Position, own: Position) -> bool:
        """Return whether a read stays within what one step of the innermost loop along the dimension computes.

        Args:
            total: Position along the dimension.
            own: Position in the buffer, which may hold what one step of a loop computes.
        """
        if not total.counters:
            return False
        inner = max(total.counters, key=self._depths.__getitem__)
        begin = self._before[inner].number if inner in own.counters else total.number - own.number
        return (total.number - begin + own.width) * total.per <= step_of(inner) or total.per > 1 == own.width


def unshortened(why: str) -> CompileError:
    """Return the error for a program whose loops cannot end early."""
    return CompileError("transform", f"loops along an open dimension must bound all that is read of it, {why}")


def end_at_size(module: ir.Module, function: ir.OpView) -> None:
    """Rewrite the loops of a marked module's function to end at the size that `SETTER` sets, in place.

    Raises:
        CompileError: Stage ``transform``; the loops cannot end early, or their grain is not the marked one.
    """
    starts, grain, extent = read_mark(module)
    loops = OpenLoops(function, starts)
    if grain % loops.grain:
        raise unshortened(f"by steps of {loops.grain} and not of {grain}; import the model again")
    cell = ir.Module.parse(f"""
        memref.global "private" @{CELL} : memref<1xindex> = dense<{extent}>
        func.func @{SETTER}(%size: index) attributes {{llvm.emit_c_interface}} {{
          %at = arith.constant 0 : index
          %cell = memref.get_global @{CELL} : memref<1xindex>
          memref.store %size, %cell[%at] : memref<1xindex>
          return
        }}""")
    for op in list(cell.body.operations):
        module.body.append(op)
    loops.shorten()


def is_marked(module: ir.Module) -> bool:
    """Return whether a module is marked for loops that end early."""
    return MARK in module.operation.attributes


def marked(text: str, starts: Starts, grain: int, extent: int) -> str:
    """Mark a module for loops that end at the size of a request; return its text.

    Args:
        text: Text of the module.
        starts: Index of the open dimension in each argument, by argument number.
        grain: Divisor of the sizes.
        extent: Full size of the dimension.
    """
    entries = {f"a{number}": dim for number, dim in starts.items()} | {"grain": grain, "extent": extent}
    with context(writes=False):
        module = parse(text, "payload")
        values = ", ".join(f"{name} = {value} : i64" for name, value in entries.items())
        module.operation.attributes[MARK] = ir.Attribute.parse(f"{{{values}}}")
        return str(module)


def read_mark(module: ir.Module) -> tuple[Starts, int, int]:
    """Return the mark of a module: the dimension's index in each argument, its grain, and its full size."""
    values = {
        each.name: int(ir.IntegerAttr(each.attr).value) for each in ir.DictAttr(module.operation.attributes[MARK])
    }
    return {int(name[1:]): dim for name, dim in values.items() if name[0] == "a"}, values["grain"], values["extent"]
