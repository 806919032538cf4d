"""Mark 16-bit weights that a model multiplies in their own type, as opposed to those that it widens itself.

Both are computed in f32 after `halves`, where they can no longer be distinguished, so this analysis runs before it.
"""

from collections.abc import Iterator

from mlir import ir
from mlir.dialects import linalg

from autotune.compiler.ir.arguments import NARROW_FACTORS, attributes_of, say
from autotune.compiler.ir.module import every_op
from autotune.compiler.ir.values import maker
from autotune.compiler.normalise.types.halves import READ, is_half
from autotune.compiler.normalise.types.narrow import widens_elements

VIEWS = ("tensor.extract_slice", "tensor.expand_shape", "tensor.collapse_shape", "tensor.pad", "tensor.cast")
MOVES = (READ, *VIEWS, "linalg.transpose", "linalg.broadcast")


def say_narrow_factors(module: ir.Module) -> bool:
    """Mark 16-bit arguments whose other factors all have 16 bits, too; return whether any was marked.

        x.float() @ w.float()   of a router in f32: w is not marked, since the model asks for f32
        x @ w                   of x in bf16: w is marked, whatever type the products are summed in

    Existing marks are kept, as types are no longer conclusive in a module whose floats are already widened.
    """
    is_any_marked = False
    for function in (op for op in every_op(module) if op.name == "func.func" and op.regions[0].blocks):
        marks = {}
        for number, argument in enumerate(function.regions[0].blocks[0].arguments):
            if isinstance(argument.type, ir.MemRefType) and is_half(argument.type):
                known = NARROW_FACTORS in attributes_of(function, number)
                other_factors = [other for each in factors(argument) for other in each]
                if not known and other_factors and all(map(was_half, other_factors)):
                    marks[number] = {NARROW_FACTORS: ir.UnitAttr.get()}
        say(function, marks)
        is_any_marked = is_any_marked or bool(marks)
    return is_any_marked


def factors(value: ir.Value) -> Iterator[list[ir.Value]]:
    """Yield the other factors of every contraction that uses a value, through operations that move or widen it."""
    for use in value.uses:
        op = use.owner.operation
        inputs = list(op.operands)[: len(op.operands) - len(op.results)]
        if op.name in MOVES or only_widens_all(op):
            if use.operand_number == 0:
                for result in op.results:
                    yield from factors(result)
        elif is_product(op) and use.operand_number < len(inputs):
            yield [other for number, other in enumerate(inputs) if number != use.operand_number]


def is_product(op: ir.Operation) -> bool:
    """Return whether an operation is a contraction or convolution."""
    return len(op.operands) > 2 and (linalg.isa_contraction_op(op) or linalg.isa_convolution_op(op))


def was_half(value: ir.Value) -> bool:
    """Return whether a value has 16 bits, or had before it was moved and widened."""
    while not is_half(value.type):
        op = maker(value)
        if op is None or not (op.name in MOVES or only_widens_all(op)):
            return False
        value = op.operands[0]
    return True


def only_widens_all(op: ir.Operation) -> bool:
    """Return whether an operation only widens every element of one operand."""
    return op.name == "arith.extf" or widens_elements(op)
