"""Tasks computed by code of others: on tensors an op stands for the call, on buffers it becomes the call.

The ops of such a task become one ``linalg.generic`` before the script, with the attribute `KERNEL`: it reads all that
the kernel reads, and writes what the kernel writes, so that bufferization and the arena treat it as any other op. What
it computes says nothing. When buffers have their places it becomes a call of a function, which hands addresses on:

    %c = linalg.generic {autotune.kernel = "tag"} ins(%a, %b) outs(%empty)   ->   func.call @call_0(%a, %b, %c)
"""

from collections.abc import Callable, Iterator, Sequence

from mlir import ir
from mlir.dialects import func, linalg, memref, tensor

from autotune.compiler.ir.extents import static_shape
from autotune.compiler.ir.module import every_op, symbol
from autotune.compiler.ir.nests import structured_ops
from autotune.compiler.ir.values import fill_of
from autotune.compiler.lowering.rewrites import AFTER_SCRIPT, ARENA, BEFORE_SCRIPT, Rewrite, Unit
from autotune.compiler.normalise.emit import dims, generic, read_all
from autotune.compiler.tasks.groups import Group, find_groups
from autotune.compiler.tasks.outline import is_fresh, taken
from autotune.core.arena_plan import ALIGNMENT
from autotune.core.errors import CompileError
from autotune.core.payload import DTYPES
from autotune.core.plugs.foreign_kernel import ForeignKernel
from autotune.core.scripts.marks import KERNEL, TAG

CALL = "__autotune_call_"


def stand_in_for_tasks(function: ir.OpView, kernels: Sequence[ForeignKernel]) -> None:
    """Put an op that stands for a kernel in the place of every task that one computes.

    Args:
        function: The entry function, tagged, on tensors.
        kernels: Code of others, by the tags of tasks.

    Raises:
        CompileError: Stage ``transform``; there is no such task, or it takes other operands than the kernel.
    """
    wanted, found = {kernel.tag: kernel for kernel in kernels}, set[str]()
    for group in find_groups(list(structured_ops(function.regions[0].blocks[0]))):
        for unit in (group, *group.alone()):
            kernel = wanted.get(tag_of(unit.ops[0]))
            if kernel is not None and types_of(unit) == kernel.types:
                stand_in(unit, kernel.tag)
                found.add(kernel.tag)
                break
    for tag in wanted.keys() - found:
        types = ", ".join(wanted[tag].types)
        raise CompileError("transform", f"a kernel must be of a task of the module, {tag} ({types}) is not")


def tag_of(op: ir.Operation) -> str:
    """The tag of a task's root; empty where an op has none."""
    return str(ir.StringAttr(op.attributes[TAG]).value) if TAG in op.attributes else ""


def types_of(unit: Group) -> tuple[str, ...]:
    """Memref types of the operands of a task's kernel."""
    ops = unit.in_order
    return tuple(memref_type(value) for value in (*taken(ops), *ops[-1].results))


def memref_type(value: ir.Value) -> str:
    """The type of a memref that holds a tensor; of a value that is none, its own."""
    if not isinstance(value.type, ir.RankedTensorType):
        return str(value.type)
    return f"memref<{''.join(f'{size}x' for size in static_shape(value))}{value.type.element_type}>"


def stand_in(unit: Group, tag: str) -> None:
    """Replace the ops of a task by one that reads and writes the same."""
    ops = unit.in_order
    root, inputs = ops[-1], taken(ops)
    with ir.InsertionPoint(root), root.location:
        into = destination(root)
        ranks = [len(static_shape(value)) for value in (*inputs, into)]
        loops, start, maps = dims(sum(ranks)), 0, []
        for rank in ranks:
            maps.append(ir.AffineMap.get(sum(ranks), 0, loops[start : start + rank]))
            start += rank
        kinds = ["reduction"] * sum(ranks[:-1]) + ["parallel"] * ranks[-1]
        made = generic(inputs, into, maps, kinds, read_all)
    made.owner.attributes[KERNEL] = ir.StringAttr.get(tag)
    root.results[0].replace_all_uses_with(made)
    for op in reversed(ops):
        op.erase()


def destination(root: ir.Operation) -> ir.Value:
    """A tensor of which the kernel writes every element: where the task's root would, as it was before any fill."""
    into, last = root.operands[-1], len(root.operands) - 1
    if not is_fresh(root, last, last):
        return tensor.empty(static_shape(into), into.type.element_type)
    fill = fill_of(into)
    return fill.operands[1] if fill is not None else into


def stands_in(module: ir.Module) -> list[ir.Operation]:
    """All ops that stand for kernels."""
    return [op for op in every_op(module) if op.name == "linalg.generic" and KERNEL in op.attributes]


def close_gaps(module: ir.Module) -> None:
    """Copy operands of kernels that have gaps between rows: a kernel takes none. On buffers, before they get places."""
    for op in stands_in(module):
        last = len(op.operands) - 1
        for place, value in enumerate(op.operands):
            kind = ir.MemRefType(value.type)
            if is_dense(kind):
                continue
            with ir.InsertionPoint(op), op.location:
                copy = memref.alloc(ir.MemRefType.get(kind.shape, kind.element_type), [], [], alignment=ALIGNMENT)
                if place < last:
                    linalg.copy(value, outs=[copy])
            op.operands[place] = copy
            if place == last:
                with ir.InsertionPoint.after(op), op.location:
                    linalg.copy(copy, outs=[value])


def is_dense(kind: ir.MemRefType) -> bool:
    """Tell whether elements lie in row-major order without gaps."""
    strides, _ = kind.get_strides_and_offset()
    wanted = 1
    for size, stride in reversed(list(zip(kind.shape, strides, strict=True))):
        if size != 1 and stride != wanted:
            return False
        wanted *= size
    return True


def call_kernels(module: ir.Module, kernels: Sequence[ForeignKernel]) -> None:
    """Make calls of the ops that stand for kernels, once every buffer has its place.

    The address of a buffer is taken in a function of its own, so that the buffer lives until the kernel returns.

    Raises:
        CompileError: Stage ``lower``; a kernel's symbol is a name of the module.
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
    """Functions as text, in a module, but for those that it has."""
    end, known = ir.InsertionPoint(module.body), {symbol(op) for op in module.body.operations}
    for op in ir.Module.parse(text).body.operations:
        if symbol(op) not in known:
            op.operation.clone(end)


def declaration(kernel: ForeignKernel) -> str:
    """The kernel as LLVM knows it."""
    kinds = ", ".join((*["!llvm.ptr"] * len(kernel.types), *["i64"] * len(kernel.made.sizes)))
    return f"llvm.func @{kernel.symbol}({kinds})"


def wrapper(name: str, kernel: ForeignKernel, types: Sequence[str]) -> Iterator[str]:
    """A function on memrefs that calls a kernel with their addresses.

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
    given = [*(f"%a{i}" for i in range(len(types))), *(f"%n{i}" for i in range(len(kernel.made.sizes)))]
    taken_kinds = ["!llvm.ptr"] * len(types) + ["i64"] * len(kernel.made.sizes)
    yield f"llvm.call @{kernel.symbol}({', '.join(given)}) : ({', '.join(taken_kinds)}) -> ()"
    yield "return }"


def rewrite(apply: Callable[[Unit], None], *, before: str = "", behind: str = "") -> Rewrite:
    """A part of what puts code of others in a program, where a unit has such code."""
    return Rewrite("kernels", 1, apply, before=before, behind=behind, needed=lambda unit: bool(unit.kernels))


STAND_INS = rewrite(lambda unit: stand_in_for_tasks(unit.function, unit.kernels), before=BEFORE_SCRIPT[0].name)
GAPS = rewrite(lambda unit: close_gaps(unit.module), behind=AFTER_SCRIPT[-1].name)
KERNEL_CALLS = rewrite(lambda unit: call_kernels(unit.module, unit.kernels), behind=ARENA.name)
