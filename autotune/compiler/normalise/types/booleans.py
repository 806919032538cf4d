"""Store booleans as bytes: tensors of i1 become tensors of i8 that hold 0 or 1, since LLVM stores no single bits."""

from mlir import ir
from mlir.dialects import arith

from autotune.compiler.ir.arguments import HIGH, LOW, integer, say
from autotune.compiler.ir.module import every_op, run_passes
from autotune.compiler.ir.scripts import run_script
from autotune.compiler.ir.values import values_of

ON_TENSORS = "builtin.module(func.func(convert-elementwise-to-linalg))"
YIELDS = ("linalg.yield", "tensor.yield")
TAKE_SCALARS = ("linalg.fill", "linalg.pack", "tensor.insert", "tensor.from_elements", "tensor.splat", "memref.store")
GIVE_SCALARS = ("tensor.extract", "memref.load")
SAME_IN_BYTES = ("linalg.fill", "linalg.copy", "linalg.transpose", "linalg.broadcast")  # these only move elements
WRITTEN_OUT = ("linalg.generic", "linalg.map", "linalg.reduce")  # operations with an explicit body
MARK, ANY = "autotune.written_out", "!transform.any_op"


def store_booleans_as_bytes(module: ir.Module) -> bool:
    """Change the element type of every tensor and memref of i1 to i8, in place; return whether there were any.

    Bodies of structured operations still compute with i1: elements read are compared to 0, yielded values are extended.
    """
    if not any(holds_booleans(value) for op in every_op(module) for value in values_of(op)):
        return False
    run_passes(module, ON_TENSORS)
    write_out(module)
    for op in every_op(module):
        for value in values_of(op):
            if holds_booleans(value):
                value.set_type(as_bytes(value.type))
        if op.name == "arith.constant" and holds_booleans_type(op.attributes["value"].type):
            op.attributes["value"] = constant_as_bytes(op.attributes["value"])
        if op.name == "func.func":
            say_range(op)
            function_type = ir.FunctionType(ir.TypeAttr(op.attributes["function_type"]).value)
            new_types = ([as_bytes(t) for t in function_type.inputs], [as_bytes(t) for t in function_type.results])
            op.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(*new_types))
    for op in every_op(module):
        convert_scalars(op)
    return True


def write_out(module: ir.Module) -> None:
    """Generalize named operations on booleans: ``linalg.add`` of i1 is a disjunction, of i8 a sum."""
    named_ops = [op for op in every_op(module) if computes_by_its_name(op)]
    for op in named_ops:
        op.attributes[MARK] = ir.UnitAttr.get()
    if named_ops:
        run_script(
            module,
            f"""module attributes {{transform.with_named_sequence}} {{
  transform.named_sequence @__transform_main(%module: {ANY}) {{
    %ops = transform.structured.match attributes{{{MARK}}} in %module : ({ANY}) -> {ANY}
    %generic = transform.structured.generalize %ops : ({ANY}) -> {ANY}
    transform.yield
  }}
}}""",
        )
    for op in every_op(module):
        if MARK in op.attributes:
            del op.attributes[MARK]


def computes_by_its_name(op: ir.Operation) -> bool:
    """Return whether an operation is a named one that computes on booleans."""
    is_named = op.name.startswith("linalg.") and len(op.regions) > 0 and op.name not in (*WRITTEN_OUT, *SAME_IN_BYTES)
    return is_named and any(holds_booleans_type(value.type) for value in op.operands)


def say_range(function: ir.Operation) -> None:
    """Annotate every boolean argument of a function with the range from 0 to 1."""
    input_types = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value).inputs
    bounds = {LOW: integer(0), HIGH: integer(2)}
    say(function, {number: bounds for number, kind in enumerate(input_types) if holds_booleans_type(kind)})


def holds_booleans(value: ir.Value) -> bool:
    """Return whether a value is a tensor or memref of i1."""
    return holds_booleans_type(value.type)


def holds_booleans_type(mlir_type: ir.Type) -> bool:
    """Return whether a type is a tensor or memref of i1."""
    shaped = isinstance(mlir_type, (ir.RankedTensorType, ir.MemRefType))
    return shaped and str(ir.ShapedType(mlir_type).element_type) == "i1"


def as_bytes(mlir_type: ir.Type) -> ir.Type:
    """Return the type with i8 instead of i1; any other type unchanged."""
    if not holds_booleans_type(mlir_type):
        return mlir_type
    byte = ir.IntegerType.get_signless(8)
    if isinstance(mlir_type, ir.MemRefType):
        return ir.MemRefType.get(mlir_type.shape, byte, mlir_type.layout, mlir_type.memory_space)
    return ir.RankedTensorType.get(mlir_type.shape, byte)


def constant_as_bytes(attribute: ir.Attribute) -> ir.Attribute:
    """Convert a constant tensor of i1 to i8."""
    elements, byte = ir.DenseIntElementsAttr(attribute), ir.IntegerType.get_signless(8)
    tensor_type = ir.RankedTensorType(as_bytes(elements.type))
    if elements.is_splat:
        flag = bool(ir.IntegerAttr(elements.get_splat_value()).value)
        return ir.DenseElementsAttr.get_splat(tensor_type, ir.IntegerAttr.get(byte, int(flag)))
    values = [ir.IntegerAttr.get(byte, int(bool(elements[index]))) for index in range(len(elements))]
    return ir.DenseElementsAttr.get(values, tensor_type)


def convert_scalars(op: ir.Operation) -> None:
    """Insert conversions around an operation that reads or writes single elements: i8 in memory, i1 in the body."""
    boolean, byte = ir.IntegerType.get_signless(1), ir.IntegerType.get_signless(8)
    if op.name == "linalg.fill":
        for argument in op.regions[0].blocks[0].arguments:
            argument.set_type(as_bytes(op.operands[1].type).element_type)
    elif op.name.startswith("linalg.") and op.regions:
        for block in op.regions[0].blocks:
            for argument, operand in zip(block.arguments, op.operands, strict=False):
                if argument.type == boolean and operand.type != boolean:
                    argument.set_type(byte)
                    with ir.InsertionPoint.at_block_begin(block), op.location:
                        narrow(argument)
    if op.name in GIVE_SCALARS and op.results[0].type == boolean:
        op.results[0].set_type(byte)
        with ir.InsertionPoint.after(op), op.location:
            narrow(op.results[0])
    if op.name in YIELDS or op.name in TAKE_SCALARS:
        for number, value in enumerate(op.operands):
            if value.type == boolean:
                with ir.InsertionPoint(op), op.location:
                    op.operands[number] = arith.extui(byte, value)


def narrow(value: ir.Value) -> None:
    """Replace all uses of a byte by its comparison with 0."""
    if not list(value.uses):
        return
    zero = arith.constant(value.type, 0)
    flag = arith.cmpi(arith.CmpIPredicate.ne, value, zero)
    value.replace_all_uses_except(flag, flag.owner.operation)
