"""Code of ours for marked sums of products of bytes, on buffers: neighbours of a row by one instruction.

    y[w] = f(sum over i, j of k[i, j] x[i, s w + j])   ->   sums[w] += dot(x[i, s w .. s w + 3], k[i, 0 .. 3])

Four neighbours of each of 16 columns are chosen among the bytes of a vector, and meet four weights in one ``vpdpbusd``.
It takes one operand without a sign: 128 is added to x, and what that adds is what sums begin with. Rows follow each
other, so that what the next one has in common with this one stays in registers: of three rows of a window, two.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from mlir import ir
from mlir.dialects import arith, memref, scf, vector

from autotune.compiler.ir.nests import dimensions, indexing_maps
from autotune.compiler.ir.values import index, maker
from autotune.compiler.passes.marked_loops import marked, marked_numbers
from autotune.compiler.passes.rounding import dot_bytes, splat, vector_of
from autotune.contrib.byte_ops.addresses import Address, address_of
from autotune.contrib.byte_ops.bodies import in_vectors
from autotune.contrib.byte_ops.marks import WINDOWS
from autotune.core.errors import CompileError

LANES, BYTES, WORD = 16, 64, 4  # words of a vector, its bytes, bytes of a word
WIDEN, MULTIPLY, ADD = "arith.extsi", "arith.muli", "arith.addi"
SHIFT = 128  # is added to bytes with a sign
MOST_CARRIED = 12  # vectors from row to row: sums, weights and what bytes are made of need the other registers
Product = tuple[int, int]  # arguments of a body: bytes, and their weight
WindowPart = tuple[int, int, int]  # a sum, a window of it, and the first of 16 columns


@dataclass(frozen=True)
class Sums:
    """What a body sums of products of bytes.

    Attributes:
        roots: Sums, and the products that each is of.
        steps: Steps that are needed for them alone.
    """

    roots: tuple[tuple[ir.Value, tuple[Product, ...]], ...]
    steps: tuple[ir.Operation, ...]

    @classmethod
    def of(cls, body: ir.Block, addresses: Sequence[Address]) -> "Sums":
        """Find the sums of a body in 32 bits, whose weights stay along the last loop; others are left as they are."""
        found: dict[ir.Value, tuple[Product, ...]] = {}
        steps = [each.operation for each in body.operations]
        for step in steps:
            given = [found.get(each) for each in step.operands]
            if step.name == MULTIPLY and (product := product_of(step, addresses)) is not None:
                found[step.results[0]] = (product,)
            elif step.name in (ADD, WIDEN) and all(each is not None for each in given) and keeps_all(step):
                found[step.results[0]] = tuple(pair for each in given for pair in each or ())
        inner = {step for step in steps for result in step.results if result in found}
        roots = [
            (value, products)
            for value, products in found.items()
            if any(use.owner.operation not in inner for use in value.uses)
        ]
        if any(str(value.type) != "i32" for value, _ in roots):
            return cls((), ())
        widened = {
            step
            for step in steps
            if step.name == WIDEN and all(use.owner.operation in inner for use in step.results[0].uses)
        }
        return cls(tuple(roots), tuple(inner | widened))

    @property
    def arguments(self) -> set[int]:
        """Arguments that products are of."""
        return {argument for _, products in self.roots for pair in products for argument in pair}


def keeps_all(step: ir.Operation) -> bool:
    """Tell whether a sum is one of 32 bits, or says that it fits what it is of."""
    flags = str(step.attributes["overflowFlags"]) if "overflowFlags" in step.attributes else ""
    return str(step.results[0].type) == "i32" or "nsw" in flags


def product_of(step: ir.Operation, addresses: Sequence[Address]) -> Product | None:
    """Arguments of a product of bytes by a weight that stays along the last loop; `None` if it is another."""
    arguments = []
    for operand in step.operands:
        widening = maker(operand)
        source = widening.operands[0] if widening is not None and widening.name == WIDEN else operand
        if not isinstance(source, ir.BlockArgument) or str(source.type) != "i8":
            return None
        arguments.append(ir.BlockArgument(source).arg_number)
    stays = [not addresses[argument].strides[-1] for argument in arguments]
    if stays == [True, False]:
        arguments.reverse()
    return (arguments[0], arguments[1]) if sorted(stays) == [False, True] else None


@dataclass(frozen=True)
class ByteWindow:
    """Neighbours in memory that one instruction multiplies.

    Attributes:
        first: Address of the first of them.
        weights: Argument that is the weight of each; `None` for none.
    """

    first: Address
    weights: tuple[int | None, ...]

    @property
    def reach(self) -> int:
        """How far the last of them is from the first."""
        return max(number for number, weight in enumerate(self.weights) if weight is not None)

    def is_ahead_of(self, other: "ByteWindow", loop: int) -> bool:
        """Tell whether the other has the same neighbours at the next step of a loop."""
        step = other.first.strides[loop]
        lines = (self.first.line, self.reach) == (other.first.line, other.reach)
        return lines and step > 0 and self.first.constant == other.first.constant + step


def windows_of(products: Sequence[Product], addresses: Sequence[Address]) -> Iterator[ByteWindow]:
    """Products in windows of four neighbours at most."""
    left = sorted(products, key=lambda pair: addresses[pair[0]].constant)
    while left:
        first = addresses[left[0][0]]
        weights: list[int | None] = [None] * WORD
        rest = []
        for pair in left:
            address = addresses[pair[0]]
            ahead = address.constant - first.constant
            if address.line == first.line and ahead < WORD and weights[ahead] is None:
                weights[ahead] = pair[1]
            else:
                rest.append(pair)
        yield ByteWindow(first, tuple(weights))
        left = rest


@dataclass(frozen=True)
class HeldWeights:
    """What stays along a row.

    Attributes:
        words: Weights of each window, in every lane.
        start: What the sum begins with.
    """

    words: tuple[ir.Value, ...]
    start: ir.Value


def write_byte_windows(module: ir.Module) -> None:
    """Write the code of every marked op.

    Raises:
        CompileError: Stage ``transform``; a marked op is no sum of products of bytes.
    """
    for op in marked(module.operation, WINDOWS):
        (lanes,) = marked_numbers(op, WINDOWS)
        with ir.InsertionPoint(op), op.location:
            ByteWindowRows.of(op, lanes).write()
        op.erase()


@dataclass(frozen=True)
class ByteWindowRows:
    """An op that sums windows, row by row.

    Attributes:
        body: Arithmetic of an element.
        sizes: Trip counts of its loops.
        addresses: Addresses of each operand's elements.
        flat: Arrays of those, in one dimension.
        sums: Sums of its body.
        windows: Those of each sum.
        lanes: Elements of a step.
    """

    body: ir.Block
    sizes: Sequence[int]
    addresses: Sequence[Address]
    flat: Sequence[ir.Value]
    sums: Sums
    windows: Sequence[Sequence[ByteWindow]]
    lanes: int

    @classmethod
    def of(cls, op: ir.Operation, lanes: int) -> "ByteWindowRows":
        """Read an op; at the insertion point, its arrays are brought into form.

        Raises:
            CompileError: Stage ``transform``; it is no sum of products of bytes.
        """
        body, maps = op.regions[0].blocks[0], indexing_maps(op)
        if not maps[-1].is_permutation:
            raise CompileError("transform", f"a sum of products of bytes must be written in order, got {maps[-1]}")
        addresses = [address_of(value, amap) for value, amap in zip(op.operands, maps, strict=True)]
        shape = ir.MemRefType(op.operands[len(maps) - 1].type).shape
        sizes = dict(zip(dimensions(maps[-1]), shape, strict=True))
        sums = Sums.of(body, addresses)
        windows = [list(windows_of(products, addresses)) for _, products in sums.roots]
        return cls(
            body,
            [sizes[loop] for loop in range(len(sizes))],
            addresses,
            [address.flat() for address in addresses],
            sums,
            windows,
            lanes,
        )

    @property
    def inner(self) -> int:
        """Loops that weights depend on, from the outermost to the last of those."""
        weights = {
            each for windows in self.windows for window in windows for each in window.weights if each is not None
        }
        used = [loop + 1 for each in weights for loop, stride in enumerate(self.addresses[each].strides) if stride]
        return max(used, default=0)

    @cached_property
    def carried(self) -> dict[WindowPart, WindowPart]:
        """Neighbours that a row has in common with the one before: what they are called here, and were there.

        None where weights change from row to row, and where they would not stay in registers.
        """
        rows, starts = len(self.sizes) - 2, range(0, min(self.lanes, self.sizes[-1]), LANES)
        if rows < self.inner:
            return {}
        windows = {(root, number): each for root, of in enumerate(self.windows) for number, each in enumerate(of)}
        found = {
            (*here, start): (*before, start)
            for (here, window), (before, other) in product(windows.items(), repeat=2)
            for start in starts
            if other.is_ahead_of(window, rows)
        }
        return found if len(found) <= MOST_CARRIED else {}

    def write(self, loops: Sequence[ir.Value] = (), held: Sequence[HeldWeights] = ()) -> None:
        """Loops over all but the columns of a row, inside of those that are there; weights where they are known.

        Where rows have neighbours in common, they are the innermost loop, and columns the one around them.
        """
        if not held and len(loops) == self.inner:
            held = [self.hold(loops, windows) for windows in self.windows]
        if self.carried and len(loops) == len(self.sizes) - 2:
            self.for_columns(lambda column, count: self.write_rows(loops, column, held, count))
            return
        if len(loops) == len(self.sizes) - 1:
            self.for_columns(lambda column, count: self.write_step([*loops, column], held, count, {}))
            return
        loop = scf.ForOp(index(0), index(self.sizes[len(loops)]), index(1))
        with ir.InsertionPoint(loop.body):
            self.write([*loops, loop.induction_variable], held)
            scf.yield_([])

    def hold(self, loops: Sequence[ir.Value], windows: Sequence[ByteWindow]) -> HeldWeights:
        """Words of weights, and what their sum begins with."""
        words, sums, ones = [], splat(0, "i32"), splat(0x01010101, "i32")
        none = arith.constant(ir.IntegerType.get_signless(8), 0)
        for window in windows:
            found = [none if each is None else self.load_one(each, loops) for each in window.weights]
            word = vector.bitcast(vector_of(1, "i32"), vector.from_elements(vector_of(WORD, "i8"), found))
            words.append(vector.broadcast(vector_of(LANES, "i32"), vector.extract(word, [], [0])))
            sums = dot_bytes(sums, ones, words[-1])
        return HeldWeights(tuple(words), arith.muli(sums, splat(-SHIFT, "i32")))

    def load_one(self, argument: int, loops: Sequence[ir.Value]) -> ir.Value:
        """The element of an operand that does not move along a row."""
        part = vector_of(1, str(self.body.arguments[argument].type))
        return vector.extract(vector.load(part, self.flat[argument], [self.addresses[argument].at(loops)]), [], [0])

    def for_columns(self, write: Callable[[ir.Value, int], None]) -> None:
        """Write steps of columns: from which on, and how many."""
        columns = self.sizes[-1]
        whole = columns // self.lanes * self.lanes
        if whole:
            loop = scf.ForOp(index(0), index(whole), index(self.lanes))
            with ir.InsertionPoint(loop.body):
                write(loop.induction_variable, self.lanes)
                scf.yield_([])
        if columns > whole:
            write(index(whole), columns - whole)

    def write_rows(self, loops: Sequence[ir.Value], column: ir.Value, held: Sequence[HeldWeights], count: int) -> None:
        """So many columns of all rows; each takes from the one before what they have in common."""
        ways = {here: before for here, before in self.carried.items() if here[-1] < count}
        first = [*loops, index(0), column]
        given = [
            self.neighbours(self.windows[root][number], first, start, min(LANES, count - start))
            for root, number, start in ways
        ]
        loop = scf.ForOp(index(0), index(self.sizes[-2]), index(1), given)
        with ir.InsertionPoint(loop.body):
            known = dict(zip(ways, loop.inner_iter_args, strict=True))
            self.write_step([*loops, loop.induction_variable, column], held, count, known)
            scf.yield_([known[before] for before in ways.values()])

    def write_step(
        self,
        loops: Sequence[ir.Value],
        held: Sequence[HeldWeights],
        count: int,
        neighbours: dict[WindowPart, ir.Value],
    ) -> None:
        """So many columns from one on; neighbours that are not there yet are added to those that are."""
        lanes, target = -(-count // LANES) * LANES, len(self.addresses) - 1
        for root, windows in enumerate(self.windows):
            for number, start in product(range(len(windows)), range(0, count, LANES)):
                if (root, number, start) not in neighbours:
                    neighbours[root, number, start] = self.neighbours(
                        windows[number], loops, start, min(LANES, count - start)
                    )
        known = {
            value: self.sum_windows(neighbours, root, held[root], count, lanes)
            for root, (value, _) in enumerate(self.sums.roots)
        }
        for number, argument in enumerate(list(self.body.arguments)[:-1]):
            if number not in self.sums.arguments:
                known[argument] = self.load(number, loops, count, lanes)
        (found,) = in_vectors(self.body, known, lanes, self.sums.steps)
        self.store(found, self.addresses[target], self.flat[target], loops, count)

    def load(self, argument: int, loops: Sequence[ir.Value], count: int, lanes: int) -> ir.Value:
        """So many elements of an operand, or the one of all, in vectors of so many lanes."""
        address, kind = self.addresses[argument], vector_of(lanes, str(self.body.arguments[argument].type))
        if not address.strides[-1]:
            return vector.broadcast(kind, self.load_one(argument, loops))
        if address.strides[-1] == 1:
            return self.load_side_by_side(self.flat[argument], address.at(loops), count, kind)
        each = [min(lane, count - 1) * address.strides[-1] for lane in range(lanes)]
        return self.load_apart(self.flat[argument], [address.at(loops, more) for more in each], kind)

    def load_side_by_side(self, flat: ir.Value, at: ir.Value, count: int, kind: ir.VectorType) -> ir.Value:
        """So many elements from one on, and zeros behind them."""
        mask = vector.constant_mask(vector_of(kind.shape[0], "i1"), [count])
        return vector.maskedload(kind, flat, [at], mask, splat(0, str(kind.element_type), kind.shape[0]))

    def load_apart(self, flat: ir.Value, addresses: Sequence[ir.Value], kind: ir.VectorType) -> ir.Value:
        """Elements, each at an address of its own."""
        return vector.from_elements(kind, [memref.load(flat, [address]) for address in addresses])

    def store(self, found: ir.Value, address: Address, flat: ir.Value, loops: Sequence[ir.Value], count: int) -> None:
        """Write so many elements."""
        if address.strides[-1] == 1:
            mask = vector.constant_mask(vector_of(ir.VectorType(found.type).shape[0], "i1"), [count])
            vector.maskedstore(flat, [address.at(loops)], mask, found)
            return
        for lane in range(count):
            at = address.at(loops, lane * address.strides[-1])
            memref.store(vector.extract(found, [], [lane]), flat, [at])

    def sum_windows(
        self, neighbours: dict[WindowPart, ir.Value], root: int, held: HeldWeights, count: int, lanes: int
    ) -> ir.Value:
        """A sum of so many columns."""
        found = splat(0, "i32", lanes)
        for start in range(0, count, LANES):
            total = held.start
            for number, words in enumerate(held.words):
                total = dot_bytes(total, neighbours[root, number, start], words)
            found = vector.insert_strided_slice(total, found, [start], [1])
        return found

    def neighbours(self, window: ByteWindow, loops: Sequence[ir.Value], start: int, count: int) -> ir.Value:
        """Four neighbours of each of so many columns, without a sign."""
        address, stride, kind = window.first, window.first.strides[-1], vector_of(BYTES, "i8")
        flat = next(flat for flat, each in zip(self.flat, self.addresses, strict=True) if each == address)
        offsets = [lane * stride + number for lane in range(LANES) for number in range(WORD)]
        last = (count - 1) * stride + window.reach
        if offsets[-1] < BYTES:  # what lies beyond the last is read as zero
            # Where half a vector holds them, it is no more: of a whole one, LLVM 22 moves the `xori` to and fro past
            # the shuffle for ever where shuffles across lanes are cheap (`fast-variable-crosslane-shuffle`: Intel's).
            source = vector_of(BYTES if offsets[-1] >= BYTES // 2 else BYTES // 2, "i8")
            found = self.load_side_by_side(flat, address.at(loops, start * stride), last + 1, source)
            found = vector.shuffle(found, found, offsets)
        else:
            addresses = [address.at(loops, start * stride + min(offset, last)) for offset in offsets]
            found = self.load_apart(flat, addresses, kind)
        return vector.bitcast(vector_of(LANES, "i32"), arith.xori(found, splat(SHIFT, "i8", BYTES)))
