"""Sums in f64 of what is f32 before and after: importers write norms so; on vectors it costs half the lanes."""

from mlir import ir

from autotune.compiler.module import every_op, run_passes
from autotune.compiler.normalise.booleans import values_of

WIDE = "f64"


def narrow_floats(module: ir.Module) -> None:
    """Compute in f32 what is f64 inside a module alone, in place; with an argument of f64 it stays as it is.

    sum(extf x) in f64, truncf   ->   sum(x) in f32
    """
    ops = every_op(module)
    inside = [value for op in ops for value in values_of(op) if is_wide(value.type)]
    stored = (kind for op in ops if op.name == "func.func" for kind in ir.FunctionType(type_of(op)).inputs)
    if not inside or any(is_wide(kind) for kind in stored) or not any(op.name == "arith.extf" for op in ops):
        return
    for value in inside:
        value.set_type(narrowed(value.type))
    for op in ops:
        if op.name == "arith.constant" and is_wide(op.attributes["value"].type):
            op.attributes["value"] = narrow_constant(op.attributes["value"])
    for op in ops:
        if op.name in ("arith.extf", "arith.truncf") and op.operands[0].type == op.results[0].type:
            op.results[0].replace_all_uses_with(op.operands[0])
            op.erase()
    run_passes(module, "builtin.module(canonicalize)")


def type_of(function: ir.Operation) -> ir.Type:
    """A function's type."""
    return ir.TypeAttr(function.attributes["function_type"]).value


def is_wide(kind: ir.Type) -> bool:
    """Tell whether a type is f64, or tensors or memrefs of it."""
    return str(kind.element_type if isinstance(kind, ir.ShapedType) else kind) == WIDE


def narrowed(kind: ir.Type) -> ir.Type:
    """The type with f32 in the place of f64."""
    single = ir.F32Type.get()
    if isinstance(kind, ir.RankedTensorType):
        return ir.RankedTensorType.get(kind.shape, single)
    if isinstance(kind, ir.MemRefType):
        return ir.MemRefType.get(kind.shape, single, kind.layout, kind.memory_space)
    return single


def narrow_constant(said: ir.Attribute) -> ir.Attribute:
    """A constant of f64 as one of f32."""
    if isinstance(said, ir.FloatAttr):
        return ir.FloatAttr.get(ir.F32Type.get(), float(said.value))
    held = ir.DenseFPElementsAttr(said)
    kind = ir.RankedTensorType(narrowed(held.type))
    if held.is_splat:
        return ir.DenseElementsAttr.get_splat(kind, narrow_constant(held.get_splat_value()))
    return ir.DenseElementsAttr.get([ir.FloatAttr.get(kind.element_type, held[i]) for i in range(len(held))], kind)
