"""Small whole powers become products, others real powers: LLVM has whole powers of no vectors."""

from mlir import ir
from mlir.dialects import arith, math

from autotune.compiler.ir.module import every_op, replace_ops
from autotune.compiler.ir.values import maker, splat_of

LARGEST = 4
WHOLE = "math.fpowi"
POWERS = (WHOLE, "math.powf")


def multiply_powers(module: ir.Module) -> None:
    """Write ``x ** n`` as a product where n is a constant whole number from -4 to 4 and not 0, in place.

    x ** 3   ->   x * x * x
    x ** -2  ->   1 / (x * x)
    x ** 9   ->   x ** 9.0
    """

    def write(op: ir.Operation) -> ir.Value:
        exponent = whole_exponent(op)
        return real_power(op) if exponent is None else product(op.operands[0], exponent)

    found = [op for op in every_op(module) if op.name == WHOLE or whole_exponent(op) is not None]
    replace_ops(module, found, write, passes="builtin.module(canonicalize)")


def product(base: ir.Value, exponent: int) -> ir.Value:
    """A power as a product, or as one over it."""
    found = base
    for _ in range(abs(exponent) - 1):
        found = arith.mulf(found, base)
    if exponent > 0:
        return found
    return arith.divf(splat_of(base.type, 1.0), found)


def real_power(op: ir.Operation) -> ir.Value:
    """A whole power as one of a real number, which PyTorch and ONNX have for it, too."""
    base, exponent = op.operands
    return math.powf(base, arith.sitofp(base.type, exponent))


def whole_exponent(op: ir.Operation) -> int | None:
    """The exponent of a power that is a product; `None` for any other op."""
    if op.name not in POWERS:
        return None
    made_by = maker(op.operands[1])
    if made_by is None or made_by.name != "arith.constant":
        return None
    attribute = made_by.attributes["value"]
    if isinstance(attribute, ir.DenseElementsAttr):
        if not attribute.is_splat:
            return None
        attribute = attribute.get_splat_value()
    value = float(
        ir.IntegerAttr(attribute).value if isinstance(attribute, ir.IntegerAttr) else ir.FloatAttr(attribute).value
    )
    return int(value) if value.is_integer() and 1 <= abs(value) <= LARGEST else None
