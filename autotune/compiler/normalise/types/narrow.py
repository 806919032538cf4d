"""Types no wider than what is computed needs.

Sums in f64 of what is f32 before and after, as importers write norms, cost half the lanes of vectors: they are f32.
Operands of products that are widened first are read as they are stored, and widened where they are multiplied.
"""

from mlir import ir
from mlir.dialects import linalg

from autotune.compiler.ir.module import every_op, run_passes
from autotune.compiler.ir.nests import element_type, indexing_maps
from autotune.compiler.ir.values import is_constant, maker, values_of
from autotune.core.ops.traversal import WIDENED

WIDE = "f64"


def narrow_floats(module: ir.Module) -> None:
    """Compute in f32 what is f64 inside a module alone, in place; with an argument of f64 it stays as it is.

    sum(extf x) in f64, truncf   ->   sum(x) in f32

    Numbers that loops carry stay, too: they are no vectors, and what has been carried far has been rounded often.
    """
    kept = {op for loop in every_op(module) if carries_wide_numbers(loop) for op in kept_in(loop)}
    ops = [op for op in every_op(module) if op not in kept]
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


def carries_wide_numbers(loop: ir.Operation) -> bool:
    """Tell whether an op is a loop that carries numbers of f64, and gives and takes no tensor of them."""
    if loop.name != "scf.for" or not any(str(value.type) == WIDE for value in loop.results):
        return False
    inside = set(every_op(loop))
    wide = {value for op in inside for value in op.operands if is_wide(value.type)}
    given = [value for value in wide if owner_of(value) not in inside and not is_constant(value)]
    used = [value for value in loop.results if is_wide(value.type) and list(value.uses)]
    return not given and not used and all(str(value.type) == WIDE for value in wide)


def owner_of(value: ir.Value) -> ir.Operation:
    """The op that makes a value, or whose block is given it."""
    owner = value.owner
    return owner.owner.operation if isinstance(owner, ir.Block) else owner.operation


def kept_in(loop: ir.Operation) -> list[ir.Operation]:
    """The ops of a loop, and constants of f64 that it reads: copies of its own."""
    inside = every_op(loop)
    for op in inside:
        for number, value in enumerate(op.operands):
            if str(value.type) == WIDE and is_constant(value) and value.owner.operation not in inside:
                copy = value.owner.operation.clone(ir.InsertionPoint(op)).operation
                op.operands[number] = copy.results[0]
                inside.append(copy)
    return inside


def type_of(function: ir.Operation) -> ir.Type:
    """A function's type."""
    return ir.TypeAttr(function.attributes["function_type"]).value


def is_wide(kind: ir.Type) -> bool:
    """Tell whether a type is f64, or tensors or memrefs of it."""
    return str(kind.element_type if isinstance(kind, ir.ShapedType) else kind) == WIDE


def narrowed(kind: ir.Type) -> ir.Type:
    """The type with f32 instead of f64."""
    single = ir.F32Type.get()
    if isinstance(kind, ir.RankedTensorType):
        return ir.RankedTensorType.get(kind.shape, single)
    if isinstance(kind, ir.MemRefType):
        return ir.MemRefType.get(kind.shape, single, kind.layout, kind.memory_space)
    return single


def narrow_constant(attribute: ir.Attribute) -> ir.Attribute:
    """A constant of f64 as one of f32."""
    if isinstance(attribute, ir.FloatAttr):
        return ir.FloatAttr.get(ir.F32Type.get(), float(attribute.value))
    held = ir.DenseFPElementsAttr(attribute)
    kind = ir.RankedTensorType(narrowed(held.type))
    if held.is_splat:
        return ir.DenseElementsAttr.get_splat(kind, narrow_constant(held.get_splat_value()))
    return ir.DenseElementsAttr.get([ir.FloatAttr.get(kind.element_type, held[i]) for i in range(len(held))], kind)


PRODUCTS = {"linalg.matmul": linalg.matmul, "linalg.batch_matmul": linalg.batch_matmul}


def read_as_stored(module: ir.Module) -> None:
    """Let products read B in the type that it is stored in, in place.

        W = extf(w);  C[m, n] += A[m, k] * W[k, n]   ->   C[m, n] += A[m, k] * extf(w[k, n])

    Half the bytes are read, and w is seen as a weight.
    """
    changed = False
    for op in every_op(module):
        if op.name in PRODUCTS:
            changed |= read_before_widening(op)
    if changed:
        run_passes(module, "builtin.module(canonicalize,cse)")


def read_before_widening(op: ir.Operation) -> bool:
    """Let B of a product be read before it is widened; tells whether it is."""
    made_by = maker(op.operands[1])
    if made_by is None or not widens(made_by) or element_type(op.operands[0]) != "f32":
        return False
    maps = ir.ArrayAttr.get([ir.AffineMapAttr.get(amap) for amap in indexing_maps(op)])
    with ir.InsertionPoint(op), op.location:
        a, _, c = op.operands
        plain = PRODUCTS[op.name](a, made_by.operands[0], outs=[c], indexing_maps=maps)
    op.results[0].replace_all_uses_with(plain)
    op.erase()
    return True


def widens(op: ir.Operation) -> bool:
    """Tell whether an op gives a tensor widened to f32, and does nothing else."""
    if not widens_elements(op) or element_type(op.operands[0]) not in WIDENED:
        return False
    same = len({str(amap) for amap in indexing_maps(op)}) == 1
    return same and element_type(op.results[0]) == "f32"


def widens_elements(op: ir.Operation) -> bool:
    """Tell whether the body of an op does nothing but widen an element of one array."""
    if op.name != "linalg.generic" or len(op.operands) != 2:
        return False
    return [inner.operation.name for inner in op.regions[0].blocks[0].operations] == ["arith.extf", "linalg.yield"]
