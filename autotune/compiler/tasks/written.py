"""Find the arguments that a function may write; inputs and weights are memory of the caller and must only be read.

The analysis is conservative: any operation on a memref that is not known to only read counts as a write. Tensors of
a memref are not followed: one-shot bufferization copies them before a write, unless ``to_tensor`` is ``writable``.

Source: destination-passing style, https://mlir.llvm.org/docs/Bufferization/.
"""

from collections.abc import Iterator

from mlir import ir

from autotune.compiler.ir.module import every_op, symbol

# Operations that only read a memref, and the position of that operand.
READERS = {
    "affine.load": 0,
    "affine.prefetch": 0,
    "affine.vector_load": 0,
    "memref.copy": 0,
    "memref.dim": 0,
    "memref.load": 0,
    "memref.prefetch": 0,
    "memref.rank": 0,
    "memref.reshape": 1,  # the shape operand; the source is aliased, see VIEWS
    "vector.expandload": 0,
    "vector.gather": 0,
    "vector.load": 0,
    "vector.maskedload": 0,
    "vector.transfer_read": 0,
}
# Operations whose results alias their operands.
VIEWS = {
    "arith.select",
    "bufferization.clone",
    "memref.assume_alignment",
    "memref.cast",
    "memref.collapse_shape",
    "memref.expand_shape",
    "memref.extract_strided_metadata",
    "memref.memory_space_cast",
    "memref.reinterpret_cast",
    "memref.reshape",
    "memref.subview",
    "memref.transpose",
    "memref.view",
}


def writer_of(value: ir.Value) -> str | None:
    """Return the name of an operation that may write a memref or an alias of it; `None` if it is only read."""
    seen, worklist = {value}, [value]
    while worklist:
        for use in worklist.pop().uses:
            op = use.owner.operation
            if reads_only(op, use.operand_number):
                continue
            aliases = same_memory(op, use.operand_number)
            if aliases is None:
                return str(op.name)
            worklist += [each for each in aliases if each not in seen]
            seen.update(aliases)
    return None


def writer_of_read_only(module: ir.Module) -> str | None:
    """Return the name of an operation that may write a ``read_only`` buffer of ``to_buffer``, which is not copied."""
    buffers = (op for op in every_op(module) if op.name == "bufferization.to_buffer" and "read_only" in op.attributes)
    return next(filter(None, (writer_of(op.results[0]) for op in buffers)), None)


def reads_only(op: ir.Operation, number: int) -> bool:
    """Return whether an operation only reads a memref operand."""
    if op.name == "bufferization.to_tensor":
        return "writable" not in op.attributes
    if op.name.startswith("linalg.") and op.regions:
        return number < first_output(op)
    return READERS.get(op.name) == number


def same_memory(op: ir.Operation, number: int) -> list[ir.Value] | None:
    """Return the memrefs that alias an operand; `None` if the operation may write it."""
    if op.name in VIEWS:
        return [each for each in op.results if isinstance(each.type, ir.MemRefType)]
    if op.name == "func.call" and (body := callee(op)) is not None:
        return [body.arguments[number]]
    return None


def callee(call: ir.Operation) -> ir.Block | None:
    """Return the body of the called function; `None` if it is a declaration."""
    name = str(ir.FlatSymbolRefAttr(call.attributes["callee"]).value)
    return next((f.regions[0].blocks[0] for f in functions(call) if symbol(f) == name and f.regions[0].blocks), None)


def functions(op: ir.Operation) -> Iterator[ir.OpView]:
    """Yield the functions of the module that contains an operation."""
    top = op
    while top.parent is not None:
        top = top.parent.operation
    yield from (each for each in top.regions[0].blocks[0].operations if each.operation.name == "func.func")


def first_output(op: ir.Operation) -> int:
    """Return the position of the first ``outs`` operand of a linalg operation."""
    if "operandSegmentSizes" in op.attributes:
        return int(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"])[0])
    return len(op.operands) // 2 if op.name == "linalg.reduce" else len(op.operands) - 1
