"""Masked ends: vectors of other lengths than powers of two grow to the next one, and memory is masked.

    %v = vector.load %b[%k, %j] : vector<13xf32>   ->   %v = vector.maskedload %b[%k, %j], [13], 0 : vector<16xf32>

LLVM takes vectors of such lengths apart into scalars. Where a processor masks loads and stores, an end of 13 columns so
takes one vector, where powers of two take three. What lies behind the end is computed and never stored.

Values that an op relates grow together, or not at all: a group with an op that is not known here, or that could trap on
what lies behind the end, such as a division of integers, stays as it is.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from mlir import ir
from mlir.dialects import arith, vector

from autotune.compiler.ir.module import every_op
from autotune.compiler.ir.values import splat_of
from autotune.compiler.passes.fastmath import reduced_by
from autotune.core.scripts.marks import MASKED

LOAD, STORE, REDUCTION = "vector.load", "vector.store", "vector.reduction"
BY_ROW = ("vector.extract", "vector.fma", "vector.insert", "ub.poison")
TRAPPING = ("arith.divsi", "arith.divui", "arith.remsi", "arith.remui", "arith.ceildivsi", "arith.floordivsi")
BOUNDS = 3  # operands of a loop before what it carries
LARGEST = float("inf")
NEUTRAL = {
    "add": 0.0,
    "mul": 1.0,
    "minimumf": LARGEST,
    "minnumf": LARGEST,
    "maximumf": -LARGEST,
    "maxnumf": -LARGEST,
}  # of a reduction of floats, by its kind


def mask_ends(module: ir.Module) -> None:
    """Let vectors of a bufferized module grow to powers of two, in place."""
    ops = every_op(module)
    groups = VectorGroups()
    for op in ops:
        groups.take(op)
    lengths = {value: ir.VectorType(value.type).shape[-1] for value in groups.growing()}
    for value in lengths:
        value.set_type(grown(value.type))
    changed = [(op, length_of(op, lengths)) for op in ops if op.name in FINISH]  # before loads have other results
    for op, length in changed:
        if length:
            with ir.InsertionPoint(op), op.location:
                FINISH[op.name](op, length)
    for function in module.body.operations:
        if MASKED in function.attributes:
            del function.attributes[MASKED]


def length_of(op: ir.Operation, lengths: Mapping[ir.Value, int]) -> int:
    """The length that a vector of an op had before it grew; 0 if none grew."""
    return next((lengths[value] for value in (*op.operands, *op.results) if value in lengths), 0)


class VectorGroups:
    """Vectors of odd lengths, in groups that grow together."""

    def __init__(self) -> None:
        self._leader: dict[ir.Value, ir.Value] = {}
        self._stays: set[ir.Value] = set()

    def take(self, op: ir.Operation) -> None:
        """Put the vectors that an op relates into one group; into one that stays, where the op cannot follow."""
        for related in relations(op):
            odd = [value for value in related if is_odd(value.type)]
            for value in odd:
                self._join(odd[0], value)
            if odd and not follows(op):
                self._stays.add(odd[0])

    def growing(self) -> set[ir.Value]:
        """All vectors of groups that grow."""
        staying = {self._first(value) for value in self._stays}
        return {value for value in self._leader if self._first(value) not in staying}

    def _first(self, value: ir.Value) -> ir.Value:
        while self._leader.setdefault(value, value) != value:
            value = self._leader[value]
        return value

    def _join(self, one: ir.Value, other: ir.Value) -> None:
        self._leader[self._first(other)] = self._first(one)


def relations(op: ir.Operation) -> Iterator[Sequence[ir.Value]]:
    """Values of an op, in groups whose members have one type or one length."""
    if op.name == "scf.yield" and op.parent.name in ("scf.for", "scf.if"):
        return  # with the op around it
    if op.name == "scf.for":
        block = op.regions[0].blocks[0]
        for number, result in enumerate(op.results):
            yield (result, op.operands[BOUNDS + number], block.arguments[1 + number], last_of(block).operands[number])
    elif op.name == "scf.if":
        for number, result in enumerate(op.results):
            yield (result, *(last_of(region.blocks[0]).operands[number] for region in op.regions))
    else:
        yield (*op.operands, *op.results, *(a for region in op.regions for block in region for a in block.arguments))


def last_of(block: ir.Block) -> ir.Operation:
    """The op that ends a block."""
    return block.operations[len(block.operations) - 1].operation


def follows(op: ir.Operation) -> bool:
    """Tell whether an op computes the same at all positions but those behind the end when its vectors grow."""
    kinds = [value.type for value in (*op.operands, *op.results) if is_odd(value.type)]
    if op.name in (LOAD, STORE):
        return bool(kinds[0].rank == 1)
    if op.name in RULES:
        return RULES[op.name](op)
    elementwise = op.name.startswith(("arith.", "math.")) and op.name not in TRAPPING
    return (op.name in BY_ROW or elementwise) and len({kind.shape[-1] for kind in kinds}) == 1


def repeats_rows(broadcast: ir.Operation) -> bool:
    """Tell whether a broadcast repeats a number, or whole rows."""
    source = broadcast.operands[0].type
    length = ir.VectorType(broadcast.results[0].type).shape[-1]
    return not isinstance(source, ir.VectorType) or list(source.shape)[-1:] in ([1], [length])


def has_neutral(reduction: ir.Operation) -> bool:
    """Tell whether a reduction is one that some number does not change."""
    kind = ir.VectorType(reduction.operands[0].type)
    return reduced_by(reduction) in NEUTRAL and isinstance(kind.element_type, ir.FloatType)


def is_splat(constant: ir.Operation) -> bool:
    """Tell whether a constant is one number, repeated."""
    return bool(ir.DenseElementsAttr(constant.attributes["value"]).is_splat)


RULES: dict[str, Callable[[ir.Operation], bool]] = {
    "scf.for": lambda _: True,
    "scf.if": lambda _: True,
    REDUCTION: has_neutral,
    "vector.broadcast": repeats_rows,
    "arith.constant": is_splat,
}


def is_odd(kind: ir.Type) -> bool:
    """Tell whether a type is a vector whose last dimension is no power of two."""
    if not isinstance(kind, ir.VectorType) or kind.rank == 0 or kind.scalable:
        return False
    return bool(kind.shape[-1] & (kind.shape[-1] - 1) != 0)


def grown(kind: ir.Type) -> ir.VectorType:
    """The type of a vector that has grown."""
    *lead, last = ir.VectorType(kind).shape
    return ir.VectorType.get([*lead, 1 << last.bit_length()], ir.VectorType(kind).element_type)


def mask_of(kind: ir.VectorType, length: int) -> ir.Value:
    """The mask of the first elements of a vector, at the insertion point."""
    return vector.constant_mask(ir.VectorType.get(kind.shape, ir.IntegerType.get_signless(1)), [length])


def finish_constant(op: ir.Operation, _: int) -> None:
    """The same number, more often."""
    number = ir.DenseElementsAttr(op.attributes["value"]).get_splat_value()
    op.attributes["value"] = ir.DenseElementsAttr.get_splat(op.results[0].type, number)


def finish_load(op: ir.Operation, length: int) -> None:
    """Zeros behind the end."""
    source, *indices = op.operands
    kind = ir.VectorType(op.results[0].type)
    loaded = vector.maskedload(kind, source, indices, mask_of(kind, length), splat_of(kind, 0.0))
    op.results[0].replace_all_uses_with(loaded)
    op.erase()


def finish_store(op: ir.Operation, length: int) -> None:
    """Nothing is stored behind the end."""
    value, target, *indices = op.operands
    vector.maskedstore(target, indices, mask_of(ir.VectorType(value.type), length), value)
    op.erase()


def finish_reduction(op: ir.Operation, length: int) -> None:
    """What lies behind the end changes nothing."""
    kind = ir.VectorType(op.operands[0].type)
    op.operands[0] = arith.select(mask_of(kind, length), op.operands[0], splat_of(kind, NEUTRAL[reduced_by(op)]))


FINISH: dict[str, Callable[[ir.Operation, int], None]] = {
    LOAD: finish_load,
    STORE: finish_store,
    REDUCTION: finish_reduction,
    "arith.constant": finish_constant,
}
