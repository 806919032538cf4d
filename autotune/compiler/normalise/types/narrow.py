"""Narrow types that are wider than necessary.

Sums in f64 between f32 values, as importers write norms, halve the number of vector lanes: they are computed in f32.
Operands of products that are widened first are read in their stored type, and widened where they are multiplied.
"""

from mlir import ir
from mlir.dialects import linalg

from autotune.compiler.ir.module import every_op, run_passes
from autotune.compiler.ir.nests import element_type, indexing_maps
from autotune.compiler.ir.values import is_constant, maker, values_of
from autotune.core.ops.traversal import WIDENED

WIDE = "f64"


def narrow_floats(module: ir.Module) -> None:
    """Compute intermediate f64 values in f32, in place; a module with f64 arguments is left unchanged.

    sum(extf x) in f64, truncf   ->   sum(x) in f32

    Loop-carried f64 scalars are left unchanged: they are not vectorized, and their rounding errors accumulate.
    """
    excluded = {op for loop in every_op(module) if carries_wide_numbers(loop) for op in operations_of(loop)}
    ops = [op for op in every_op(module) if op not in excluded]
    wide_values = [value for op in ops for value in values_of(op) if is_wide(value.type)]
    argument_types = (kind for op in ops if op.name == "func.func" for kind in ir.FunctionType(type_of(op)).inputs)
    if (
        not wide_values
        or any(is_wide(kind) for kind in argument_types)
        or not any(op.name == "arith.extf" for op in ops)
    ):
        return
    for value in wide_values:
        value.set_type(as_f32(value.type))
    for op in ops:
        if op.name == "arith.constant" and is_wide(op.attributes["value"].type):
            op.attributes["value"] = constant_as_f32(op.attributes["value"])
    for op in ops:
        if op.name in ("arith.extf", "arith.truncf") and op.operands[0].type == op.results[0].type:
            op.results[0].replace_all_uses_with(op.operands[0])
            op.erase()
    run_passes(module, "builtin.module(canonicalize)")


def carries_wide_numbers(loop: ir.Operation) -> bool:
    """Return whether an operation is a loop that carries f64 scalars and has no other f64 inputs or used results."""
    if loop.name != "scf.for" or not any(str(value.type) == WIDE for value in loop.results):
        return False
    inside = set(every_op(loop))
    wide = {value for op in inside for value in op.operands if is_wide(value.type)}
    external = [value for value in wide if owner_of(value) not in inside and not is_constant(value)]
    live_results = [value for value in loop.results if is_wide(value.type) and list(value.uses)]
    return not external and not live_results and all(str(value.type) == WIDE for value in wide)


def owner_of(value: ir.Value) -> ir.Operation:
    """Return the operation that defines a value, or the parent operation of the block whose argument it is."""
    owner = value.owner
    return owner.owner.operation if isinstance(owner, ir.Block) else owner.operation


def operations_of(loop: ir.Operation) -> list[ir.Operation]:
    """Return the operations of a loop; f64 constants that it reads are cloned into it first."""
    inside = every_op(loop)
    for op in inside:
        for number, value in enumerate(op.operands):
            if str(value.type) == WIDE and is_constant(value) and value.owner.operation not in inside:
                copy = value.owner.operation.clone(ir.InsertionPoint(op)).operation
                op.operands[number] = copy.results[0]
                inside.append(copy)
    return inside


def type_of(function: ir.Operation) -> ir.Type:
    """Return the type of a function."""
    return ir.TypeAttr(function.attributes["function_type"]).value


def is_wide(mlir_type: ir.Type) -> bool:
    """Return whether a type is f64, or a tensor or memref of it."""
    return str(mlir_type.element_type if isinstance(mlir_type, ir.ShapedType) else mlir_type) == WIDE


def as_f32(mlir_type: ir.Type) -> ir.Type:
    """Return the type with f32 as its element type."""
    single = ir.F32Type.get()
    if isinstance(mlir_type, ir.RankedTensorType):
        return ir.RankedTensorType.get(mlir_type.shape, single)
    if isinstance(mlir_type, ir.MemRefType):
        return ir.MemRefType.get(mlir_type.shape, single, mlir_type.layout, mlir_type.memory_space)
    return single


def constant_as_f32(attribute: ir.Attribute) -> ir.Attribute:
    """Convert a constant, scalar or tensor of floats, to f32."""
    if isinstance(attribute, ir.FloatAttr):
        return ir.FloatAttr.get(ir.F32Type.get(), float(attribute.value))
    elements = ir.DenseFPElementsAttr(attribute)
    tensor_type = ir.RankedTensorType(as_f32(elements.type))
    if elements.is_splat:
        return ir.DenseElementsAttr.get_splat(tensor_type, constant_as_f32(elements.get_splat_value()))
    return ir.DenseElementsAttr.get(
        [ir.FloatAttr.get(tensor_type.element_type, elements[i]) for i in range(len(elements))], tensor_type
    )


PRODUCTS = {"linalg.matmul": linalg.matmul, "linalg.batch_matmul": linalg.batch_matmul}


def read_as_stored(module: ir.Module) -> None:
    """Let products read B in its stored type, in place.

        W = extf(w);  C[m, n] += A[m, k] * W[k, n]   ->   C[m, n] += A[m, k] * extf(w[k, n])

    This halves the bytes read, and w is recognized as a weight.
    """
    changed = False
    for op in every_op(module):
        if op.name in PRODUCTS:
            changed |= read_before_widening(op)
    if changed:
        run_passes(module, "builtin.module(canonicalize,cse)")


def read_before_widening(op: ir.Operation) -> bool:
    """Replace B of a product by the tensor it is widened from; return whether it is."""
    producer = maker(op.operands[1])
    if producer is None or not widens(producer) or element_type(op.operands[0]) != "f32":
        return False
    maps = ir.ArrayAttr.get([ir.AffineMapAttr.get(amap) for amap in indexing_maps(op)])
    with ir.InsertionPoint(op), op.location:
        a, _, c = op.operands
        product = PRODUCTS[op.name](a, producer.operands[0], outs=[c], indexing_maps=maps)
    op.results[0].replace_all_uses_with(product)
    op.erase()
    return True


def widens(op: ir.Operation) -> bool:
    """Return whether an operation only widens a tensor to f32."""
    if not widens_elements(op) or element_type(op.operands[0]) not in WIDENED:
        return False
    same = len({str(amap) for amap in indexing_maps(op)}) == 1
    return same and element_type(op.results[0]) == "f32"


def widens_elements(op: ir.Operation) -> bool:
    """Return whether the body of an operation only extends an element of one operand."""
    if op.name != "linalg.generic" or len(op.operands) != 2:
        return False
    return [inner.operation.name for inner in op.regions[0].blocks[0].operations] == ["arith.extf", "linalg.yield"]
