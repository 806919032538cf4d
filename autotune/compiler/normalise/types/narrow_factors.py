"""Weights of 16 bits that a model multiplies in their own type, told apart from those that it widens itself.

Both are computed in f32 afterwards, and nothing in a module would tell any more: this is found before.
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
    """Say of arguments of 16 bits that all they are multiplied with has 16 bits, too, where it is so.

        x.float() @ w.float()   of a router in f32: nothing is said of w, since f32 is what the model asks for
        x @ w                   of x in bf16: w is one of them, whatever type the products are summed in

    What was said before stays: of a text whose floats were widened already, types tell nothing.
    """
    is_found = False
    for function in (op for op in every_op(module) if op.name == "func.func" and op.regions[0].blocks):
        found = {}
        for number, argument in enumerate(function.regions[0].blocks[0].arguments):
            if isinstance(argument.type, ir.MemRefType) and is_half(argument.type):
                known = NARROW_FACTORS in attributes_of(function, number)
                others = [other for each in factors(argument) for other in each]
                if not known and others and all(map(was_half, others)):
                    found[number] = {NARROW_FACTORS: ir.UnitAttr.get()}
        say(function, found)
        is_found = is_found or bool(found)
    return is_found


def factors(value: ir.Value) -> Iterator[list[ir.Value]]:
    """What a value is multiplied with in sums of products, however it is moved or widened before."""
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
    """Tell whether an op sums products of two arrays."""
    return len(op.operands) > 2 and (linalg.isa_contraction_op(op) or linalg.isa_convolution_op(op))


def was_half(value: ir.Value) -> bool:
    """Tell whether a value is of 16 bits, or was before it was moved and widened."""
    while not is_half(value.type):
        op = maker(value)
        if op is None or not (op.name in MOVES or only_widens_all(op)):
            return False
        value = op.operands[0]
    return True


def only_widens_all(op: ir.Operation) -> bool:
    """Tell whether an op does nothing but widen every element of one array."""
    return op.name == "arith.extf" or widens_elements(op)
