"""Lower marked widenings of bytes that are only summed, on vectors, to dot products with ones.

    sums[lane] += x[lane], 64 lanes of i32   ->   sums[lane] += x[4 lane] + .. + x[4 lane + 3], in 16 of the lanes

In which lane a byte is added does not matter if all lanes are added in the end: sums of i32 are exact modulo 2^32.
"""

from math import prod

from mlir import ir
from mlir.dialects import vector

from autotune.compiler.passes.marked_loops import marked
from autotune.compiler.passes.rounding import BYTES_OF_WORD, LANES, dot_bytes, splat, vector_of
from autotune.contrib.byte_ops.flat import cut, flat
from autotune.contrib.byte_ops.marks import SUMS

BYTES = BYTES_OF_WORD * LANES
ONES = 0x01010101  # the bytes of a word
ADD, FOR, YIELD, REDUCTION = "arith.addi", "scf.for", "scf.yield", "vector.reduction"
KEEPS_ALL = ("vector.extract", "vector.shape_cast", "vector.insert")  # of a vector with one row
FIRST_CARRIED = 3  # operand of a loop, after its bounds and step


def write_byte_sums(module: ir.Module) -> None:
    """Replace every addition of marked widenings of whole vectors whose lanes are added in the end."""
    for widening in marked(module.operation, SUMS):
        vector_type = widening.results[0].type
        if (
            not isinstance(vector_type, ir.VectorType)
            or prod(vector_type.shape) % BYTES
            or prod(vector_type.shape[:-1]) > 1
        ):
            continue
        additions = [use.owner.operation for use in widening.results[0].uses]
        if str(vector_type.element_type) != "i32" or not all(is_total(each, vector_type) for each in additions):
            continue
        for addition in additions:
            (others,) = (each for each in addition.operands if each != widening.results[0])
            with ir.InsertionPoint(addition), addition.location:
                addition.results[0].replace_all_uses_with(added(others, widening.operands[0]))
            addition.erase()
        widening.erase()


def is_total(addition: ir.Operation, vector_type: ir.VectorType) -> bool:
    """Return whether an operation adds two vectors of a type, and only the sum of all lanes of the result is read."""
    if addition.name != ADD or addition.results[0].type != vector_type or addition.operands[0] == addition.operands[1]:
        return False
    visited, remaining = set(), [addition.results[0]]
    while remaining:
        value = remaining.pop()
        for use in value.uses:
            passed_on = totals(use.owner.operation, use.operand_number)
            if passed_on is None:
                return False
            remaining += [each for each in passed_on if each not in visited]
            visited |= set(passed_on)
    return True


def totals(consumer: ir.Operation, operand: int) -> list[ir.Value] | None:
    """Return the values whose sum of lanes contains that of an operand; `None` if its lanes are told apart."""
    if consumer.name == REDUCTION:
        return [] if "<add>" in str(consumer.attributes["kind"]) else None
    if consumer.name == ADD:
        return list(consumer.results)
    if consumer.name in KEEPS_ALL:
        types = [each.type for each in (consumer.operands[operand], consumer.results[0])]
        are_vectors = all(isinstance(each, ir.VectorType) for each in types)
        return list(consumer.results) if are_vectors and len({prod(each.shape) for each in types}) == 1 else None
    if consumer.name == YIELD and consumer.parent.operation.name == FOR:
        return carried_by(consumer.parent.operation, operand)
    return carried_by(consumer, operand - FIRST_CARRIED) if consumer.name == FOR and operand >= FIRST_CARRIED else None


def carried_by(loop: ir.Operation, number: int) -> list[ir.Value]:
    """Return the argument and the result of a loop that hold a carried value."""
    return [loop.regions[0].blocks[0].arguments[1 + number], loop.results[number]]


def added(sums: ir.Value, numbers: ir.Value) -> ir.Value:
    """Build sums with bytes added, each 64 of them to another 16 lanes."""
    vector_type, total, ones = sums.type, flat(sums), splat(ONES, "i32")
    for number, part in enumerate(cut(flat(numbers), BYTES)):
        lanes = vector.extract_strided_slice(vector_of(LANES, "i32"), total, [LANES * number], [LANES], [1])
        lanes = dot_bytes(lanes, ones, vector.bitcast(lanes.type, part))
        total = vector.insert_strided_slice(lanes, total, [LANES * number], [1])
    return vector.shape_cast(vector_type, total)
