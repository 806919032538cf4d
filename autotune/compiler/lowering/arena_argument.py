"""The arena as an argument: whoever calls a program brings the memory for its intermediates, so that calls may overlap.

A compiled program keeps its arena in a global of its own, which is fastest to reach and enough for one caller. A
library is called by several threads at once: its functions take the arena's address behind their other arguments.
"""

from collections.abc import Sequence

from mlir import ir

from autotune.compiler.ir.addresses import FUNCTION, POINTER
from autotune.compiler.ir.module import symbol
from autotune.compiler.passes.arena import NAME

ADDRESS, CALL = "llvm.mlir.addressof", "llvm.call"


def pass_arena(module: ir.Module, entry: str) -> None:
    """Let a function, and what it calls, take the arena as a last argument, in place; also where there is none.

    Args:
        module: A module in the LLVM dialect.
        entry: The function that others call.
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
    """Every operation inside of one, outermost first."""
    found = []
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                found += [inner.operation, *inner_ops(inner.operation)]
    return found


def is_arena(op: ir.Operation) -> bool:
    """Whether an op takes the arena's address."""
    return op.name == ADDRESS and str(op.attributes["global_name"]).startswith(f"@{NAME}")


def callee(op: ir.Operation) -> str | None:
    """The function that an op calls by name."""
    if op.name != CALL or "callee" not in op.attributes:
        return None
    return str(ir.FlatSymbolRefAttr(op.attributes["callee"]).value)


def add_argument(function: ir.Operation) -> None:
    """Give a function one more argument, a pointer."""
    kind = str(ir.TypeAttr(function.attributes["function_type"]).value)
    start, _, end = kind.rpartition(")")
    comma = "" if start.endswith("(") else ", "
    function.attributes["function_type"] = ir.TypeAttr.get(ir.Type.parse(f"{start}{comma}ptr){end}"))
    if "arg_attrs" in function.attributes:
        known = [*ir.ArrayAttr(function.attributes["arg_attrs"]), ir.DictAttr.get({})]
        function.attributes["arg_attrs"] = ir.ArrayAttr.get(known)
    function.regions[0].blocks[0].add_argument(ir.Type.parse(POINTER), ir.Location.unknown())


def call_with(op: ir.Operation, last: ir.Value) -> None:
    """Call the same function with one more argument."""
    attributes = {name: op.attributes[name] for name in op.attributes}
    operands: Sequence[ir.Value] = [*op.operands, last]
    attributes["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get([len(operands), 0])
    results = [result.type for result in op.results]
    with ir.InsertionPoint(op), op.location:
        fresh = ir.Operation.create(CALL, results, operands, attributes)
    for old, new in zip(op.results, fresh.results, strict=True):
        old.replace_all_uses_with(new)
    op.erase()
