"""Booleans in memory: tensors of i1 become tensors of i8, 0 and 1, since LLVM stores no single bits."""

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
SAME_IN_BYTES = ("linalg.fill", "linalg.copy", "linalg.transpose", "linalg.broadcast")  # what moves elements alone
WRITTEN_OUT = ("linalg.generic", "linalg.map", "linalg.reduce")  # ops whose bodies are part of the text
MARK, ANY = "autotune.written_out", "!transform.any_op"


def store_booleans_as_bytes(module: ir.Module) -> bool:
    """Give every tensor and memref of i1 the element type i8, in place; tells whether there was any.

    Bodies of structured ops compute with i1 as before: what they read is compared to 0, what they yield is widened.
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
            kind = ir.FunctionType(ir.TypeAttr(op.attributes["function_type"]).value)
            kinds = ([as_bytes(t) for t in kind.inputs], [as_bytes(t) for t in kind.results])
            op.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(*kinds))
    for op in every_op(module):
        convert_scalars(op)
    return True


def write_out(module: ir.Module) -> None:
    """Write named ops on booleans as generic ones: ``linalg.add`` of i1 is or, but of bytes a sum."""
    found = [op for op in every_op(module) if computes_by_its_name(op)]
    for op in found:
        op.attributes[MARK] = ir.UnitAttr.get()
    if found:
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
    """Tell whether an op on booleans computes, and its text does not say what."""
    named = op.name.startswith("linalg.") and len(op.regions) > 0 and op.name not in (*WRITTEN_OUT, *SAME_IN_BYTES)
    return named and any(holds_booleans_type(value.type) for value in op.operands)


def say_range(function: ir.Operation) -> None:
    """Say of every argument that is to hold booleans that it is 0 or 1."""
    kinds = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value).inputs
    bounds = {LOW: integer(0), HIGH: integer(2)}
    say(function, {number: bounds for number, kind in enumerate(kinds) if holds_booleans_type(kind)})


def holds_booleans(value: ir.Value) -> bool:
    """Tell whether a value is a tensor or memref of i1."""
    return holds_booleans_type(value.type)


def holds_booleans_type(kind: ir.Type) -> bool:
    """Tell whether a type is that of tensors or memrefs of i1."""
    shaped = isinstance(kind, (ir.RankedTensorType, ir.MemRefType))
    return shaped and str(ir.ShapedType(kind).element_type) == "i1"


def as_bytes(kind: ir.Type) -> ir.Type:
    """The type with i8 instead of i1; any other type as it is."""
    if not holds_booleans_type(kind):
        return kind
    byte = ir.IntegerType.get_signless(8)
    if isinstance(kind, ir.MemRefType):
        return ir.MemRefType.get(kind.shape, byte, kind.layout, kind.memory_space)
    return ir.RankedTensorType.get(kind.shape, byte)


def constant_as_bytes(attribute: ir.Attribute) -> ir.Attribute:
    """A constant tensor of i1 as one of i8."""
    held, byte = ir.DenseIntElementsAttr(attribute), ir.IntegerType.get_signless(8)
    kind = ir.RankedTensorType(as_bytes(held.type))
    if held.is_splat:
        one = bool(ir.IntegerAttr(held.get_splat_value()).value)
        return ir.DenseElementsAttr.get_splat(kind, ir.IntegerAttr.get(byte, int(one)))
    values = [ir.IntegerAttr.get(byte, int(bool(held[index]))) for index in range(len(held))]
    return ir.DenseElementsAttr.get(values, kind)


def convert_scalars(op: ir.Operation) -> None:
    """Let an op that hands single elements in or out hand out i1 and take i8."""
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
    """Let everything that reads a byte read whether it is not 0."""
    if not list(value.uses):
        return
    zero = arith.constant(value.type, 0)
    flag = arith.cmpi(arith.CmpIPredicate.ne, value, zero)
    value.replace_all_uses_except(flag, flag.owner.operation)
