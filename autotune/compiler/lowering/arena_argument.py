"""Pass the arena as an argument: the caller provides the memory for intermediates, so that calls may overlap.

A compiled program keeps its arena in a global variable, which is the fastest to access and suffices for one caller. A
library is called by several threads at once: its functions take the arena's address as their last argument.
"""

from collections.abc import Sequence

from mlir import ir

from autotune.compiler.ir.addresses import FUNCTION, POINTER
from autotune.compiler.ir.module import symbol
from autotune.compiler.passes.arena import NAME

ADDRESS, CALL = "llvm.mlir.addressof", "llvm.call"


def pass_arena(module: ir.Module, entry: str) -> None:
    """Add the arena as last argument of a function and of all callees that use it, in place.

    Args:
        module: Module in the LLVM dialect.
        entry: Function that callers of the library call; it gets the argument even if the program has no arena.
    """
    functions = {str(symbol(op)): op.operation for op in module.body.operations if op.operation.name == FUNCTION}
    bodies = {name: inner_ops(op) for name, op in functions.items()}
    needing = {entry}
    needing |= {name for name, ops in bodies.items() if any(is_arena(op) for op in ops)}
    while more := {n for n, ops in bodies.items() if n not in needing and any(callee(op) in needing for op in ops)}:
        needing |= more
    for name in needing:
        add_argument(functions[name])
    for name in needing:
        arena = functions[name].regions[0].blocks[0].arguments[-1]
        for op in bodies[name]:
            if is_arena(op):
                op.results[0].replace_all_uses_with(arena)
                op.erase()
            elif callee(op) in needing:
                call_with(op, arena)
    for op in list(module.body.operations):
        if op.operation.name == "llvm.mlir.global" and (symbol(op) or "").startswith(NAME):
            op.operation.erase()


def inner_ops(op: ir.Operation) -> list[ir.Operation]:
    """Return all operations nested in an operation, in pre-order."""
    nested = []
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                nested += [inner.operation, *inner_ops(inner.operation)]
    return nested


def is_arena(op: ir.Operation) -> bool:
    """Return whether an op takes the address of the arena global."""
    return op.name == ADDRESS and str(op.attributes["global_name"]).startswith(f"@{NAME}")


def callee(op: ir.Operation) -> str | None:
    """Return the symbol of the function that an op calls directly; `None` for any other op."""
    if op.name != CALL or "callee" not in op.attributes:
        return None
    return str(ir.FlatSymbolRefAttr(op.attributes["callee"]).value)


def add_argument(function: ir.Operation) -> None:
    """Append a pointer argument to a function."""
    function_type = str(ir.TypeAttr(function.attributes["function_type"]).value)
    start, _, end = function_type.rpartition(")")
    comma = "" if start.endswith("(") else ", "
    function.attributes["function_type"] = ir.TypeAttr.get(ir.Type.parse(f"{start}{comma}ptr){end}"))
    if "arg_attrs" in function.attributes:
        known = [*ir.ArrayAttr(function.attributes["arg_attrs"]), ir.DictAttr.get({})]
        function.attributes["arg_attrs"] = ir.ArrayAttr.get(known)
    function.regions[0].blocks[0].add_argument(ir.Type.parse(POINTER), ir.Location.unknown())


def call_with(op: ir.Operation, last: ir.Value) -> None:
    """Append an operand to a call."""
    attributes = {name: op.attributes[name] for name in op.attributes}
    operands: Sequence[ir.Value] = [*op.operands, last]
    attributes["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get([len(operands), 0])
    results = [result.type for result in op.results]
    with ir.InsertionPoint(op), op.location:
        fresh = ir.Operation.create(CALL, results, operands, attributes)
    for old, new in zip(op.results, fresh.results, strict=True):
        old.replace_all_uses_with(new)
    op.erase()
