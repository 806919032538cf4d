"""Which whole numbers a call may give: any, but where they become indices, which must be inside of what they index.

    row = ids[i] < 0 ? ids[i] + 7 : ids[i];  table[row, j]   ->   ids from -7 to 6

Ranges of whole numbers are computed by interval arithmetic (Cousot and Cousot 1977), from each index back to arguments.
"""

from bisect import bisect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product

import numpy as np
from mlir import ir

from autotune.compiler.ir.nests import dimensions, element_type, indexing_maps

Range = tuple[int, int]  # least whole number, and the one above the largest
DEEPEST = 200  # ops between an argument and an index
MOST_STEPS = 10_000  # ops that are looked at for one index
MOST_BITS = 64
# Ops that give the elements of their first operands, all or some of them, wherever these are.
MOVES = (
    *("bufferization.to_tensor", "linalg.transpose", "linalg.broadcast", "linalg.copy", "linalg.fill"),
    *("tensor.cast", "tensor.expand_shape", "tensor.collapse_shape", "tensor.reshape", "tensor.extract_slice"),
    *("tensor.extract", "tensor.from_elements", "tensor.splat", "tensor.insert_slice", "tensor.insert"),
    *("tensor.concat", "memref.load", "arith.index_cast"),
)
SEVERAL = ("tensor.from_elements", "tensor.insert_slice", "tensor.insert", "tensor.concat")  # of their values
READS = {"tensor.extract": 0, "memref.load": 0, "tensor.insert": 1, "memref.store": 1}  # operand that is indexed
HARMLESS = ("arith.", "linalg.")  # ops that take indices and touch no memory by them
LOOP_BOUNDS = 3  # first operands of a loop: where it begins, where it ends, its step
NOT_EQUAL = 1  # MLIR's number of a predicate
BRANCHES = {0: (0, 0), 1: None, 2: (None, -1), 3: (None, 0), 4: (1, None), 5: (0, None)}  # of cmpi, signed


@dataclass
class Intervals:
    """Ranges of whole numbers, given those of a function's arguments.

    Attributes:
        arguments: Ranges of arguments; any number of its type for others.
    """

    arguments: Mapping[ir.Value, Range]
    _known: dict[ir.Value, Range] = field(default_factory=dict)
    _steps: int = 0

    def of(self, value: ir.Value, refined: Mapping[ir.Value, Range] | None = None, depth: int = 0) -> Range:
        """Range of a value, or of the elements of a tensor.

        Args:
            value: A value of whole numbers.
            refined: Ranges that hold on this way alone, such as in one branch of a choice.
            depth: Ops that were followed so far.
        """
        refined = refined or {}
        if value in refined:
            return refined[value]
        if not refined and value in self._known:
            return self._known[value]
        whole = type_range(value)
        self._steps += 1
        if depth > DEEPEST or self._steps > MOST_STEPS:
            return whole
        low, high = self._of_op(value, refined, depth + 1) or whole
        found = (low, high) if whole[0] <= low and high <= whole[1] else whole  # else it wraps
        if not refined:
            self._known[value] = found
        return found

    def _of_op(  # noqa: PLR0911 - one for each kind of op
        self, value: ir.Value, refined: Mapping[ir.Value, Range], depth: int
    ) -> Range | None:
        if isinstance(value, ir.BlockArgument):
            return self._of_argument(value, refined, depth)
        op = ir.OpResult(value).owner.operation
        if op.name == "arith.constant":
            return constant_range(op)
        if op.name == "linalg.index":
            return loop_range(op)
        if op.name == "arith.select":
            return self._of_choice(op, refined, depth)
        if op.name == "linalg.generic" or (op.name.startswith("linalg.") and op.name not in MOVES):
            return self._of_nest(op, ir.OpResult(value).result_number, refined, depth)
        if op.name in MOVES:
            values = list(op.operands) if op.name in SEVERAL else [op.operands[0]]
            return join([self.of(each, refined, depth) for each in values if is_whole(each)])
        if op.name == "arith.cmpi":
            one, other = (self.of(each, refined, depth) for each in op.operands)
            return compared(ir.IntegerAttr(op.attributes["predicate"]).value, one, other)
        if op.name == "arith.extsi" and element_type(op.operands[0]) == "i1":
            return -1, 1
        if op.name in ARITHMETIC and all(is_whole(each) for each in op.operands):
            return ARITHMETIC[op.name](*(self.of(each, refined, depth) for each in op.operands))
        return None

    def _of_argument(self, value: ir.BlockArgument, refined: Mapping[ir.Value, Range], depth: int) -> Range | None:
        if value in self.arguments:
            return self.arguments[value]
        owner = value.owner.owner.operation
        if owner.name.startswith("linalg."):
            return self.of(owner.operands[value.arg_number], refined, depth)
        if owner.name == "scf.for" and value.arg_number == 0:
            return steps_between(*(self.of(each, refined, depth) for each in list(owner.operands)[:LOOP_BOUNDS]))
        return None

    def _of_choice(self, op: ir.Operation, refined: Mapping[ir.Value, Range], depth: int) -> Range | None:
        condition, *values = op.operands
        found = []
        for value, holds in zip(values, (True, False), strict=True):
            more = self._where(condition, refined, depth, holds=holds)
            if more is not None:
                found.append(self.of(value, {**refined, **more}, depth))
        return join(found)

    def _where(
        self, condition: ir.Value, refined: Mapping[ir.Value, Range], depth: int, *, holds: bool
    ) -> dict[ir.Value, Range] | None:
        """What is known besides where a comparison of a value with a constant holds, or not; `None`: it never does."""
        if int(holds) not in range(*self.of(condition, refined, depth)):
            return None
        condition = tested(condition)
        if isinstance(condition, ir.BlockArgument):
            return self._where_computed(condition, depth, holds=holds)
        if condition.owner.operation.name != "arith.cmpi":
            return {}
        op = condition.owner.operation
        value, with_value = op.operands
        limit = self.of(with_value, refined, depth)
        how = ir.IntegerAttr(op.attributes["predicate"]).value
        how = how if holds else OPPOSITE.get(how, -1)
        ends = BRANCHES.get(how)
        if ends is None or limit[1] - limit[0] != 1:
            return {}
        low, high = self.of(value, refined, depth)
        least, most = (None if end is None else limit[0] + end for end in ends)
        narrow = (low if least is None else max(low, least), high if most is None else min(high, most + 1))
        return dict.fromkeys(same_numbers(value), narrow) if narrow[0] < narrow[1] else None

    def _where_computed(self, condition: ir.BlockArgument, depth: int, *, holds: bool) -> dict[ir.Value, Range] | None:
        """What is known of other elements of a nest where one holds that a nest before computed of the same ones."""
        nest = condition.owner.owner.operation
        maker = elementwise(nest.operands[condition.arg_number]) if nest.name == "linalg.generic" else None
        if maker is None or depth > DEEPEST:
            return {}
        known = self._where(yielded_by(maker), {}, depth + 1, holds=holds)
        if not known:
            return known
        elements = {maker.operands[v.arg_number]: each for v, each in known.items() if is_argument_of(v, maker)}
        maps, found = indexing_maps(nest), dict[ir.Value, Range]()
        for argument, operand, amap in zip(nest.regions[0].blocks[0].arguments, nest.operands, maps, strict=True):
            if amap != maps[condition.arg_number] or not is_whole(operand):
                continue
            if operand in elements:
                found[argument] = elements[operand]
            elif (other := elementwise(operand)) is not None:
                inner = zip(other.regions[0].blocks[0].arguments, other.operands, strict=True)
                bound = {each: elements[read] for each, read in inner if read in elements}
                if bound:
                    found[argument] = self.of(yielded_by(other), bound, depth + 1)
        return found

    def _of_nest(self, op: ir.Operation, number: int, refined: Mapping[ir.Value, Range], depth: int) -> Range | None:
        """Range of what a structured op gives: what it begins with, and what an iteration yields of that."""
        if not op.regions or not op.regions[0].blocks:
            return None
        block = op.regions[0].blocks[0]
        terminator = list(block.operations)[-1].operation
        carried = block.arguments[len(block.arguments) - len(op.results) + number]
        begin = self.of(op.operands[carried.arg_number], refined, depth) if any(True for _ in carried.uses) else None
        yielded = terminator.operands[number]
        if begin is None:
            return self.of(yielded, refined, depth)
        once = join([begin, self.of(yielded, {**refined, carried: begin}, depth)])
        if once is None:
            return None
        again = self.of(yielded, {**refined, carried: once}, depth)
        return once if once[0] <= again[0] and again[1] <= once[1] else None


def accepted_ranges(function: ir.OpView, drawn: Mapping[ir.Value, Range]) -> dict[ir.Value, Range]:
    """Ranges of whole numbers with which a function reads and writes inside of its tensors, by argument.

    Args:
        function: The function, its arguments memrefs.
        drawn: Range of the random data of each argument of whole numbers that the function does not write. It is
            accepted alone where numbers become indices in a way that is not understood.
    """
    found = {value: type_range(value) for value in drawn}
    for index, size in indices_in(function.operation):
        if is_within(Intervals(found).of(index), size):
            continue
        reached, is_all = sources_of(index)
        sources = list(drawn) if is_all else [value for value in drawn if value in reached]
        narrower = (narrow(found, sources[0], each) for each in candidates(found, sources, index, size))
        right = (each for each in narrower if is_within(Intervals(each).of(index), size))
        known = next(right, dict[ir.Value, Range]())
        found = known or {**found, **{value: meet(found[value], drawn[value]) for value in sources}}
    return found


def tested(condition: ir.Value) -> ir.Value:
    """The value that a condition says is not 0: booleans are stored in bytes."""
    while not isinstance(condition, ir.BlockArgument):
        op = condition.owner.operation
        is_widened = op.name in ("arith.extui", "arith.extsi")
        is_nonzero = op.name == "arith.cmpi" and ir.IntegerAttr(op.attributes["predicate"]).value == NOT_EQUAL
        if is_nonzero:
            limit = op.operands[1]
            made = None if isinstance(limit, ir.BlockArgument) else limit.owner.operation
            is_nonzero = made is not None and made.name == "arith.constant" and constant_range(made) == (0, 1)
        if not is_widened and not is_nonzero:
            break
        condition = op.operands[0]
    return condition


def same_numbers(value: ir.Value) -> Iterator[ir.Value]:
    """A value, and those that it is as a wider number."""
    yield value
    while not isinstance(value, ir.BlockArgument) and value.owner.operation.name == "arith.extsi":
        value = value.owner.operation.operands[0]
        if element_type(value) == "i1":  # which is -1 where it is true
            return
        yield value


def elementwise(tensor: ir.Value) -> ir.Operation | None:
    """The nest that makes each element of a tensor of the elements at the same indices; `None` where none does."""
    if isinstance(tensor, ir.BlockArgument):
        return None
    op = tensor.owner.operation
    if op.name != "linalg.generic" or len(op.results) != 1:
        return None
    maps, block = indexing_maps(op), op.regions[0].blocks[0]
    is_plain = maps[0].is_permutation and all(each == maps[0] for each in maps)
    return op if is_plain and not list(block.arguments[len(block.arguments) - 1].uses) else None


def yielded_by(nest: ir.Operation) -> ir.Value:
    """The first element that an iteration of a nest gives."""
    return list(nest.regions[0].blocks[0].operations)[-1].operation.operands[0]


def is_argument_of(value: ir.Value, nest: ir.Operation) -> bool:
    """Tell whether a value is an element that a nest is given."""
    return isinstance(value, ir.BlockArgument) and value.owner == nest.regions[0].blocks[0]


def is_within(index: Range, size: int | None) -> bool:
    """Tell whether indices are surely those of elements."""
    return size is not None and index[0] >= 0 and index[1] <= size


def narrow(found: Mapping[ir.Value, Range], value: ir.Value, to: Range) -> dict[ir.Value, Range]:
    """Ranges of which one is narrower."""
    return {**found, value: meet(found[value], to)}


def candidates(
    found: Mapping[ir.Value, Range], sources: list[ir.Value], index: ir.Value, size: int | None
) -> list[Range]:
    """Ranges to try for the one argument that an index comes from, the widest first."""
    if size is None or len(sources) != 1:
        return []
    shift = Intervals({**found, sources[0]: (0, 1)}).of(index)
    shifted = [(-shift[0], size - shift[0])] if shift[1] - shift[0] == 1 else []
    inside = bisect(range(size), 0, key=lambda end: not is_within(of_ends(found, sources[0], index, end + 1), size))
    return [
        (0, type_range(sources[0])[1]),
        (-size, size),
        (0, size),
        *shifted,
        *([(-inside, inside), (0, inside)] if inside else []),
    ]


def of_ends(found: Mapping[ir.Value, Range], source: ir.Value, index: ir.Value, end: int) -> Range:
    """Range of an index where an argument is from 0 to below an end."""
    return Intervals({**found, source: (0, end)}).of(index)


def indices_in(op: ir.Operation) -> Iterator[tuple[ir.Value, int | None]]:
    """Values that memory is read or written at, each with how many elements there are; `None` where it is not known."""
    for region in op.regions:
        for block in region.blocks:
            for each in block.operations:
                inner = each.operation
                first = READS.get(inner.name)
                for number, value in enumerate(inner.operands):
                    if str(value.type) != "index" or inner.name.startswith(HARMLESS):
                        continue
                    if first is not None and number > first:
                        yield value, extent(inner.operands[first], number - first - 1)
                    else:
                        yield value, None
                yield from indices_in(inner)


def extent(value: ir.Value, dim: int) -> int | None:
    """Size of a dimension; `None` where it is not known beforehand."""
    kind = ir.ShapedType(value.type)
    return None if kind.is_dynamic_dim(dim) else kind.get_dim_size(dim)


def sources_of(value: ir.Value) -> tuple[set[ir.Value], bool]:
    """Arguments of the function that a value is computed of, and whether others may be: memory was written."""
    seen, waiting, found, is_all = {value}, [value], set[ir.Value](), False
    while waiting:
        each = waiting.pop()
        if isinstance(each, ir.BlockArgument) and each.owner.owner.operation.name == "func.func":
            found.add(each)
            continue
        is_all = is_all or isinstance(each.type, ir.MemRefType)
        fresh = {v for v in made_of(each) if v not in seen}
        seen |= fresh
        waiting += fresh
    return found, is_all


def made_of(value: ir.Value) -> Iterator[ir.Value]:
    """What a value is computed of in one step; an element that is read is made of the elements there are."""
    is_given = isinstance(value, ir.BlockArgument)
    op = value.owner.owner.operation if is_given else value.owner.operation
    blocks = [block for region in op.regions for block in region.blocks]
    yielded = (each for block in blocks for each in list(block.operations)[-1].operation.operands)
    if op.name in ("tensor.extract", "memref.load"):
        yield op.operands[0]
    elif op.name == "scf.for":
        yield from made_of_loop(op, value.arg_number - 1 if is_given else ir.OpResult(value).result_number)
    elif not op.name.startswith("linalg.") or not blocks:
        yield from op.operands
        yield from yielded
    elif not is_given:
        yield from yielded
    else:
        yield op.operands[value.arg_number]
        if value.arg_number >= len(op.operands) - len(op.results):
            yield from yielded


def made_of_loop(loop: ir.Operation, carried: int) -> Iterator[ir.Value]:
    """What a number that a loop carries is made of; of its index, -1, the bounds: what is carried decides no step."""
    if carried < 0:
        yield from list(loop.operands)[:LOOP_BOUNDS]
    else:
        yield loop.operands[LOOP_BOUNDS + carried]
        yield list(loop.regions[0].blocks[0].operations)[-1].operation.operands[carried]


def type_range(value: ir.Value) -> Range:
    """Numbers that a type holds; an index is 64 bits wide."""
    kind = element_type(value)
    if kind == "i1":
        return 0, 2
    bits = int(kind[1:]) if kind[:1] == "i" and kind[1:].isdigit() else MOST_BITS
    return -(1 << (bits - 1)), 1 << (bits - 1)


def is_whole(value: ir.Value) -> bool:
    """Tell whether a value is a whole number, or holds such."""
    kind = element_type(value)
    return kind == "index" or (kind[:1] == "i" and kind[1:].isdigit())


def constant_range(op: ir.Operation) -> Range | None:
    """Range of a constant's numbers."""
    held = op.attributes["value"]
    if isinstance(held, ir.IntegerAttr | ir.BoolAttr):
        number = int(held.value)
        return number, number + 1
    if isinstance(held, ir.DenseElementsAttr) and is_whole(op.results[0]):
        if held.is_splat:
            number = int(held.get_splat_value().value)
            return number, number + 1
        numbers = np.asarray(held)
        return (int(numbers.min()), int(numbers.max()) + 1) if numbers.size else None
    return None


def loop_range(op: ir.Operation) -> Range | None:
    """Range of a loop's index of a structured op, where the sizes are those of an operand."""
    nest, dim = op.parent.operation, ir.IntegerAttr(op.attributes["dim"]).value
    for operand, amap in zip(nest.operands, indexing_maps(nest), strict=True):
        for number, position in enumerate(dimensions(amap)):
            if position == dim and not ir.ShapedType(operand.type).is_dynamic_dim(number):
                return 0, ir.ShapedType(operand.type).get_dim_size(number)
    return None


def steps_between(begin: Range, end: Range, step: Range) -> Range | None:
    """Range of a loop's index, steps beyond the first included; `None` where it may step backwards."""
    if step[0] < 1:
        return None
    last = max(begin[0], end[1] - 2)
    if begin[1] - begin[0] == end[1] - end[0] == step[1] - step[0] == 1:
        last -= (last - begin[0]) % step[0]
    return begin[0], last + 1


def join(ranges: list[Range]) -> Range | None:
    """The least range that holds others; `None` where there is none."""
    return (min(low for low, _ in ranges), max(high for _, high in ranges)) if ranges else None


def meet(one: Range, other: Range) -> Range:
    """What two ranges share; the second where that is nothing."""
    low, high = max(one[0], other[0]), min(one[1], other[1])
    return (low, high) if low < high else other


def times(a: Range, b: Range) -> Range:
    """Range of products."""
    ends = [x * y for x, y in product((a[0], a[1] - 1), (b[0], b[1] - 1))]
    return min(ends), max(ends) + 1


def compared(how: int, a: Range, b: Range) -> Range | None:
    """Range of a comparison, 0 or 1, by MLIR's number of a signed predicate."""
    apart = a[1] <= b[0] or b[1] <= a[0]
    surely = {
        0: a == b and a[1] - a[0] == 1,
        1: apart,
        2: a[1] - 1 < b[0],
        3: a[1] <= b[0] + 1,
        4: a[0] > b[1] - 1,
        5: a[0] >= b[1] - 1,
    }
    if surely.get(how):
        return 1, 2
    return (0, 1) if surely.get(OPPOSITE.get(how, -1)) else None


def rest(a: Range, b: Range) -> Range | None:
    """Range of remainders by a positive divisor, of the sign of what is divided."""
    if b[0] <= 0:
        return None
    most = b[1] - 2
    return -most if a[0] < 0 else 0, (most if a[1] > 1 else 0) + 1


OPPOSITE = {0: 1, 1: 0, 2: 5, 3: 4, 4: 3, 5: 2}  # of predicates of cmpi
ARITHMETIC: Mapping[str, Callable[..., Range | None]] = {
    "arith.addi": lambda a, b: (a[0] + b[0], a[1] + b[1] - 1),
    "arith.subi": lambda a, b: (a[0] - b[1] + 1, a[1] - b[0]),
    "arith.muli": times,
    "arith.remsi": rest,
    "arith.maxsi": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "arith.minsi": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "arith.index_castui": lambda a: a if a[0] >= 0 else None,
    "arith.extui": lambda a: a if a[0] >= 0 else None,
    "arith.extsi": lambda a: a,
    "arith.trunci": lambda a: a,
}
