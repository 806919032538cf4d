"""Which arguments a function writes: calls give it memory of the caller, so inputs and weights are only read.

What only reads is listed; whatever else takes a memref counts as written. A tensor of a memref is not followed:
one-shot bufferization copies it before a write, unless ``to_tensor`` says ``writable``.

Source: destination-passing style, https://mlir.llvm.org/docs/Bufferization/.
"""

from collections.abc import Iterator

from mlir import ir

from autotune.compiler.ir.module import every_op, symbol

# Ops that only read a memref, and the operand that they read.
READERS = {
    "affine.load": 0,
    "affine.prefetch": 0,
    "affine.vector_load": 0,
    "memref.copy": 0,
    "memref.dim": 0,
    "memref.load": 0,
    "memref.prefetch": 0,
    "memref.rank": 0,
    "memref.reshape": 1,  # the shape; the other one is below
    "vector.expandload": 0,
    "vector.gather": 0,
    "vector.load": 0,
    "vector.maskedload": 0,
    "vector.transfer_read": 0,
}
# Ops whose results are the same memory.
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
    """Name of an op that may write a memref, through whatever has the same memory; `None` if all only read it."""
    seen, waiting = {value}, [value]
    while waiting:
        for use in waiting.pop().uses:
            op = use.owner.operation
            if reads_only(op, use.operand_number):
                continue
            same = same_memory(op, use.operand_number)
            if same is None:
                return str(op.name)
            waiting += [each for each in same if each not in seen]
            seen.update(same)
    return None


def writer_of_read_only(module: ir.Module) -> str | None:
    """Name of an op that writes a buffer whose ``to_buffer`` says ``read_only``, which is therefore no copy."""
    buffers = (op for op in every_op(module) if op.name == "bufferization.to_buffer" and "read_only" in op.attributes)
    return next(filter(None, (writer_of(op.results[0]) for op in buffers)), None)


def reads_only(op: ir.Operation, number: int) -> bool:
    """Tell whether an op only reads an operand that is a memref."""
    if op.name == "bufferization.to_tensor":
        return "writable" not in op.attributes
    if op.name.startswith("linalg.") and op.regions:
        return number < first_output(op)
    return READERS.get(op.name) == number


def same_memory(op: ir.Operation, number: int) -> list[ir.Value] | None:
    """Memrefs that lie where an operand lies; `None` for an op that may write it."""
    if op.name in VIEWS:
        return [each for each in op.results if isinstance(each.type, ir.MemRefType)]
    if op.name == "func.call" and (body := callee(op)) is not None:
        return [body.arguments[number]]
    return None


def callee(call: ir.Operation) -> ir.Block | None:
    """The body of the function that is called; `None` where it has none."""
    name = str(ir.FlatSymbolRefAttr(call.attributes["callee"]).value)
    return next((f.regions[0].blocks[0] for f in functions(call) if symbol(f) == name and f.regions[0].blocks), None)


def functions(op: ir.Operation) -> Iterator[ir.OpView]:
    """Functions of the module that an op is in."""
    top = op
    while top.parent is not None:
        top = top.parent.operation
    yield from (each for each in top.regions[0].blocks[0].operations if each.operation.name == "func.func")


def first_output(op: ir.Operation) -> int:
    """Index of a linalg op's first ``outs`` operand."""
    if "operandSegmentSizes" in op.attributes:
        return int(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"])[0])
    return len(op.operands) // 2 if op.name == "linalg.reduce" else len(op.operands) - 1
