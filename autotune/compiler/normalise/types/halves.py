"""Floats of 16 bits: they are stored so, and computed in f32, which is exact where they are read."""

from mlir import ir
from mlir.dialects import arith, tensor

from autotune.compiler.ir.module import every_op, run_passes
from autotune.compiler.ir.nests import dimensions, indexing_maps, loop_nest
from autotune.compiler.ir.values import values_of
from autotune.compiler.normalise.emit import generic
from autotune.compiler.normalise.types.booleans import ON_TENSORS
from autotune.compiler.normalise.types.narrow import narrow_constant, narrowed
from autotune.core.stats import HALVES

READ, WRITE = "bufferization.to_tensor", "bufferization.materialize_in_destination"
WIDEN, NARROW, GENERIC = "arith.extf", "arith.truncf", "linalg.generic"
CASTS = (WIDEN, NARROW)
PICK = "tensor.extract"
MOVES = (READ, "tensor.extract_slice", "tensor.expand_shape", "tensor.collapse_shape", PICK)
BITS = "arith.bitcast"  # what reads a float's bits cannot be computed in another type


def compute_in_singles(module: ir.Module) -> bool:
    """Compute in f32 what is f16 or bf16, in place; tells whether there was any. Arguments stay as they are.

        c = a * b in f16   ->   c = truncf(extf(a) * extf(b) in f32)

    What is narrowed from f32 only to be widened again is rounded, as it was meant.
    A function that works on memrefs of them, or on their bits, stays as it is, and one that computes nothing in them:
    what is widened where it is used is not widened as a whole, by a pass over memory.
    """
    if all(only_widens(op) for op in every_op(module)):
        return False
    run_passes(module, ON_TENSORS)
    ops = every_op(module)
    if any(op.name == BITS or (holds_halves(op) and op.name not in (READ, WRITE)) for op in ops):
        return False
    rounded_to = [element_of(op.results[0].type) if is_rounding(op) else None for op in ops]
    for value in [value for op in ops for value in values_of(op)]:
        if is_half(value.type) and not isinstance(value.type, ir.MemRefType):
            value.set_type(narrowed(value.type))
    for op in ops:
        if op.name == "arith.constant" and is_half(op.attributes["value"].type):
            widen_constant(op)
    for op, rounded in zip(ops, rounded_to, strict=True):
        if op.name == READ:
            widen_read(op)
        elif op.name == WRITE:
            narrow_written(op)
        elif rounded is not None:
            round_value(op, rounded)
        elif op.name in CASTS and op.operands[0].type == op.results[0].type:
            op.results[0].replace_all_uses_with(op.operands[0])
            op.erase()
    run_passes(module, "builtin.module(canonicalize)")
    return True


def is_half(kind: ir.Type) -> bool:
    """Tell whether a type is a float of 16 bits, or tensors or memrefs of it."""
    return str(element_of(kind)) in HALVES


def element_of(kind: ir.Type) -> ir.Type:
    """The type of a float, or of those of tensors or memrefs."""
    return kind.element_type if isinstance(kind, ir.ShapedType) else kind


def is_rounding(op: ir.Operation) -> bool:
    """Tell whether an op narrows an f32 that every op which reads it widens at once."""
    if op.name != NARROW or not is_half(op.results[0].type) or str(element_of(op.operands[0].type)) != "f32":
        return False
    return is_widened(op.results[0])


def is_widened(value: ir.Value) -> bool:
    """Tell whether a number is read, and by ops alone that widen it; by others of whole tensors, too."""
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
    """What the body of a structured op has an operand's elements as."""
    return op.regions[0].blocks[0].arguments[number]


def round_value(op: ir.Operation, element: ir.Type) -> None:
    """Let an op that narrowed a number give it rounded, as wide as it was."""
    with ir.InsertionPoint(op), op.location:
        rounded = arith.extf(op.results[0].type, cast(op.operands[0], element))
    op.results[0].replace_all_uses_with(rounded)
    op.erase()


def only_widens(op: ir.Operation) -> bool:
    """Tell whether an op does nothing with such floats but read, move, widen or round them, or let its body do so.

    Factors of products are not left to bodies: families multiply f32, and read what is stored where they know how.
    """
    if any(is_half(value.type) for value in op.results):
        return op.name in MOVES or (is_rounding(op) and not isinstance(op.results[0].type, ir.ShapedType))
    taken = [number for number, value in enumerate(op.operands) if is_half(value.type)]
    if taken and op.name == GENERIC:
        return not any(is_factor(op, number) for number in taken)
    return not taken or op.name in (*MOVES, WIDEN)


def is_factor(op: ir.Operation, number: int) -> bool:
    """Tell whether a sum reads an operand along every loop that it sums, or in windows."""
    nest = loop_nest(op)
    if nest is None:
        return True
    summed = {loop for loop, kind in enumerate(nest.iterators) if kind == "reduction"}
    loops = dimensions(indexing_maps(op)[number])
    return bool(summed) and (summed <= set(loops) or None in loops)


def holds_halves(op: ir.Operation) -> bool:
    """Tell whether an op reads or makes memrefs of such floats."""
    return any(isinstance(v.type, ir.MemRefType) and is_half(v.type) for v in (*op.operands, *op.results))


def widen_constant(op: ir.Operation) -> None:
    """Let a constant be one of f32; elements that differ are not read here but widened by an op, which is folded."""
    attribute, result = op.attributes["value"], op.results[0]
    if isinstance(attribute, ir.FloatAttr) or attribute.is_splat:
        op.attributes["value"] = narrow_constant(attribute)
        return
    wide = result.type
    result.set_type(attribute.type)
    with ir.InsertionPoint.after(op), op.location:
        widened = arith.extf(wide, result)
    result.replace_all_uses_except(widened, widened.owner.operation)


def widen_read(op: ir.Operation) -> None:
    """Let a tensor be read from its memref as it is stored, and then be widened.

    Where elements are picked, as rows of a table are, those alone are widened.
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
    """Let a tensor be narrowed before it is written to its memref."""
    target = op.operands[1].type
    if is_half(target):
        with ir.InsertionPoint(op), op.location:
            op.operands[0] = cast_all(op.operands[0], target.element_type)


def cast_all(value: ir.Value, element: ir.Type) -> ir.Value:
    """A tensor with another element type, by an op over all its elements."""
    kind = value.type
    same = ir.AffineMap.get_identity(len(kind.shape))
    into = tensor.empty(list(kind.shape), element)
    return generic([value], into, [same, same], ["parallel"] * len(kind.shape), lambda x, _: cast(x, element))


def cast(x: ir.Value, element: ir.Type) -> ir.Value:
    """A float with another type; without the processor's help, bf16 is made by a routine that not all systems have."""
    if element == ir.F32Type.get():
        return arith.extf(element, x)
    return round_bits(x) if element == ir.BF16Type.get() else arith.truncf(element, x)


def round_bits(x: ir.Value) -> ir.Value:
    """The upper half of the bits of an f32, rounded to the nearest, of two as near to the even one; a bf16."""
    word, half = ir.IntegerType.get_signless(32), ir.IntegerType.get_signless(16)
    bits = arith.bitcast(word, x)
    sixteen, one, most = (arith.constant(word, number) for number in (16, 1, 0x7FFF))
    odd = arith.andi(arith.shrui(bits, sixteen), one)
    rounded = arith.shrui(arith.addi(bits, arith.addi(odd, most)), sixteen)
    undefined = arith.cmpf(arith.CmpFPredicate.UNO, x, x)
    quiet = arith.constant(word, 0x7FC0)
    return arith.bitcast(ir.BF16Type.get(), arith.trunci(half, arith.select(undefined, quiet, rounded)))
