"""Pad vectors whose length is not a power of two to the next power of two, and mask their memory accesses.

    %v = vector.load %b[%k, %j] : vector<13xf32>   ->   %v = vector.maskedload %b[%k, %j], [13], 0 : vector<16xf32>

LLVM scalarizes vectors of such lengths. With masked loads and stores, a remainder of 13 columns takes one vector rather
than three of power-of-two lengths. Padding lanes are computed and never stored.

Values related by an op are padded together, or not at all: a group is left unchanged if it contains an unsupported op,
or one that could trap on padding lanes, such as an integer division.
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
BOUNDS = 3  # operands of scf.for before its iter_args
LARGEST = float("inf")
NEUTRAL = {
    "add": 0.0,
    "mul": 1.0,
    "minimumf": LARGEST,
    "minnumf": LARGEST,
    "maximumf": -LARGEST,
    "maxnumf": -LARGEST,
}  # neutral elements of float reductions, by kind


def mask_ends(module: ir.Module) -> None:
    """Pad vectors of a bufferized module to power-of-two lengths, in place."""
    ops = every_op(module)
    groups = VectorGroups()
    for op in ops:
        groups.take(op)
    lengths = {value: ir.VectorType(value.type).shape[-1] for value in groups.growing()}
    # Change all types first; ops whose semantics depend on the length are fixed afterwards.
    for value in lengths:
        value.set_type(grown(value.type))
    padded_ops = [(op, length_of(op, lengths)) for op in ops if op.name in FINISH]  # before loads are replaced
    for op, length in padded_ops:
        if length:
            with ir.InsertionPoint(op), op.location:
                FINISH[op.name](op, length)
    for function in module.body.operations:
        if MASKED in function.attributes:
            del function.attributes[MASKED]


def length_of(op: ir.Operation, lengths: Mapping[ir.Value, int]) -> int:
    """Return the original length of a padded vector of an op; 0 if no vector was padded."""
    return next((lengths[value] for value in (*op.operands, *op.results) if value in lengths), 0)


class VectorGroups:
    """Union-find of vectors of other than power-of-two lengths, in groups that are padded together."""

    def __init__(self) -> None:
        self._leader: dict[ir.Value, ir.Value] = {}
        self._stays: set[ir.Value] = set()

    def take(self, op: ir.Operation) -> None:
        """Merge the groups of vectors related by an op; if the op cannot be padded, the group is left unchanged."""
        for related in relations(op):
            odd = [value for value in related if is_odd(value.type)]
            for value in odd:
                self._join(odd[0], value)
            if odd and not follows(op):
                self._stays.add(odd[0])

    def growing(self) -> set[ir.Value]:
        """Return all vectors of groups that can be padded."""
        staying = {self._first(value) for value in self._stays}
        return {value for value in self._leader if self._first(value) not in staying}

    def _first(self, value: ir.Value) -> ir.Value:
        while self._leader.setdefault(value, value) != value:
            value = self._leader[value]
        return value

    def _join(self, one: ir.Value, other: ir.Value) -> None:
        self._leader[self._first(other)] = self._first(one)


def relations(op: ir.Operation) -> Iterator[Sequence[ir.Value]]:
    """Yield groups of values of an op that must have the same type or length."""
    if op.name == "scf.yield" and op.parent.name in ("scf.for", "scf.if"):
        return  # handled with its parent
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
    """Return the terminator of a block."""
    return block.operations[len(block.operations) - 1].operation


def follows(op: ir.Operation) -> bool:
    """Return whether padding the vectors of an op leaves its results in all other lanes unchanged."""
    odd_types = [value.type for value in (*op.operands, *op.results) if is_odd(value.type)]
    if op.name in (LOAD, STORE):
        return bool(odd_types[0].rank == 1)
    if op.name in RULES:
        return RULES[op.name](op)
    elementwise = op.name.startswith(("arith.", "math.")) and op.name not in TRAPPING
    return (op.name in BY_ROW or elementwise) and len({kind.shape[-1] for kind in odd_types}) == 1


def repeats_rows(broadcast: ir.Operation) -> bool:
    """Return whether a broadcast repeats a scalar, or whole rows."""
    source = broadcast.operands[0].type
    length = ir.VectorType(broadcast.results[0].type).shape[-1]
    return not isinstance(source, ir.VectorType) or list(source.shape)[-1:] in ([1], [length])


def has_neutral(reduction: ir.Operation) -> bool:
    """Return whether a reduction is of floats, with a known neutral element."""
    vector_type = ir.VectorType(reduction.operands[0].type)
    return reduced_by(reduction) in NEUTRAL and isinstance(vector_type.element_type, ir.FloatType)


def is_splat(constant: ir.Operation) -> bool:
    """Return whether a constant is a splat."""
    return bool(ir.DenseElementsAttr(constant.attributes["value"]).is_splat)


RULES: dict[str, Callable[[ir.Operation], bool]] = {
    "scf.for": lambda _: True,
    "scf.if": lambda _: True,
    REDUCTION: has_neutral,
    "vector.broadcast": repeats_rows,
    "arith.constant": is_splat,
}


def is_odd(mlir_type: ir.Type) -> bool:
    """Return whether a type is a fixed-length vector whose last dimension is not a power of two."""
    if not isinstance(mlir_type, ir.VectorType) or mlir_type.rank == 0 or mlir_type.scalable:
        return False
    return bool(mlir_type.shape[-1] & (mlir_type.shape[-1] - 1) != 0)


def grown(mlir_type: ir.Type) -> ir.VectorType:
    """Return the padded type of a vector."""
    *lead, last = ir.VectorType(mlir_type).shape
    return ir.VectorType.get([*lead, 1 << last.bit_length()], ir.VectorType(mlir_type).element_type)


def mask_of(vector_type: ir.VectorType, length: int) -> ir.Value:
    """Build a mask of the first `length` lanes of a vector, at the insertion point."""
    return vector.constant_mask(ir.VectorType.get(vector_type.shape, ir.IntegerType.get_signless(1)), [length])


def finish_constant(op: ir.Operation, _: int) -> None:
    """Extend a splat constant to its padded type."""
    number = ir.DenseElementsAttr(op.attributes["value"]).get_splat_value()
    op.attributes["value"] = ir.DenseElementsAttr.get_splat(op.results[0].type, number)


def finish_load(op: ir.Operation, length: int) -> None:
    """Replace a load by a masked load with zeros in padding lanes."""
    source, *indices = op.operands
    vector_type = ir.VectorType(op.results[0].type)
    loaded = vector.maskedload(vector_type, source, indices, mask_of(vector_type, length), splat_of(vector_type, 0.0))
    op.results[0].replace_all_uses_with(loaded)
    op.erase()


def finish_store(op: ir.Operation, length: int) -> None:
    """Replace a store by a masked store."""
    value, target, *indices = op.operands
    vector.maskedstore(target, indices, mask_of(ir.VectorType(value.type), length), value)
    op.erase()


def finish_reduction(op: ir.Operation, length: int) -> None:
    """Set padding lanes of a reduction's operand to the neutral element."""
    padded = ir.VectorType(op.operands[0].type)
    op.operands[0] = arith.select(mask_of(padded, length), op.operands[0], splat_of(padded, NEUTRAL[reduced_by(op)]))


FINISH: dict[str, Callable[[ir.Operation, int], None]] = {
    LOAD: finish_load,
    STORE: finish_store,
    REDUCTION: finish_reduction,
    "arith.constant": finish_constant,
}
