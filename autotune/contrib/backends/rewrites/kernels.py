"""Lowering of tasks to calls of external kernels.

Before the script, a placeholder operation on tensors stands for the kernel (`stand_ins`). After bufferization, it
becomes a call of a wrapper function, which passes the addresses of the buffers to the kernel:

    %c = linalg.generic {autotune.kernel = "tag"} ins(%a, %b) outs(%empty)   ->   func.call @call_0(%a, %b, %c)
"""

from collections.abc import Callable, Iterator, Sequence

from mlir import ir
from mlir.dialects import func

from autotune.compiler.ir.module import symbol
from autotune.compiler.lowering.rewrites import Rewrite, Unit
from autotune.compiler.tasks.stand_ins import close_gaps, stand_in_for_tasks, stands_in
from autotune.contrib.backends.backend import CALLS
from autotune.core.errors import CompileError
from autotune.core.payload import DTYPES
from autotune.core.plugs.external_kernel import ExternalKernel
from autotune.core.scripts.marks import KERNEL

CALL = "__autotune_call_"


def call_kernels(module: ir.Module, kernels: Sequence[ExternalKernel]) -> None:
    """Replace the placeholder operations of kernels by calls, after buffer allocation.

    A wrapper function takes the addresses of the buffers, so that a buffer is live until the kernel returns.

    Raises:
        CompileError: Stage ``lower``; a kernel's symbol is already defined in the module.
    """
    taken_names = {symbol(op) for op in module.body.operations}
    for kernel in kernels:
        if kernel.symbol in taken_names:
            raise CompileError("lower", f"a kernel must have a name of its own, {kernel.symbol} is one of the module's")
    by_tag, functions = {kernel.tag: kernel for kernel in kernels}, dict[tuple[str, ...], str]()
    for op in stands_in(module):
        kernel = by_tag[ir.StringAttr(op.attributes[KERNEL]).value]
        types = tuple(str(value.type) for value in op.operands)
        if (kernel.tag, *types) not in functions:
            functions[kernel.tag, *types] = name = f"{CALL}{len(functions)}"
            add(module, "\n".join((declaration(kernel), *wrapper(name, kernel, types))))
        with ir.InsertionPoint(op), op.location:
            func.CallOp([], functions[kernel.tag, *types], list(op.operands))
        op.erase()


def add(module: ir.Module, text: str) -> None:
    """Parse functions and add them to a module, without those that it already has."""
    end, existing = ir.InsertionPoint(module.body), {symbol(op) for op in module.body.operations}
    for op in ir.Module.parse(text).body.operations:
        if symbol(op) not in existing:
            op.operation.clone(end)


def declaration(kernel: ExternalKernel) -> str:
    """Return the declaration of a kernel in the LLVM dialect."""
    parameter_types = ", ".join((*["!llvm.ptr"] * len(kernel.types), *["i64"] * len(kernel.made.sizes)))
    return f"llvm.func @{kernel.symbol}({parameter_types})"


def wrapper(name: str, kernel: ExternalKernel, types: Sequence[str]) -> Iterator[str]:
    """Yield the lines of a function on memrefs that calls a kernel with their addresses.

    Args:
        name: Name of the function.
        kernel: Kernel to call.
        types: Types of the memrefs.
    """
    yield f"func.func private @{name}({', '.join(f'%m{i}: {kind}' for i, kind in enumerate(types))}) {{"
    for i, kind in enumerate(types):
        memory = ir.MemRefType(ir.Type.parse(kind))
        sizes = ", ".join(f"%s{i}_{d}" for d in range(2 * memory.rank))
        element = DTYPES[str(memory.element_type)].itemsize
        results = f"%b{i}, %o{i}{f', {sizes}' if sizes else ''}"
        base = f"memref<{memory.element_type}>"
        kinds = ", ".join((base, *["index"] * (1 + 2 * memory.rank)))
        yield f"%p{i} = memref.extract_aligned_pointer_as_index %m{i} : {kind} -> index"
        yield f"{results} = memref.extract_strided_metadata %m{i} : {kind} -> {kinds}"
        yield f"%e{i} = arith.constant {element} : index"
        yield f"%d{i} = arith.muli %o{i}, %e{i} : index"
        yield f"%q{i} = arith.addi %p{i}, %d{i} : index"
        yield f"%i{i} = arith.index_cast %q{i} : index to i64"
        yield f"%a{i} = llvm.inttoptr %i{i} : i64 to !llvm.ptr"
    for i, size in enumerate(kernel.made.sizes):
        yield f"%n{i} = llvm.mlir.constant({size} : i64) : i64"
    call_operands = [*(f"%a{i}" for i in range(len(types))), *(f"%n{i}" for i in range(len(kernel.made.sizes)))]
    parameter_types = ["!llvm.ptr"] * len(types) + ["i64"] * len(kernel.made.sizes)
    yield f"llvm.call @{kernel.symbol}({', '.join(call_operands)}) : ({', '.join(parameter_types)}) -> ()"
    yield "return }"


def rewrite(apply: Callable[[Unit], None], *, before: str = "", behind: str = "") -> Rewrite:
    """Define a rewrite for units with external kernels."""
    return Rewrite(
        CALLS.name, CALLS.version, apply, before=before, behind=behind, needed=lambda unit: bool(unit.kernels)
    )


def types_of_kernels(unit: Unit) -> dict[str, tuple[str, ...]]:
    """Return the memref types of every kernel's operands, by the tag of its task."""
    return {kernel.tag: kernel.types for kernel in unit.kernels}


STAND_INS = rewrite(lambda unit: stand_in_for_tasks(unit.function, types_of_kernels(unit)), before="online-softmax")
GAPS = rewrite(lambda unit: close_gaps(unit.module), behind="panel-loads")
KERNEL_CALLS = rewrite(lambda unit: call_kernels(unit.module, unit.kernels), behind="arena")
