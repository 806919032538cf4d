"""Promote f16 and bf16 arithmetic to f32; stored values have 16 bits and are widened, which is exact, when read."""

from mlir import ir
from mlir.dialects import arith, tensor

from autotune.compiler.ir.module import every_op, run_passes
from autotune.compiler.ir.nests import dimensions, indexing_maps, loop_nest
from autotune.compiler.ir.values import values_of
from autotune.compiler.normalise.emit import generic
from autotune.compiler.normalise.types.booleans import ON_TENSORS
from autotune.compiler.normalise.types.narrow import as_f32, constant_as_f32
from autotune.core.stats import HALVES

READ, WRITE = "bufferization.to_tensor", "bufferization.materialize_in_destination"
WIDEN, NARROW, GENERIC = "arith.extf", "arith.truncf", "linalg.generic"
CASTS = (WIDEN, NARROW)
PICK = "tensor.extract"
MOVES = (READ, "tensor.extract_slice", "tensor.expand_shape", "tensor.collapse_shape", PICK)
BITS = "arith.bitcast"  # code that reads the bits of a float cannot be computed in another type


def compute_in_singles(module: ir.Module) -> bool:
    """Compute f16 and bf16 values in f32, in place; return whether there were any. Arguments keep their types.

        c = a * b in f16   ->   c = truncf(extf(a) * extf(b) in f32)

    A truncation from f32 that is extended again still rounds. A module that accesses memrefs of such floats directly,
    or reads their bits, is left unchanged; so is one that only widens them, since values that are widened at their use
    need no separate pass over memory.
    """
    if all(only_widens(op) for op in every_op(module)):
        return False
    run_passes(module, ON_TENSORS)
    ops = every_op(module)
    if any(op.name == BITS or (holds_halves(op) and op.name not in (READ, WRITE)) for op in ops):
        return False
    rounding_types = [element_of(op.results[0].type) if is_rounding(op) else None for op in ops]
    for value in [value for op in ops for value in values_of(op)]:
        if is_half(value.type) and not isinstance(value.type, ir.MemRefType):
            value.set_type(as_f32(value.type))
    for op in ops:
        if op.name == "arith.constant" and is_half(op.attributes["value"].type):
            widen_constant(op)
    for op, rounding_type in zip(ops, rounding_types, strict=True):
        if op.name == READ:
            widen_read(op)
        elif op.name == WRITE:
            narrow_written(op)
        elif rounding_type is not None:
            round_value(op, rounding_type)
        elif op.name in CASTS and op.operands[0].type == op.results[0].type:
            op.results[0].replace_all_uses_with(op.operands[0])
            op.erase()
    run_passes(module, "builtin.module(canonicalize)")
    return True


def is_half(mlir_type: ir.Type) -> bool:
    """Return whether a type is a 16-bit float, or a tensor or memref of them."""
    return str(element_of(mlir_type)) in HALVES


def element_of(mlir_type: ir.Type) -> ir.Type:
    """Return the element type of a tensor or memref; a scalar type itself."""
    return mlir_type.element_type if isinstance(mlir_type, ir.ShapedType) else mlir_type


def is_rounding(op: ir.Operation) -> bool:
    """Return whether an operation truncates f32 to 16 bits and every user extends the result immediately."""
    if op.name != NARROW or not is_half(op.results[0].type) or str(element_of(op.operands[0].type)) != "f32":
        return False
    return is_widened(op.results[0])


def is_widened(value: ir.Value) -> bool:
    """Return whether a scalar has uses and all of them are extensions, also in bodies that read the yielded tensor."""
    uses = list(value.uses)
    for use in uses:
        reader = use.owner.operation
        if reader.name == "linalg.yield" and reader.parent.name == GENERIC:
            result = reader.parent.results[use.operand_number]
            readers = [(each.owner.operation, each.operand_number) for each in result.uses]
            if not readers or not all(op.name == GENERIC and is_widened(inside(op, number)) for op, number in readers):
                return False
        elif reader.name != WIDEN:
            return False
    return bool(uses)


def inside(op: ir.Operation, number: int) -> ir.Value:
    """Return the block argument that holds the elements of an operand in the body of a structured operation."""
    return op.regions[0].blocks[0].arguments[number]


def round_value(op: ir.Operation, element: ir.Type) -> None:
    """Replace a truncation by a truncation to `element` and an extension to the type that its result has now."""
    with ir.InsertionPoint(op), op.location:
        rounded = arith.extf(op.results[0].type, cast(op.operands[0], element))
    op.results[0].replace_all_uses_with(rounded)
    op.erase()


def only_widens(op: ir.Operation) -> bool:
    """Return whether an operation only reads, moves, widens or rounds 16-bit floats, itself or in its body.

    Factors of contractions are excluded: families multiply f32, and read the stored type where they support it.
    """
    if any(is_half(value.type) for value in op.results):
        return op.name in MOVES or (is_rounding(op) and not isinstance(op.results[0].type, ir.ShapedType))
    half_operands = [number for number, value in enumerate(op.operands) if is_half(value.type)]
    if half_operands and op.name == GENERIC:
        return not any(is_factor(op, number) for number in half_operands)
    return not half_operands or op.name in (*MOVES, WIDEN)


def is_factor(op: ir.Operation, number: int) -> bool:
    """Return whether a reduction reads an operand along every reduction dimension, or in sliding windows."""
    nest = loop_nest(op)
    if nest is None:
        return True
    reduction_loops = {loop for loop, kind in enumerate(nest.iterators) if kind == "reduction"}
    loops = dimensions(indexing_maps(op)[number])
    return bool(reduction_loops) and (reduction_loops <= set(loops) or None in loops)


def holds_halves(op: ir.Operation) -> bool:
    """Return whether an operation has an operand or result that is a memref of 16-bit floats."""
    return any(isinstance(v.type, ir.MemRefType) and is_half(v.type) for v in (*op.operands, *op.results))


def widen_constant(op: ir.Operation) -> None:
    """Change a constant to f32; unless it is a splat, append an extension, which is folded later."""
    attribute, result = op.attributes["value"], op.results[0]
    if isinstance(attribute, ir.FloatAttr) or attribute.is_splat:
        op.attributes["value"] = constant_as_f32(attribute)
        return
    wide = result.type
    result.set_type(attribute.type)
    with ir.InsertionPoint.after(op), op.location:
        widened = arith.extf(wide, result)
    result.replace_all_uses_except(widened, widened.owner.operation)


def widen_read(op: ir.Operation) -> None:
    """Read a tensor from its memref in the stored type, and widen it.

    Where single elements are extracted, as for rows of a table, only those are widened.
    """
    stored, result = op.operands[0].type, op.results[0]
    if not is_half(stored):
        return
    result.set_type(ir.RankedTensorType.get(stored.shape, stored.element_type))
    with ir.InsertionPoint.after(op), op.location:
        wide = cast_all(result, ir.F32Type.get())
    result.replace_all_uses_except(wide, wide.owner.operation)
    for pick in [use.owner.operation for use in wide.uses if use.owner.operation.name == PICK]:
        with ir.InsertionPoint(pick), pick.location:
            picked = arith.extf(wide.type.element_type, tensor.extract(result, list(pick.operands)[1:]))
        pick.results[0].replace_all_uses_with(picked)
        pick.erase()


def narrow_written(op: ir.Operation) -> None:
    """Truncate a tensor before it is written to its memref."""
    target = op.operands[1].type
    if is_half(target):
        with ir.InsertionPoint(op), op.location:
            op.operands[0] = cast_all(op.operands[0], target.element_type)


def cast_all(value: ir.Value, element: ir.Type) -> ir.Value:
    """Build an element-wise conversion of a tensor to another element type."""
    tensor_type = value.type
    identity = ir.AffineMap.get_identity(len(tensor_type.shape))
    into = tensor.empty(list(tensor_type.shape), element)
    return generic(
        [value], into, [identity, identity], ["parallel"] * len(tensor_type.shape), lambda x, _: cast(x, element)
    )


def cast(x: ir.Value, element: ir.Type) -> ir.Value:
    """Convert a float to another type; to bf16 by integer arithmetic, as some systems lack its runtime routine."""
    if element == ir.F32Type.get():
        return arith.extf(element, x)
    return round_bits(x) if element == ir.BF16Type.get() else arith.truncf(element, x)


def round_bits(x: ir.Value) -> ir.Value:
    """Convert f32 to bf16 by integer arithmetic: round to nearest, ties to even, on the upper half of the bits."""
    word, half = ir.IntegerType.get_signless(32), ir.IntegerType.get_signless(16)
    bits = arith.bitcast(word, x)
    sixteen, one, largest = (arith.constant(word, number) for number in (16, 1, 0x7FFF))
    odd = arith.andi(arith.shrui(bits, sixteen), one)
    rounded = arith.shrui(arith.addi(bits, arith.addi(odd, largest)), sixteen)
    undefined = arith.cmpf(arith.CmpFPredicate.UNO, x, x)
    quiet = arith.constant(word, 0x7FC0)
    return arith.bitcast(ir.BF16Type.get(), arith.trunci(half, arith.select(undefined, quiet, rounded)))
