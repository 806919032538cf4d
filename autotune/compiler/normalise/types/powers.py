"""Expand small integer powers to products, and others to real powers: LLVM has no vector `powi`."""

from mlir import ir
from mlir.dialects import arith, math

from autotune.compiler.ir.module import every_op, replace_ops
from autotune.compiler.ir.values import maker, splat_of

LARGEST = 4
WHOLE = "math.fpowi"
POWERS = (WHOLE, "math.powf")


def multiply_powers(module: ir.Module) -> None:
    """Rewrite ``x ** n`` as a product if n is a constant integer from -4 to 4 and not 0, in place.

    x ** 3   ->   x * x * x
    x ** -2  ->   1 / (x * x)
    x ** 9   ->   x ** 9.0
    """

    def write(op: ir.Operation) -> ir.Value:
        exponent = whole_exponent(op)
        return real_power(op) if exponent is None else product(op.operands[0], exponent)

    powers = [op for op in every_op(module) if op.name == WHOLE or whole_exponent(op) is not None]
    replace_ops(module, powers, write, passes="builtin.module(canonicalize)")


def product(base: ir.Value, exponent: int) -> ir.Value:
    """Build a power as a product, or as its reciprocal if the exponent is negative."""
    power = base
    for _ in range(abs(exponent) - 1):
        power = arith.mulf(power, base)
    if exponent > 0:
        return power
    return arith.divf(splat_of(base.type, 1.0), power)


def real_power(op: ir.Operation) -> ir.Value:
    """Build an integer power as `math.powf`, which PyTorch and ONNX use for it, too."""
    base, exponent = op.operands
    return math.powf(base, arith.sitofp(base.type, exponent))


def whole_exponent(op: ir.Operation) -> int | None:
    """Return the exponent of a power that is expanded to a product; `None` for any other operation."""
    if op.name not in POWERS:
        return None
    producer = maker(op.operands[1])
    if producer is None or producer.name != "arith.constant":
        return None
    attribute = producer.attributes["value"]
    if isinstance(attribute, ir.DenseElementsAttr):
        if not attribute.is_splat:
            return None
        attribute = attribute.get_splat_value()
    value = float(
        ir.IntegerAttr(attribute).value if isinstance(attribute, ir.IntegerAttr) else ir.FloatAttr(attribute).value
    )
    return int(value) if value.is_integer() and 1 <= abs(value) <= LARGEST else None
