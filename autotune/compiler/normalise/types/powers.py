"""Small whole powers become products: libraries call a function for them, and vectors have none."""

from mlir import ir
from mlir.dialects import arith

from autotune.compiler.ir.module import every_op, run_passes
from autotune.compiler.ir.values import maker

LARGEST = 4
POWERS = ("math.fpowi", "math.powf")


def multiply_powers(module: ir.Module) -> None:
    """Write ``x ** n`` as a product where n is a constant whole number from 1 to 4, in place.

    x ** 3   ->   x * x * x
    """
    found = [(op, exponent) for op in every_op(module) if (exponent := whole_exponent(op)) is not None]
    for op, exponent in found:
        base = product = op.operands[0]
        with ir.InsertionPoint(op), op.location:
            for _ in range(exponent - 1):
                product = arith.mulf(product, base)
        op.results[0].replace_all_uses_with(product)
        op.erase()
    if found:
        run_passes(module, "builtin.module(canonicalize)")


def whole_exponent(op: ir.Operation) -> int | None:
    """The exponent of a power that is a product; `None` for any other op."""
    if op.name not in POWERS:
        return None
    made_by = maker(op.operands[1])
    if made_by is None or made_by.name != "arith.constant":
        return None
    said = made_by.attributes["value"]
    if isinstance(said, ir.DenseElementsAttr):
        if not said.is_splat:
            return None
        said = said.get_splat_value()
    value = float(ir.IntegerAttr(said).value if isinstance(said, ir.IntegerAttr) else ir.FloatAttr(said).value)
    return int(value) if value.is_integer() and 1 <= value <= LARGEST else None
