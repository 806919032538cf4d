"""Infer the integers that a call may pass, so that every index computed from them is in bounds.

    row = ids[i] < 0 ? ids[i] + 7 : ids[i];  table[row, j]   ->   ids from -7 to 6

Integer ranges are computed by interval analysis (Cousot and Cousot 1977), from each index back to the arguments.
"""

import operator
from bisect import bisect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product

import numpy as np
from mlir import ir

from autotune.compiler.ir.nests import dimensions, element_type, indexing_maps

Range = tuple[int, int]  # half-open interval: lower bound, and exclusive upper bound
DEEPEST = 200  # limit of operations on a path between an argument and an index
MOST_STEPS = 10_000  # limit of operations visited for one index
MOST_BITS = 64
# Operations whose results contain only elements of their operands, all or some of them, in any order.
MOVES = (
    *("bufferization.to_tensor", "linalg.transpose", "linalg.broadcast", "linalg.copy", "linalg.fill"),
    *("tensor.cast", "tensor.expand_shape", "tensor.collapse_shape", "tensor.reshape", "tensor.extract_slice"),
    *("tensor.extract", "tensor.from_elements", "tensor.splat", "tensor.insert_slice", "tensor.insert"),
    *("tensor.concat", "memref.load", "arith.index_cast"),
)
# Of these, operations that combine elements of several operands.
SEVERAL = ("tensor.from_elements", "tensor.insert_slice", "tensor.insert", "tensor.concat")
# Position of the indexed operand.
READS = {"tensor.extract": 0, "memref.load": 0, "tensor.insert": 1, "memref.store": 1}
HARMLESS = ("arith.", "linalg.")  # operations that take indices without accessing memory by them
LOOP_BOUNDS = 3  # leading operands of scf.for: lower bound, upper bound, step
NOT_EQUAL = 1  # enum value of the predicate of arith.cmpi
# Bounds of x relative to c where x <predicate> c holds, by signed predicate of arith.cmpi.
BRANCHES = {0: (0, 0), 1: None, 2: (None, -1), 3: (None, 0), 4: (1, None), 5: (0, None)}


@dataclass
class Intervals:
    """Integer range analysis, given the ranges of the arguments of a function.

    Attributes:
        arguments: Ranges of arguments; any other argument may have every value of its type.
    """

    arguments: Mapping[ir.Value, Range]
    _known: dict[ir.Value, Range] = field(default_factory=dict)
    _steps: int = 0

    def of(self, value: ir.Value, refined: Mapping[ir.Value, Range] | None = None, depth: int = 0) -> Range:
        """Return the range of a scalar, or of the elements of a tensor.

        Args:
            value: Value of integer or index type.
            refined: Ranges that hold on this path only, such as in one branch of a select.
            depth: Number of operations followed so far.
        """
        refined = refined or {}
        if value in refined:
            return refined[value]
        if not refined and value in self._known:
            return self._known[value]
        full = type_range(value)
        self._steps += 1
        if depth > DEEPEST or self._steps > MOST_STEPS:
            return full
        low, high = self._of_op(value, refined, depth + 1) or full
        result = (low, high) if full[0] <= low and high <= full[1] else full  # otherwise it may overflow
        if not refined:
            self._known[value] = result
        return result

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
            lhs, rhs = (self.of(each, refined, depth) for each in op.operands)
            return compared(ir.IntegerAttr(op.attributes["predicate"]).value, lhs, rhs)
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
        ranges = []
        for value, holds in zip(values, (True, False), strict=True):
            more = self._where(condition, refined, depth, holds=holds)
            if more is not None:
                ranges.append(self.of(value, {**refined, **more}, depth))
        return join(ranges)

    def _where(
        self, condition: ir.Value, refined: Mapping[ir.Value, Range], depth: int, *, holds: bool
    ) -> dict[ir.Value, Range] | None:
        """Return ranges implied by a condition being true, or false; `None` if it cannot be."""
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
        predicate = ir.IntegerAttr(op.attributes["predicate"]).value
        predicate = predicate if holds else OPPOSITE.get(predicate, -1)
        offsets = BRANCHES.get(predicate)
        if offsets is None or limit[1] - limit[0] != 1:
            return {}
        low, high = self.of(value, refined, depth)
        least, most = (None if end is None else limit[0] + end for end in offsets)
        narrow = (low if least is None else max(low, least), high if most is None else min(high, most + 1))
        return dict.fromkeys(same_numbers(value), narrow) if narrow[0] < narrow[1] else None

    def _where_computed(self, condition: ir.BlockArgument, depth: int, *, holds: bool) -> dict[ir.Value, Range] | None:
        """Return ranges of the body arguments of a nest that a condition implies, itself computed by a preceding nest.

        Both nests must be element-wise with the same map, so that the condition is about the elements this nest reads.
        """
        nest = condition.owner.owner.operation
        producer = elementwise(nest.operands[condition.arg_number]) if nest.name == "linalg.generic" else None
        if producer is None or depth > DEEPEST:
            return {}
        known = self._where(yielded_by(producer), {}, depth + 1, holds=holds)
        if not known:
            return known
        elements = {producer.operands[v.arg_number]: each for v, each in known.items() if is_argument_of(v, producer)}
        maps, ranges = indexing_maps(nest), dict[ir.Value, Range]()
        for argument, operand, amap in zip(nest.regions[0].blocks[0].arguments, nest.operands, maps, strict=True):
            if amap != maps[condition.arg_number] or not is_whole(operand):
                continue
            if operand in elements:
                ranges[argument] = elements[operand]
            elif (operand_producer := elementwise(operand)) is not None:
                inner = zip(operand_producer.regions[0].blocks[0].arguments, operand_producer.operands, strict=True)
                bound = {each: elements[read] for each, read in inner if read in elements}
                if bound:
                    ranges[argument] = self.of(yielded_by(operand_producer), bound, depth + 1)
        return ranges

    def _of_nest(self, op: ir.Operation, number: int, refined: Mapping[ir.Value, Range], depth: int) -> Range | None:
        """Return the range of a result of a structured operation: the join of its initial value and what it yields.

        The range must be stable after one iteration; otherwise it is unknown.
        """
        if not op.regions or not op.regions[0].blocks:
            return None
        block = op.regions[0].blocks[0]
        terminator = list(block.operations)[-1].operation
        carried = block.arguments[len(block.arguments) - len(op.results) + number]
        initial = self.of(op.operands[carried.arg_number], refined, depth) if any(True for _ in carried.uses) else None
        yielded = terminator.operands[number]
        if initial is None:
            return self.of(yielded, refined, depth)
        first_range = join([initial, self.of(yielded, {**refined, carried: initial}, depth)])
        if first_range is None:
            return None
        next_range = self.of(yielded, {**refined, carried: first_range}, depth)
        return first_range if first_range[0] <= next_range[0] and next_range[1] <= first_range[1] else None


def accepted_ranges(function: ir.OpView, drawn: Mapping[ir.Value, Range]) -> dict[ir.Value, Range]:
    """Return the integer ranges of arguments for which all indices of a function are in bounds.

    Args:
        function: Function over memrefs.
        drawn: Range of the random data of each integer argument that the function does not write. Only this range is
            accepted if indices depend on the argument in a way that the analysis does not support.
    """
    feasible = {value: type_range(value) for value in drawn}
    for index, size in indices_in(function.operation):
        if is_within(Intervals(feasible).of(index), size):
            continue
        origins, is_all = sources_of(index)
        sources = list(drawn) if is_all else [value for value in drawn if value in origins]
        narrower = (narrow(feasible, sources[0], each) for each in candidates(feasible, sources, index, size))
        valid = (each for each in narrower if is_within(Intervals(each).of(index), size))
        solution = next(valid, dict[ir.Value, Range]())
        feasible = solution or {**feasible, **{value: meet(feasible[value], drawn[value]) for value in sources}}
    return feasible


def tested(condition: ir.Value) -> ir.Value:
    """Return the value that a condition tests for being nonzero, as booleans are stored as bytes."""
    while not isinstance(condition, ir.BlockArgument):
        op = condition.owner.operation
        is_widened = op.name in ("arith.extui", "arith.extsi")
        is_nonzero = op.name == "arith.cmpi" and ir.IntegerAttr(op.attributes["predicate"]).value == NOT_EQUAL
        if is_nonzero:
            limit = op.operands[1]
            producer = None if isinstance(limit, ir.BlockArgument) else limit.owner.operation
            is_nonzero = (
                producer is not None and producer.name == "arith.constant" and constant_range(producer) == (0, 1)
            )
        if not is_widened and not is_nonzero:
            break
        condition = op.operands[0]
    return condition


def same_numbers(value: ir.Value) -> Iterator[ir.Value]:
    """Yield a value, and the values that it is a sign extension of."""
    yield value
    while not isinstance(value, ir.BlockArgument) and value.owner.operation.name == "arith.extsi":
        value = value.owner.operation.operands[0]
        if element_type(value) == "i1":  # sign extension of true is -1
            return
        yield value


def elementwise(tensor: ir.Value) -> ir.Operation | None:
    """Return the element-wise operation that computes a tensor, operands read by one map; `None` if there is none."""
    if isinstance(tensor, ir.BlockArgument):
        return None
    op = tensor.owner.operation
    if op.name != "linalg.generic" or len(op.results) != 1:
        return None
    maps, block = indexing_maps(op), op.regions[0].blocks[0]
    is_plain = maps[0].is_permutation and all(each == maps[0] for each in maps)
    return op if is_plain and not list(block.arguments[len(block.arguments) - 1].uses) else None


def yielded_by(nest: ir.Operation) -> ir.Value:
    """Return the first value that the body of a structured operation yields."""
    return list(nest.regions[0].blocks[0].operations)[-1].operation.operands[0]


def is_argument_of(value: ir.Value, nest: ir.Operation) -> bool:
    """Return whether a value is a block argument of the body of a structured operation."""
    return isinstance(value, ir.BlockArgument) and value.owner == nest.regions[0].blocks[0]


def is_within(index: Range, size: int | None) -> bool:
    """Return whether an index range is known to be in bounds."""
    return size is not None and index[0] >= 0 and index[1] <= size


def narrow(ranges: Mapping[ir.Value, Range], value: ir.Value, to: Range) -> dict[ir.Value, Range]:
    """Return ranges with the range of one value intersected with another."""
    return {**ranges, value: meet(ranges[value], to)}


def candidates(
    ranges: Mapping[ir.Value, Range], sources: list[ir.Value], index: ir.Value, size: int | None
) -> list[Range]:
    """Return candidate ranges for the only argument that an index depends on, the widest first."""
    if size is None or len(sources) != 1:
        return []
    shift = Intervals({**ranges, sources[0]: (0, 1)}).of(index)
    shifted = [(-shift[0], size - shift[0])] if shift[1] - shift[0] == 1 else []
    most = type_range(sources[0])[1]

    def is_valid(end: int) -> bool:
        """Return whether the index is in bounds if the argument is in [0, end)."""
        return is_within(Intervals({**ranges, sources[0]: (0, end)}).of(index), size)

    longest = most - 1 if is_valid(size + 1) else size  # most indices are the argument itself: few steps
    inside = bisect(range(longest), 0, key=lambda end: not is_valid(end + 1))
    wider = [(low, inside) for low in (-inside, 0) if inside > size]
    narrower = [(low, inside) for low in (-inside, 0) if 0 < inside < size]
    return [(0, most), *wider, (-size, size), (0, size), *shifted, *narrower]


def indices_in(op: ir.Operation) -> Iterator[tuple[ir.Value, int | None]]:
    """Yield every index of a memory access, with the size of the indexed dimension; `None` if it is unknown."""
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
    """Return the size of a dimension; `None` if it is dynamic."""
    shaped_type = ir.ShapedType(value.type)
    return None if shaped_type.is_dynamic_dim(dim) else shaped_type.get_dim_size(dim)


def sources_of(value: ir.Value) -> tuple[set[ir.Value], bool]:
    """Return the arguments that a value depends on, and whether it may depend on others through memory."""
    seen, worklist, arguments, is_all = {value}, [value], set[ir.Value](), False
    while worklist:
        each = worklist.pop()
        if isinstance(each, ir.BlockArgument) and each.owner.owner.operation.name == "func.func":
            arguments.add(each)
            continue
        is_all = is_all or isinstance(each.type, ir.MemRefType)
        fresh = {v for v in made_of(each) if v not in seen}
        seen |= fresh
        worklist += fresh
    return arguments, is_all


def made_of(value: ir.Value) -> Iterator[ir.Value]:
    """Yield the values that a value directly depends on; an element that is read depends on the whole tensor."""
    is_argument = isinstance(value, ir.BlockArgument)
    op = value.owner.owner.operation if is_argument else value.owner.operation
    blocks = [block for region in op.regions for block in region.blocks]
    yielded = (each for block in blocks for each in list(block.operations)[-1].operation.operands)
    if op.name in ("tensor.extract", "memref.load"):
        yield op.operands[0]
    elif op.name == "scf.for":
        yield from made_of_loop(op, value.arg_number - 1 if is_argument else ir.OpResult(value).result_number)
    elif not op.name.startswith("linalg.") or not blocks:
        yield from op.operands
        yield from yielded
    elif not is_argument:
        yield from yielded
    else:
        yield op.operands[value.arg_number]
        if value.arg_number >= len(op.operands) - len(op.results):
            yield from yielded


def made_of_loop(loop: ir.Operation, carried: int) -> Iterator[ir.Value]:
    """Yield the values that a loop-carried value depends on; the loop bounds for the induction variable, -1."""
    if carried < 0:
        yield from list(loop.operands)[:LOOP_BOUNDS]
    else:
        yield loop.operands[LOOP_BOUNDS + carried]
        yield list(loop.regions[0].blocks[0].operations)[-1].operation.operands[carried]


def type_range(value: ir.Value) -> Range:
    """Return the range of values of a type; an index has 64 bits."""
    dtype = element_type(value)
    if dtype == "i1":
        return 0, 2
    bits = int(dtype[1:]) if dtype[:1] == "i" and dtype[1:].isdigit() else MOST_BITS
    return -(1 << (bits - 1)), 1 << (bits - 1)


def is_whole(value: ir.Value) -> bool:
    """Return whether a value is an integer or index, or a tensor or memref of them."""
    dtype = element_type(value)
    return dtype == "index" or (dtype[:1] == "i" and dtype[1:].isdigit())


def constant_range(op: ir.Operation) -> Range | None:
    """Return the range of an integer constant, or of its elements; `None` for any other constant."""
    attribute = op.attributes["value"]
    if isinstance(attribute, ir.IntegerAttr | ir.BoolAttr):
        number = int(attribute.value)
        return number, number + 1
    if isinstance(attribute, ir.DenseElementsAttr) and is_whole(op.results[0]):
        if attribute.is_splat:
            number = int(attribute.get_splat_value().value)
            return number, number + 1
        numbers = np.asarray(attribute)
        return (int(numbers.min()), int(numbers.max()) + 1) if numbers.size else None
    return None


def loop_range(op: ir.Operation) -> Range | None:
    """Return the range of a `linalg.index`, from the static sizes of operands; `None` if it is unknown."""
    nest, dim = op.parent.operation, ir.IntegerAttr(op.attributes["dim"]).value
    for operand, amap in zip(nest.operands, indexing_maps(nest), strict=True):
        for number, position in enumerate(dimensions(amap)):
            if position == dim and not ir.ShapedType(operand.type).is_dynamic_dim(number):
                return 0, ir.ShapedType(operand.type).get_dim_size(number)
    return None


def steps_between(begin: Range, end: Range, step: Range) -> Range | None:
    """Return the range of the induction variable of a loop; `None` if its step may be 0 or negative."""
    if step[0] < 1:
        return None
    last = max(begin[0], end[1] - 2)
    if begin[1] - begin[0] == end[1] - end[0] == step[1] - step[0] == 1:
        last -= (last - begin[0]) % step[0]
    return begin[0], last + 1


def join(ranges: list[Range]) -> Range | None:
    """Return the smallest range that contains all ranges; `None` if there are none."""
    return (min(low for low, _ in ranges), max(high for _, high in ranges)) if ranges else None


def meet(one: Range, other: Range) -> Range:
    """Return the intersection of two ranges; the second if it is empty."""
    low, high = max(one[0], other[0]), min(one[1], other[1])
    return (low, high) if low < high else other


def over_ends(operation: Callable[[int, int], int], a: Range, b: Range) -> Range:
    """Return the range of an operation that is monotonic in each operand, from its results at their bounds."""
    ends = [operation(x, y) for x, y in product((a[0], a[1] - 1), (b[0], b[1] - 1))]
    return min(ends), max(ends) + 1


def compared(how: int, a: Range, b: Range) -> Range | None:
    """Return the range of a signed comparison, by enum value of its predicate; `None` if the outcome is unknown."""
    disjoint = a[1] <= b[0] or b[1] <= a[0]
    surely = {
        0: a == b and a[1] - a[0] == 1,
        1: disjoint,
        2: a[1] - 1 < b[0],
        3: a[1] <= b[0] + 1,
        4: a[0] > b[1] - 1,
        5: a[0] >= b[1] - 1,
    }
    if surely.get(how):
        return 1, 2
    return (0, 1) if surely.get(OPPOSITE.get(how, -1)) else None


def rest(a: Range, b: Range) -> Range | None:
    """Return the range of signed remainders by a positive divisor; `None` for other divisors."""
    if b[0] <= 0:
        return None
    most = b[1] - 2
    return -most if a[0] < 0 else 0, (most if a[1] > 1 else 0) + 1


def unsigned_rest(a: Range, b: Range) -> Range | None:
    """Return the range of unsigned remainders by a positive divisor, of any dividend; `None` for other divisors."""
    if b[0] <= 0:
        return None
    return (0, b[1] - 1) if a[0] < 0 else (0, min(a[1], b[1] - 1))


def to_zero(x: int, y: int) -> int:
    """Return a quotient by a positive divisor, rounded to zero."""
    return x // y if x >= 0 else -(-x // y)


def quotients(a: Range, b: Range, divide: Callable[[int, int], int] = to_zero) -> Range | None:
    """Return the range of quotients by a positive divisor, rounded as `divide` does; `None` for other divisors."""
    return over_ends(divide, a, b) if b[0] > 0 else None


def shifted_right(a: Range, b: Range) -> Range | None:
    """Return the range of arithmetic right shifts; `None` if a shift may be negative, or not less than the width."""
    return over_ends(operator.rshift, a, b) if b[0] >= 0 and b[1] <= MOST_BITS else None


def both_bits(a: Range, b: Range) -> Range | None:
    """Return the range of bitwise conjunctions; `None` if both operands may be negative."""
    bounds = [high for low, high in (a, b) if low >= 0]
    return (0, min(bounds)) if bounds else None


def unsigned_least(a: Range, b: Range) -> Range | None:
    """Return the range of unsigned minima, where a negative number counts as a large one."""
    if a[0] >= 0 and b[0] >= 0:
        return min(a[0], b[0]), min(a[1], b[1])
    return both_bits(a, b)


OPPOSITE = {0: 1, 1: 0, 2: 5, 3: 4, 4: 3, 5: 2}  # negated predicates of arith.cmpi
ARITHMETIC: Mapping[str, Callable[..., Range | None]] = {
    "arith.addi": lambda a, b: (a[0] + b[0], a[1] + b[1] - 1),
    "arith.subi": lambda a, b: (a[0] - b[1] + 1, a[1] - b[0]),
    "arith.muli": lambda a, b: over_ends(operator.mul, a, b),
    "arith.remsi": rest,
    "arith.remui": unsigned_rest,
    "arith.divsi": quotients,
    "arith.divui": lambda a, b: quotients(a, b) if a[0] >= 0 else None,
    "arith.floordivsi": lambda a, b: quotients(a, b, operator.floordiv),
    "arith.shrsi": shifted_right,
    "arith.shrui": lambda a, b: shifted_right(a, b) if a[0] >= 0 else None,
    "arith.andi": both_bits,
    "arith.minui": unsigned_least,
    "arith.maxsi": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "arith.minsi": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "arith.index_castui": lambda a: a if a[0] >= 0 else None,
    "arith.extui": lambda a: a if a[0] >= 0 else None,
    "arith.extsi": lambda a: a,
    "arith.trunci": lambda a: a,
}
