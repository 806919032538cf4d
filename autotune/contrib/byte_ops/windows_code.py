"""Lower marked sums of products of i8, on memrefs, to byte dot products of neighbours in a row.

    y[w] = f(sum over i, j of k[i, j] x[i, s w + j])   ->   sums[w] += dot(x[i, s w .. s w + 3], k[i, 0 .. 3])

A permute gathers four neighbours of each of 16 columns out of the bytes of a vector; one ``vpdpbusd`` multiplies them
by four weights. Its first operand is unsigned, so 128 is added to x; the accumulators start at the compensation of
that. Rows are computed one after the other, so that the input rows that two of them share stay in registers: with a
window of three rows, two.
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

LANES, BYTES, WORD = 16, 64, 4  # 32-bit words of a vector, its bytes, bytes of a word
WIDEN, MULTIPLY, ADD = "arith.extsi", "arith.muli", "arith.addi"
SHIFT = 128  # added to i8 to make it unsigned
MOST_CARRIED = 12  # loop-carried vectors: accumulators, weights and permute masks need the other registers
Product = tuple[int, int]  # block argument numbers: input, weight
WindowPart = tuple[int, int, int]  # numbers of a sum and of a window in it, and the first of 16 columns


@dataclass(frozen=True)
class Sums:
    """Sums of products of i8 in a body.

    Attributes:
        roots: Values of the sums, and the products of each.
        steps: Operations that only compute these sums.
    """

    roots: tuple[tuple[ir.Value, tuple[Product, ...]], ...]
    steps: tuple[ir.Operation, ...]

    @classmethod
    def of(cls, body: ir.Block, addresses: Sequence[Address]) -> "Sums":
        """Find the i32 sums of a body with weights constant along the last loop; none if a sum has another type."""
        matched: dict[ir.Value, tuple[Product, ...]] = {}
        steps = [each.operation for each in body.operations]
        for step in steps:
            operand_products = [matched.get(each) for each in step.operands]
            if step.name == MULTIPLY and (product := product_of(step, addresses)) is not None:
                matched[step.results[0]] = (product,)
            elif step.name in (ADD, WIDEN) and all(each is not None for each in operand_products) and keeps_all(step):
                matched[step.results[0]] = tuple(pair for each in operand_products for pair in each or ())
        inner = {step for step in steps for result in step.results if result in matched}
        roots = [
            (value, products)
            for value, products in matched.items()
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
        """Numbers of the block arguments that are factors."""
        return {argument for _, products in self.roots for pair in products for argument in pair}


def keeps_all(step: ir.Operation) -> bool:
    """Return whether a step cannot overflow before i32: its result is i32, or it has the `nsw` flag."""
    flags = str(step.attributes["overflowFlags"]) if "overflowFlags" in step.attributes else ""
    return str(step.results[0].type) == "i32" or "nsw" in flags


def product_of(step: ir.Operation, addresses: Sequence[Address]) -> Product | None:
    """Match a product of i8 and a weight constant along the last loop; return its block arguments, or `None`."""
    arguments = []
    for operand in step.operands:
        widening = maker(operand)
        source = widening.operands[0] if widening is not None and widening.name == WIDEN else operand
        if not isinstance(source, ir.BlockArgument) or str(source.type) != "i8":
            return None
        arguments.append(ir.BlockArgument(source).arg_number)
    is_constant = [not addresses[argument].strides[-1] for argument in arguments]
    if is_constant == [True, False]:
        arguments.reverse()
    return (arguments[0], arguments[1]) if sorted(is_constant) == [False, True] else None


@dataclass(frozen=True)
class ByteWindow:
    """Up to four neighbours in memory that one instruction multiplies.

    Attributes:
        first: Address of the first neighbour.
        weights: Block argument of each neighbour's weight; `None` for none.
    """

    first: Address
    weights: tuple[int | None, ...]

    @property
    def reach(self) -> int:
        """Distance of the last neighbour from the first."""
        return max(number for number, weight in enumerate(self.weights) if weight is not None)

    def is_ahead_of(self, other: "ByteWindow", loop: int) -> bool:
        """Return whether `other` reads, in the next iteration of a loop, the neighbours that this window reads now."""
        step = other.first.strides[loop]
        same_line = (self.first.line, self.reach) == (other.first.line, other.reach)
        return same_line and step > 0 and self.first.constant == other.first.constant + step


def windows_of(products: Sequence[Product], addresses: Sequence[Address]) -> Iterator[ByteWindow]:
    """Partition products into windows of at most four neighbours."""
    remaining = sorted(products, key=lambda pair: addresses[pair[0]].constant)
    while remaining:
        first = addresses[remaining[0][0]]
        weights: list[int | None] = [None] * WORD
        rest = []
        for pair in remaining:
            address = addresses[pair[0]]
            ahead = address.constant - first.constant
            if address.line == first.line and ahead < WORD and weights[ahead] is None:
                weights[ahead] = pair[1]
            else:
                rest.append(pair)
        yield ByteWindow(first, tuple(weights))
        remaining = rest


@dataclass(frozen=True)
class PackedWeights:
    """Loop-invariant values of a sum along a row.

    Attributes:
        words: Packed weights of each window, broadcast to all lanes.
        start: Initial value of the accumulator.
    """

    words: tuple[ir.Value, ...]
    start: ir.Value


def write_byte_windows(module: ir.Module) -> None:
    """Replace every marked op by its code.

    Raises:
        CompileError: Stage ``transform``; the result of a marked op is not indexed by a permutation of its loops.
    """
    for op in marked(module.operation, WINDOWS):
        (lanes,) = marked_numbers(op, WINDOWS)
        with ir.InsertionPoint(op), op.location:
            ByteWindowRows.of(op, lanes).write()
        op.erase()


@dataclass(frozen=True)
class ByteWindowRows:
    """Code generator of an op that sums windows, row by row.

    Attributes:
        body: Body of the op.
        sizes: Trip counts of its loops.
        addresses: Address of each operand.
        flat: One-dimensional view of each operand's array.
        sums: Sums of the body.
        windows: Windows of each sum.
        lanes: Elements per iteration.
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
        """Analyze an op, and build one-dimensional views of its arrays at the insertion point.

        Raises:
            CompileError: Stage ``transform``; its result is not indexed by a permutation of its loops.
        """
        body, maps = op.regions[0].blocks[0], indexing_maps(op)
        if not maps[-1].is_permutation:
            raise CompileError("transform", f"a sum of products of bytes must be written in order, got {maps[-1]}")
        addresses = [address_of(value, amap) for value, amap in zip(op.operands, maps, strict=True)]
        result_shape = ir.MemRefType(op.operands[len(maps) - 1].type).shape
        sizes = dict(zip(dimensions(maps[-1]), result_shape, strict=True))
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
        """Number of outer loops down to the innermost one that weights depend on."""
        weights = {
            each for windows in self.windows for window in windows for each in window.weights if each is not None
        }
        depths = [loop + 1 for each in weights for loop, stride in enumerate(self.addresses[each].strides) if stride]
        return max(depths, default=0)

    @cached_property
    def carried(self) -> dict[WindowPart, WindowPart]:
        """Map from windows of a row to windows of the previous row that read the same neighbours.

        Empty if weights change from row to row, or if the vectors would not fit in registers.
        """
        rows, starts = len(self.sizes) - 2, range(0, min(self.lanes, self.sizes[-1]), LANES)
        if rows < self.inner:
            return {}
        windows = {
            (root, number): each
            for root, root_windows in enumerate(self.windows)
            for number, each in enumerate(root_windows)
        }
        shared = {
            (*current, start): (*previous, start)
            for (current, window), (previous, previous_window) in product(windows.items(), repeat=2)
            for start in starts
            if previous_window.is_ahead_of(window, rows)
        }
        return shared if len(shared) <= MOST_CARRIED else {}

    def write(self, loops: Sequence[ir.Value] = (), packed: Sequence[PackedWeights] = ()) -> None:
        """Build the remaining loops inside `loops`; weights are packed outside of the loops they do not depend on.

        If rows share neighbours, the loop over rows is the innermost, inside the loop over columns.
        """
        if not packed and len(loops) == self.inner:
            packed = [self.pack_weights(loops, windows) for windows in self.windows]
        if self.carried and len(loops) == len(self.sizes) - 2:
            self.for_columns(lambda column, count: self.write_rows(loops, column, packed, count))
            return
        if len(loops) == len(self.sizes) - 1:
            self.for_columns(lambda column, count: self.write_step([*loops, column], packed, count, {}))
            return
        loop = scf.ForOp(index(0), index(self.sizes[len(loops)]), index(1))
        with ir.InsertionPoint(loop.body):
            self.write([*loops, loop.induction_variable], packed)
            scf.yield_([])

    def pack_weights(self, loops: Sequence[ir.Value], windows: Sequence[ByteWindow]) -> PackedWeights:
        """Pack the weights of windows, and compute the initial accumulator, -128 times the sum of weights."""
        words, sums, ones = [], splat(0, "i32"), splat(0x01010101, "i32")
        no_weight = arith.constant(ir.IntegerType.get_signless(8), 0)
        for window in windows:
            weights = [no_weight if each is None else self.load_scalar(each, loops) for each in window.weights]
            word = vector.bitcast(vector_of(1, "i32"), vector.from_elements(vector_of(WORD, "i8"), weights))
            words.append(vector.broadcast(vector_of(LANES, "i32"), vector.extract(word, [], [0])))
            sums = dot_bytes(sums, ones, words[-1])
        return PackedWeights(tuple(words), arith.muli(sums, splat(-SHIFT, "i32")))

    def load_scalar(self, argument: int, loops: Sequence[ir.Value]) -> ir.Value:
        """Load the element of an operand that is constant along a row."""
        unit = vector_of(1, str(self.body.arguments[argument].type))
        return vector.extract(vector.load(unit, self.flat[argument], [self.addresses[argument].at(loops)]), [], [0])

    def for_columns(self, write: Callable[[ir.Value, int], None]) -> None:
        """Build a loop over chunks of columns, and the remainder; `write` gets the first column and the count."""
        columns = self.sizes[-1]
        whole = columns // self.lanes * self.lanes
        if whole:
            loop = scf.ForOp(index(0), index(whole), index(self.lanes))
            with ir.InsertionPoint(loop.body):
                write(loop.induction_variable, self.lanes)
                scf.yield_([])
        if columns > whole:
            write(index(whole), columns - whole)

    def write_rows(
        self, loops: Sequence[ir.Value], column: ir.Value, packed: Sequence[PackedWeights], count: int
    ) -> None:
        """Write `count` columns of all rows; neighbours shared with the previous row are carried by the loop."""
        carried = {current: previous for current, previous in self.carried.items() if current[-1] < count}
        first = [*loops, index(0), column]
        initial = [
            self.neighbours(self.windows[root][number], first, start, min(LANES, count - start))
            for root, number, start in carried
        ]
        loop = scf.ForOp(index(0), index(self.sizes[-2]), index(1), initial)
        with ir.InsertionPoint(loop.body):
            neighbours = dict(zip(carried, loop.inner_iter_args, strict=True))
            self.write_step([*loops, loop.induction_variable, column], packed, count, neighbours)
            scf.yield_([neighbours[previous] for previous in carried.values()])

    def write_step(
        self,
        loops: Sequence[ir.Value],
        packed: Sequence[PackedWeights],
        count: int,
        neighbours: dict[WindowPart, ir.Value],
    ) -> None:
        """Write one step: `count` columns from the current one; missing neighbours are loaded, and added to the map."""
        lanes, target = -(-count // LANES) * LANES, len(self.addresses) - 1
        for root, windows in enumerate(self.windows):
            for number, start in product(range(len(windows)), range(0, count, LANES)):
                if (root, number, start) not in neighbours:
                    neighbours[root, number, start] = self.neighbours(
                        windows[number], loops, start, min(LANES, count - start)
                    )
        vectors = {
            value: self.sum_windows(neighbours, root, packed[root], count, lanes)
            for root, (value, _) in enumerate(self.sums.roots)
        }
        for number, argument in enumerate(list(self.body.arguments)[:-1]):
            if number not in self.sums.arguments:
                vectors[argument] = self.load(number, loops, count, lanes)
        (result,) = in_vectors(self.body, vectors, lanes, self.sums.steps)
        self.store(result, self.addresses[target], self.flat[target], loops, count)

    def load(self, argument: int, loops: Sequence[ir.Value], count: int, lanes: int) -> ir.Value:
        """Load `count` elements of an operand into a vector; an operand constant along the row is broadcast."""
        address, vector_type = self.addresses[argument], vector_of(lanes, str(self.body.arguments[argument].type))
        if not address.strides[-1]:
            return vector.broadcast(vector_type, self.load_scalar(argument, loops))
        if address.strides[-1] == 1:
            return self.load_side_by_side(self.flat[argument], address.at(loops), count, vector_type)
        offsets = [min(lane, count - 1) * address.strides[-1] for lane in range(lanes)]
        return self.load_apart(self.flat[argument], [address.at(loops, offset) for offset in offsets], vector_type)

    def load_side_by_side(self, flat: ir.Value, at: ir.Value, count: int, vector_type: ir.VectorType) -> ir.Value:
        """Load `count` contiguous elements, padded with zeros."""
        mask = vector.constant_mask(vector_of(vector_type.shape[0], "i1"), [count])
        return vector.maskedload(
            vector_type, flat, [at], mask, splat(0, str(vector_type.element_type), vector_type.shape[0])
        )

    def load_apart(self, flat: ir.Value, addresses: Sequence[ir.Value], vector_type: ir.VectorType) -> ir.Value:
        """Gather elements by scalar loads."""
        return vector.from_elements(vector_type, [memref.load(flat, [address]) for address in addresses])

    def store(self, values: ir.Value, address: Address, flat: ir.Value, loops: Sequence[ir.Value], count: int) -> None:
        """Store the first `count` elements of a vector."""
        if address.strides[-1] == 1:
            mask = vector.constant_mask(vector_of(ir.VectorType(values.type).shape[0], "i1"), [count])
            vector.maskedstore(flat, [address.at(loops)], mask, values)
            return
        for lane in range(count):
            at = address.at(loops, lane * address.strides[-1])
            memref.store(vector.extract(values, [], [lane]), flat, [at])

    def sum_windows(
        self, neighbours: dict[WindowPart, ir.Value], root: int, packed: PackedWeights, count: int, lanes: int
    ) -> ir.Value:
        """Compute a sum of all its windows for `count` columns."""
        sums = splat(0, "i32", lanes)
        for start in range(0, count, LANES):
            total = packed.start
            for number, words in enumerate(packed.words):
                total = dot_bytes(total, neighbours[root, number, start], words)
            sums = vector.insert_strided_slice(total, sums, [start], [1])
        return sums

    def neighbours(self, window: ByteWindow, loops: Sequence[ir.Value], start: int, count: int) -> ir.Value:
        """Load four neighbours of each of `count` columns, packed in words, as unsigned bytes."""
        address, stride, vector_type = window.first, window.first.strides[-1], vector_of(BYTES, "i8")
        flat = next(flat for flat, each in zip(self.flat, self.addresses, strict=True) if each == address)
        offsets = [lane * stride + number for lane in range(LANES) for number in range(WORD)]
        last = (count - 1) * stride + window.reach
        if offsets[-1] < BYTES:  # elements beyond the last are read as zero
            # Load half a vector if that suffices: with a whole one, LLVM 22 loops forever, moving the `xori` before and
            # after the shuffle, on targets with cheap cross-lane shuffles (`fast-variable-crosslane-shuffle`: Intel).
            source = vector_of(BYTES if offsets[-1] >= BYTES // 2 else BYTES // 2, "i8")
            elements = self.load_side_by_side(flat, address.at(loops, start * stride), last + 1, source)
            elements = vector.shuffle(elements, elements, offsets)
        else:
            addresses = [address.at(loops, start * stride + min(offset, last)) for offset in offsets]
            elements = self.load_apart(flat, addresses, vector_type)
        return vector.bitcast(vector_of(LANES, "i32"), arith.xori(elements, splat(SHIFT, "i8", BYTES)))
